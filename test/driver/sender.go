package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// firstPause and lastPause bound the pauses between two tries, each of which is twice as long as the one before.
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	// patience is how long one request may take.
	patience = 30 * time.Second
)

// sender sends messages until they are accepted.
type sender struct {
	url  string
	key  string
	http *http.Client

	busy, broken atomic.Int64
}

func newSender(url, key string, connections int) *sender {
	transport := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}
	return &sender{url: url, key: key, http: &http.Client{Timeout: patience, Transport: transport}}
}

// send publishes a message, again and again until the server answers that it is accepted, and returns the id that it was
// answered with and how many tries it took.
func (s *sender) send(ctx context.Context, line int, d draft) (id string, tries int, err error) {
	body, err := json.Marshal(d)
	if err != nil {
		return "", 0, err
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		tries++
		id, wait, err := s.try(ctx, line, body, d.From)
		if err != nil || id != "" {
			return id, tries, err
		}
		select {
		case <-time.After(max(wait, pause)):
		case <-ctx.Done():
			return "", tries, context.Cause(ctx)
		}
	}
}

// try sends a message once. An empty id means to try again, after a while at the least.
func (s *sender) try(ctx context.Context, line int, body []byte, from string) (id string, wait time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", s.key+"-"+strconv.Itoa(line))
	answer, err := s.http.Do(request)
	if err != nil {
		s.broken.Add(1)
		return "", 0, nil // the server is away: it may come back
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.broken.Add(1)
		return "", 0, nil // the server went away amid its answer
	}
	switch answer.StatusCode {
	case http.StatusAccepted:
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		s.busy.Add(1)
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // none is no wait
		return "", time.Duration(seconds) * time.Second, nil
	default:
		return "", 0, fmt.Errorf("the server answered %s: %s", answer.Status, text)
	}
	var receipt struct {
		ID   string `json:"id"`
		From string `json:"from"`
	}
	if err := json.Unmarshal(text, &receipt); err != nil || receipt.ID == "" || receipt.From != from {
		return "", 0, fmt.Errorf("the server answered %s with %s, which is no receipt of this message", answer.Status, text)
	}
	return receipt.ID, 0, nil
}
