package main

import (
	"bytes"
	"cmp"
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
	// firstPause and lastPause limit the pauses between two tries. Each pause is twice as long as the one before.
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	// patience is the timeout of one request.
	patience = 30 * time.Second
)

// caller repeats requests until they are answered, also while the server restarts or is unreachable.
type caller struct {
	url  string
	http *http.Client

	// busy counts answers that asked for a later try, ahead those of a server whose clock is ahead, broken requests without an answer.
	busy, ahead, broken atomic.Int64
}

// idleConnections is the number of open connections if their number is not limited.
const idleConnections = 64

// newCaller returns a caller that uses at most this number of connections; 0 means no limit.
func newCaller(url string, connections int) *caller {
	transport := &http.Transport{MaxIdleConnsPerHost: cmp.Or(connections, idleConnections), MaxConnsPerHost: connections}
	return &caller{url: url, http: &http.Client{Timeout: patience, Transport: transport}}
}

// request is a request that can be repeated.
type request struct {
	method, path string
	content, key string // the Content-Type and the Idempotency-Key, or nothing
	body         []byte
}

// answer is the answer to a request.
type answer struct {
	status int
	text   []byte
	// tries counts the tries until the answer, including the last.
	tries int
}

// unexpected returns an error for an answer that is not expected.
func (a answer) unexpected(r request) error {
	return fmt.Errorf("%s %s: the server answered %d: %s", r.method, r.path, a.status, a.text)
}

// call repeats a request until the server answers it and is not busy. It returns an error only if ctx ends or the request is
// invalid.
func (c *caller) call(ctx context.Context, r request) (answer, error) {
	for tries, pause := 1, firstPause; ; tries, pause = tries+1, min(2*pause, lastPause) {
		got, wait, err := c.try(ctx, r)
		if got.tries = tries; err != nil || got.status != 0 {
			return got, err
		}
		if err := rest(ctx, max(wait, pause)); err != nil {
			return got, err
		}
	}
}

// try sends a request once. A status of 0 asks the caller to try again, after at least wait.
func (c *caller) try(ctx context.Context, r request) (got answer, wait time.Duration, err error) {
	sent, err := http.NewRequestWithContext(ctx, r.method, c.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		return got, 0, err
	}
	if r.content != "" {
		sent.Header.Set("Content-Type", r.content)
	}
	if r.key != "" {
		sent.Header.Set("Idempotency-Key", r.key)
	}
	received, err := c.http.Do(sent)
	if err != nil {
		c.broken.Add(1)
		return got, 0, nil // the server cannot be reached and may return
	}
	defer func() { _ = received.Body.Close() }()
	text, err := io.ReadAll(received.Body)
	switch {
	case err != nil:
		c.broken.Add(1)
		return got, 0, nil // the server broke off its answer
	case received.StatusCode == http.StatusServiceUnavailable, received.StatusCode == http.StatusTooManyRequests:
		c.refused(text).Add(1)
		seconds, _ := strconv.Atoi(received.Header.Get("Retry-After")) // without the header, wait is 0
		return got, time.Duration(seconds) * time.Second, nil
	}
	return answer{status: received.StatusCode, text: text}, 0, nil
}

// clockAhead is the type of the problem of a server that publishes nothing because its clock is ahead.
const clockAhead = "urn:fanmail:problem:clock-ahead"

// refused returns the counter for an answer that asked for a later try.
func (c *caller) refused(text []byte) *atomic.Int64 {
	var problem struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(text, &problem) == nil && problem.Type == clockAhead {
		return &c.ahead
	}
	return &c.busy
}

// rest waits for d. If ctx ends first, it returns the cause.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
