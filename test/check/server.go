package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// server is the checked server.
type server struct {
	url     string
	http    *http.Client
	workers int
	wait    time.Duration

	dormantAfter, settledAfter time.Duration
}

func newServer(opts options) *server {
	return &server{
		url: opts.server, workers: opts.workers, wait: opts.wait,
		dormantAfter: opts.dormantAfter, settledAfter: opts.settledAfter,
		http: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: opts.workers}},
	}
}

// mostTries is the maximum number of tries for a document that is temporarily unavailable. A database on a busy machine can be
// slow.
const mostTries = 60

// get reads a JSON document.
func (s *server) get(ctx context.Context, path string, query url.Values, into any) error {
	for try := 1; ; try++ {
		status, err := s.tryGet(ctx, path, query, into)
		if status != http.StatusServiceUnavailable || try == mostTries {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (s *server) tryGet(ctx context.Context, path string, query url.Values, into any) (status int, _ error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return 0, err
	}
	answer, err := s.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return answer.StatusCode, fmt.Errorf("GET %s: %w", path, err)
	case answer.StatusCode != http.StatusOK:
		return answer.StatusCode, fmt.Errorf("GET %s: %s: %s", path, answer.Status, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return answer.StatusCode, fmt.Errorf("GET %s: %w", path, err)
	}
	return answer.StatusCode, nil
}

// each calls do for all items, several at a time, until one returns an error.
func each[T any](ctx context.Context, workers int, items []T, do func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan T)
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for item := range queue {
				if err := do(ctx, item); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, item := range items {
		if ctx.Err() != nil {
			break
		}
		queue <- item
	}
	close(queue)
	working.Wait()
	return context.Cause(ctx)
}
