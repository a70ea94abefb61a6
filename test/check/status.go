package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// poll is the pause between two requests for the status of a message, or of an inbox.
const poll = 500 * time.Millisecond

// pause waits until the next request. It returns the cause if ctx ends first.
func pause(ctx context.Context) error {
	select {
	case <-time.After(poll):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// checkStatuses waits until the fan-out of every message is done, and checks the reported counts.
func (s *server) checkStatuses(ctx context.Context, want *expected, found *report) error {
	for _, id := range want.twice {
		found.add("id of several messages", "%s", id)
	}
	for _, id := range want.badIDs {
		found.add("id is no UUIDv7", "%s", id)
	}
	deadline := time.Now().Add(s.wait)
	return each(ctx, s.workers, want.messages, func(ctx context.Context, m *message) error {
		return s.checkStatus(ctx, m, deadline, found)
	})
}

func (s *server) checkStatus(ctx context.Context, m *message, deadline time.Time, found *report) error {
	var status struct {
		published
		Fanout struct {
			State      string `json:"state"`
			Recipients int64  `json:"recipients"`
			Delivered  int64  `json:"delivered"`
			Skipped    int64  `json:"skipped"`
		} `json:"fanout"`
	}
	for {
		if err := s.get(ctx, "/v1/messages/"+m.ID, nil, &status); err != nil {
			return err
		}
		if status.Fanout.State == "done" || time.Now().After(deadline) {
			break
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("message %s is %s: %w", m.ID, status.Fanout.State, err)
		}
	}
	to := slices.Clone(m.To)
	slices.Sort(to)
	f := status.Fanout
	switch {
	case f.State != "done":
		found.add("not done", "%s is %s: delivered %d, skipped %d", m.ID, f.State, f.Delivered, f.Skipped)
	case !m.delivered.holds(f.Delivered), !m.skipped.holds(f.Skipped), !m.recipients.holds(f.Recipients), f.Recipients != f.Delivered+f.Skipped:
		found.add("wrong counts", "%s has recipients %d, delivered %d, skipped %d: should be %s, %s, %s",
			m.ID, f.Recipients, f.Delivered, f.Skipped, m.recipients, m.delivered, m.skipped)
	}
	if status.From != m.From || status.Body != m.Body || status.Audience != m.Audience ||
		!slices.Equal(status.To, slices.Compact(to)) {
		found.add("wrong message", "%s is not what was published", m.ID)
	}
	found.count(f.Delivered, f.Skipped)
	return nil
}
