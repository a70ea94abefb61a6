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

// checkInboxes reads every inbox in pages of one size, and checks what is in it.
func (s *server) checkInboxes(ctx context.Context, want *expected, size int, found *report) error {
	pages := found.pages(size)
	return each(ctx, s.workers, slices.Sorted(maps.Keys(want.inboxes)), func(ctx context.Context, user string) error {
		entries, err := s.readInbox(ctx, user, size, len(want.inboxes[user]), pages, found)
		if err != nil {
			return err
		}
		compare(user, entries, want, found)
		return nil
	})
}

// readInbox returns what is in an inbox, newest first. That it has more than a page of wanted entries too many is enough
// to know: then it stops reading.
func (s *server) readInbox(ctx context.Context, user string, size, wanted int, pages *pageStatistics, found *report) ([]entry, error) {
	var entries []entry
	query := url.Values{"limit": {strconv.Itoa(size)}, "peek": {"true"}}
	for {
		var page struct {
			Messages []entry `json:"messages"`
			Next     *string `json:"next"`
			Total    int     `json:"total"`
		}
		header, err := s.get(ctx, "/v1/users/"+url.PathEscape(user)+"/inbox", query, &page)
		if err != nil {
			return nil, err
		}
		buckets, err := strconv.Atoi(header.Get("Fanmail-Buckets-Read"))
		if err != nil {
			return nil, fmt.Errorf("inbox of %s: header Fanmail-Buckets-Read: %w", user, err)
		}
		pages.add(buckets, len(page.Messages))
		entries = append(entries, page.Messages...)
		if page.Total != wanted {
			found.add("wrong total", "%s: total is %d, should be %d", user, page.Total, wanted)
		}
		switch {
		case len(page.Messages) > size, page.Next != nil && len(page.Messages) < size:
			found.add("wrong page", "%s: a page of %d has %d messages", user, size, len(page.Messages))
		}
		if page.Next == nil || len(entries) > wanted+size {
			return entries, nil
		}
		query.Set("before", *page.Next)
	}
}

// compare adds to the report what is wrong with an inbox.
func compare(user string, entries []entry, want *expected, found *report) {
	wanted := want.inboxes[user]
	belongs := make(map[string]bool, len(wanted))
	for _, m := range wanted {
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
	for _, m := range wanted {
		if !has[m.ID] {
			found.add("missing", "%s lacks %s from %s", user, m.ID, m.From)
		}
	}
}
