package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// sender repeats messages until they are accepted, and changes of edges until they are made.
type sender struct {
	*caller
	key string
}

// send publishes a message, and repeats the request until the server accepts it. It returns the id and the number of tries.
func (s *sender) send(ctx context.Context, line int, d draft) (id string, tries int, err error) {
	body, err := json.Marshal(d)
	if err != nil {
		return "", 0, err
	}
	r := request{
		method: http.MethodPost, path: "/v1/messages", content: "application/json", key: s.key + "-" + strconv.Itoa(line), body: body,
	}
	got, err := s.call(ctx, r)
	if err != nil {
		return "", got.tries, err
	}
	var receipt struct {
		ID   string `json:"id"`
		From string `json:"from"`
	}
	if got.status != http.StatusAccepted {
		return "", got.tries, got.unexpected(r)
	}
	if err := json.Unmarshal(got.text, &receipt); err != nil || receipt.ID == "" || receipt.From != d.From {
		return "", got.tries, fmt.Errorf("the server answered %s, which is no receipt of this message", got.text)
	}
	return receipt.ID, got.tries, nil
}

// change carries out a line with changes.
func (s *sender) change(ctx context.Context, c change) (tries int, err error) {
	if len(c.Follow) > 0 {
		return s.begin(ctx, c.Follow)
	}
	var paths []string
	for _, p := range c.Unfollow {
		paths = append(paths, "/v1/users/"+url.PathEscape(p.Follower)+"/following/"+url.PathEscape(p.Followee))
	}
	return s.end(ctx, paths)
}

// begin creates edges in one request, so that all begin at the same time.
func (s *sender) begin(ctx context.Context, changes []pair) (tries int, err error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	for _, c := range changes {
		if err := encoder.Encode(c); err != nil {
			return 0, err
		}
	}
	accepted, tries, err := s.batch(ctx, "/v1/following:batch", body.Bytes())
	if err == nil && accepted != len(changes) {
		err = fmt.Errorf("the server accepted %d of %v", accepted, changes)
	}
	return tries, err
}

// batch sends a batch and returns the number of accepted lines.
func (c *caller) batch(ctx context.Context, path string, body []byte) (accepted, tries int, err error) {
	r := request{method: http.MethodPost, path: path, content: "application/x-ndjson", body: body}
	got, err := c.call(ctx, r)
	if err != nil {
		return 0, got.tries, err
	}
	var result struct {
		Accepted int `json:"accepted"`
	}
	if got.status != http.StatusOK || json.Unmarshal(got.text, &result) != nil {
		return 0, got.tries, got.unexpected(r)
	}
	return result.Accepted, got.tries, nil
}

// end ends edges, one after another.
func (s *sender) end(ctx context.Context, paths []string) (tries int, err error) {
	for _, path := range paths {
		r := request{method: http.MethodDelete, path: path}
		got, err := s.call(ctx, r)
		if tries += got.tries; err != nil {
			return tries, err
		}
		if got.status != http.StatusNoContent {
			return tries, got.unexpected(r)
		}
	}
	return tries, nil
}
