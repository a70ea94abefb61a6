package main

import (
	"bytes"
	"cmp"
	"context"
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

// caller sends requests until they are answered, whatever happens to the server meanwhile.
type caller struct {
	url  string
	http *http.Client

	// busy counts answers that asked to come back later, broken requests that were not answered.
	busy, broken atomic.Int64
}

// idleConnections is how many connections are kept where their number is not bounded.
const idleConnections = 64

// newCaller returns a caller that uses at most so many connections; 0 means as many as it takes.
func newCaller(url string, connections int) *caller {
	transport := &http.Transport{MaxIdleConnsPerHost: cmp.Or(connections, idleConnections), MaxConnsPerHost: connections}
	return &caller{url: url, http: &http.Client{Timeout: patience, Transport: transport}}
}

// request is what is to be sent, as often as it takes.
type request struct {
	method, path string
	content, key string // the Content-Type and the Idempotency-Key, or nothing
	body         []byte
}

// answer is what a request was answered with.
type answer struct {
	status int
	text   []byte
	// tries counts the requests that it took.
	tries int
}

// unexpected returns an error that says that a request was answered with something it should not have been.
func (a answer) unexpected(r request) error {
	return fmt.Errorf("%s %s: the server answered %d: %s", r.method, r.path, a.status, a.text)
}

// call sends a request again and again, until the server answers, and not that it is busy.
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

// try sends a request once. A status of 0 means to try again, after a while at the least.
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
		return got, 0, nil // the server is away: it may come back
	}
	defer func() { _ = received.Body.Close() }()
	text, err := io.ReadAll(received.Body)
	switch {
	case err != nil:
		c.broken.Add(1)
		return got, 0, nil // the server went away amid its answer
	case received.StatusCode == http.StatusServiceUnavailable, received.StatusCode == http.StatusTooManyRequests:
		c.busy.Add(1)
		seconds, _ := strconv.Atoi(received.Header.Get("Retry-After")) // none is no wait
		return got, time.Duration(seconds) * time.Second, nil
	}
	return answer{status: received.StatusCode, text: text}, 0, nil
}

// rest waits, or returns why ctx has ended.
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
