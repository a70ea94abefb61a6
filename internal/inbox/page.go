package inbox

import (
	"context"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Page is a page of an inbox as its owner sees it.
type Page struct {
	// Entries are newest first. There may be fewer than the limit if some were deleted.
	Entries []bucket.Entry
	// Next is the cursor of the next page, or empty at the end.
	Next string
	// Total counts the messages in the inbox, Unread those not marked read. If the inbox is not complete, they count the messages
	// that are known so far.
	Total  int64
	Unread int64
	// Complete reports whether the inbox is kept warm and is not being rebuilt. Otherwise fan out on read answered the page: its
	// messages are right, but there may be more.
	Complete bool
	// Buckets counts the buckets that were read.
	Buckets int
}

// Read returns a page of at most limit messages. The cursor is Next of an earlier page, or empty for the first page. Read returns
// bucket.ErrCursor for a cursor of another inbox. Reading counts as viewing, unless peek is set: it starts the rebuild of the inbox
// of a user who was dormant or never seen, and does not wait for it.
func (s *Service) Read(ctx context.Context, user message.UserID, cursor string, limit int, peek bool) (Page, error) {
	began, rules := s.opts.Now(), s.opts.Rules()
	var before *bucket.Cursor
	if cursor != "" {
		c, err := bucket.ParseCursor(user, cursor)
		if err != nil {
			return Page{}, err
		}
		before = &c
	}
	state, err := s.look(ctx, user, peek)
	if err != nil {
		return Page{}, err
	}
	page, err := bucket.ReadPage(ctx, s.stores.Buckets, bucket.PageRequest{
		Owner: user, Hint: state.Head, Before: before, Limit: limit, DeletionsFrom: deletionsFrom(state),
		Absent: s.stretches(state, rules), Growing: !s.complete(state, rules), OnRead: s.lazyFeed(user, rules).newest,
	})
	if err != nil {
		return Page{}, err
	}
	result := Page{Entries: page.Entries, Buckets: page.Buckets, Complete: s.complete(state, rules)}
	result.Total, result.Unread = counts(state, page.Slots, page.Deletions)
	for _, id := range page.Absent {
		if !state.InGap(id.Time()) {
			result.Total++
			result.Unread++
		}
	}
	if page.Next != nil {
		result.Next = page.Next.Encode(user)
	}
	s.metrics.count(result, before == nil, s.opts.Now().Sub(began))
	return result, nil
}

// look returns the user's state. Unless peek is set, it first records the view.
func (s *Service) look(ctx context.Context, user message.UserID, peek bool) (userstate.State, error) {
	if peek {
		return s.state(ctx, user)
	}
	state, err := s.rehydrator.ArriveLazily(ctx, user, s.opts.Now())
	if err == nil && s.opts.Viewed != nil {
		s.opts.Viewed(user)
	}
	return state, err
}

// deletionsFrom returns the first bucket whose tombstones counting needs.
func deletionsFrom(state userstate.State) uint32 {
	if len(state.Gaps) > 0 {
		return 0
	}
	return state.ReadMark.Sequence
}

// counts counts the messages in the buckets and gaps of an inbox with so many slots.
func counts(state userstate.State, slots int64, deletions bucket.Deletions) (total, unread int64) {
	return bucket.Counts(slots, deletions, state.ReadMark, state.Gaps)
}
