package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// entry is a message in an inbox.
type entry struct {
	ID   string    `json:"id"`
	From string    `json:"from"`
	Sent time.Time `json:"sent"`
	Body string    `json:"body"`
}

// inbox is the result of reading an inbox.
type inbox struct {
	entries []entry // newest first
	totals  []int   // the field total of each page
	// complete means that all pages reported a complete inbox, incomplete that no page did.
	complete, incomplete bool
}

// awaitSweeps waits until the inboxes of all users who have returned are complete. A message whose fan-out ended after the last look may
// be left to a sweep, which a reaper starts later. An inbox that stays incomplete is left to checkComplete.
func (s *server) awaitSweeps(ctx context.Context, in input) error {
	deadline := time.Now().Add(s.wait)
	return each(ctx, s.workers, slices.Sorted(maps.Keys(in.looks)), func(ctx context.Context, user string) error {
		for {
			var page struct {
				Complete bool `json:"complete"`
			}
			err := s.get(ctx, "/v1/users/"+url.PathEscape(user)+"/inbox", url.Values{"limit": {"1"}, "peek": {"true"}}, &page)
			if err != nil || page.Complete || time.Now().After(deadline) {
				return err
			}
			if err := pause(ctx); err != nil {
				return fmt.Errorf("the inbox of %s is not complete: %w", user, err)
			}
		}
	})
}

// checkInboxes reads every inbox in pages of size messages, and checks the contents. A user who was never seen has none to peek at.
func (s *server) checkInboxes(ctx context.Context, in input, want *expected, size int, found *report) error {
	return each(ctx, s.workers, slices.Sorted(maps.Keys(want.inboxes)), func(ctx context.Context, user string) error {
		if _, seen := in.seen[user]; !seen && len(in.looks[user]) == 0 && !in.twins[user] {
			return nil
		}
		begun := time.Now()
		got, err := s.readInbox(ctx, user, size, len(want.inboxes[user]), found)
		if err != nil {
			return err
		}
		compare(user, got.entries, want, found)
		found.countGapPages(user, got.entries, size)
		s.checkComplete(user, got, in, begun, found)
		if got.complete {
			checkTotals(user, got, want, found)
		}
		return nil
	})
}

// readInbox reads an inbox. It stops early if the inbox has more than a page of entries too many.
func (s *server) readInbox(ctx context.Context, user string, size, wanted int, found *report) (inbox, error) {
	got := inbox{complete: true, incomplete: true}
	query := url.Values{"limit": {strconv.Itoa(size)}, "peek": {"true"}}
	for {
		var page struct {
			Messages []entry `json:"messages"`
			Next     *string `json:"next"`
			Total    int     `json:"total"`
			Complete bool    `json:"complete"`
		}
		err := s.get(ctx, "/v1/users/"+url.PathEscape(user)+"/inbox", query, &page)
		if err != nil {
			return got, err
		}
		got.entries = append(got.entries, page.Messages...)
		got.totals = append(got.totals, page.Total)
		got.complete, got.incomplete = got.complete && page.Complete, got.incomplete && !page.Complete
		switch {
		case len(page.Messages) > size, page.Next != nil && len(page.Messages) < size:
			found.add("wrong page", "%s: a page of %d has %d messages", user, size, len(page.Messages))
		}
		if page.Next == nil || len(got.entries) > wanted+size {
			return got, nil
		}
		query.Set("before", *page.Next)
	}
}

// checkComplete checks the field complete of the pages. The inbox of a user who was seen recently, or has returned, is complete.
// Other inboxes are not. For a time around the horizon both are correct.
func (s *server) checkComplete(user string, got inbox, in input, begun time.Time, found *report) {
	seen, known := in.seen[user]
	horizon := seen.Add(s.dormantAfter)
	active := len(in.looks[user]) > 0 || known && horizon.After(time.Now().Add(s.settledAfter))
	dormant := !active && !in.twins[user] && (!known || horizon.Before(begun))
	if active && !got.complete || dormant && !got.incomplete {
		found.add("wrong completeness", "%s: complete is %t on every page, incomplete is %t", user, got.complete, got.incomplete)
	}
}

// checkTotals checks the number of messages that each page reports for the whole inbox.
func checkTotals(user string, got inbox, want *expected, found *report) {
	wanted := len(want.inboxes[user])
	if slices.ContainsFunc(want.inboxes[user], func(b belonging) bool { return b.perhaps }) {
		wanted = len(got.entries)
	}
	for _, total := range got.totals {
		if total != wanted {
			found.add("wrong total", "%s: total is %d, should be %d", user, total, wanted)
		}
	}
}

// compare reports the differences between an inbox and the expected one.
func compare(user string, entries []entry, want *expected, found *report) {
	belongs := make(map[string]bool, len(want.inboxes[user]))
	for _, m := range want.inboxes[user] {
		belongs[m.ID] = true
	}
	has := make(map[string]bool, len(entries))
	for i, e := range entries {
		switch {
		case has[e.ID]:
			found.add("double", "%s has %s more than once", user, e.ID)
		case i > 0 && e.ID > entries[i-1].ID:
			found.add("out of order", "%s has %s after %s", user, e.ID, entries[i-1].ID)
		}
		has[e.ID] = true
		m := want.byID[e.ID]
		switch {
		case !belongs[e.ID]:
			found.add("extra", "%s has %s from %s", user, e.ID, e.From)
		case e.Body != m.Body || e.From != m.From || !e.Sent.Equal(m.sent):
			found.add("wrong content", "%s has %s from %s with the body %.40q: should be from %s with %.40q", user, e.ID, e.From, e.Body, m.From, m.Body)
		}
	}
	for _, m := range want.inboxes[user] {
		if !has[m.ID] && !m.perhaps {
			found.add("missing", "%s lacks %s from %s", user, m.ID, m.From)
		}
	}
}
