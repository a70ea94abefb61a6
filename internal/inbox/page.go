package inbox

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Page is a page of an inbox as its owner sees it.
type Page struct {
	// Tally counts the messages in the inbox. If the inbox is not complete, it counts the messages that are known so far.
	bucket.Tally

	// Entries are newest first. There may be fewer than the limit if some were deleted, and of a page with a filter none, though there is a Next.
	Entries []Message
	// Next is the cursor of the next page, or empty at the end.
	Next string
	// Cursor stands for what the page knew, for MarkAllRead and MarkSeen. Only a first page has one.
	Cursor string
	// Tag changes with everything that a first page of all messages shows. Only such a page of a complete inbox has one: see Service.Tag.
	Tag string
	// At is the position of which Cursor is the text, and Version are its numbers, which only rise.
	At      Position
	Version []int64
	// ReadUpTo is the id of the read mark; zero if there is none. Every message up to ExpiredUpTo has expired.
	ReadUpTo, ExpiredUpTo message.ID
	// Complete reports whether the inbox is kept warm and is not being rebuilt. Otherwise fan out on read answered the page: its
	// messages are right, but there may be more.
	Complete bool
	// Buckets counts the buckets that were read, and Messages the messages that a filter has had read for gaps and the like.
	Buckets  int
	Messages int
}

// Message is a message on a page.
type Message struct {
	bucket.Found

	Read, Archived bool
}

// Request selects a page.
type Request struct {
	// Before is Next of an earlier page with the same Since, Until and Filter, or empty for the first page.
	Before string
	// Since and Until bound when the messages were sent: at or after Since, and before Until. The zero times bound nothing.
	Since, Until time.Time
	Filter       Filter
	// Limit is the greatest number of messages.
	Limit int
	// Peek makes the request not count as a view. Of a user who was never seen, there is nothing to peek at.
	Peek bool
}

// validate returns a *message.InvalidError if no message can be in the bounds, or nil.
func (r Request) validate() error {
	if !r.Since.IsZero() && !r.Until.IsZero() && !r.Since.Before(r.Until) {
		return &message.InvalidError{Field: "since", Reason: "is not before until: since is included, and until is not"}
	}
	return nil
}

// All reports whether the request is for a first page of all messages that are not archived.
func (r Request) All() bool {
	return r.Before == "" && r.Since.IsZero() && r.Until.IsZero() && r.Filter.count() == 0 && r.Filter.Archived == ArchivedOut
}

// bounds returns the ids that bound the page, both excluded. Ids count milliseconds.
func (r Request) bounds() (above, below message.ID) {
	if !r.Since.IsZero() {
		above = message.LastBefore(ceiling(r.Since))
	}
	if !r.Until.IsZero() {
		below = message.MinID(ceiling(r.Until))
	}
	return above, below
}

// ceiling returns the first whole millisecond that is not before t.
func ceiling(t time.Time) time.Time { return t.Add(time.Millisecond - 1).Truncate(time.Millisecond) }

// Read returns a page. It returns bucket.ErrCursor for a cursor of another inbox, and a *message.InvalidError for bounds or a filter that are
// not valid. Reading counts as a view, unless Peek is set. A view starts the rebuild of the inbox of a user who was dormant or never seen, and
// does not wait for it. A peek changes nothing, and returns userstate.ErrNotFound for a user who was never seen.
func (s *Service) Read(ctx context.Context, user message.UserID, req Request) (Page, error) {
	began, rules := s.opts.Now(), s.opts.Rules()
	if err := req.validate(); err != nil {
		return Page{}, err
	}
	matching, err := s.parse(req.Filter)
	if err != nil {
		return Page{}, err
	}
	var before *bucket.Cursor
	if req.Before != "" {
		c, err := bucket.ParseCursor(user, req.Before)
		if err != nil {
			return Page{}, err
		}
		before = &c
	}
	var v view
	var page bucket.Page
	for reads := 1; ; reads++ {
		if v, page, err = s.read(ctx, user, rules, req, before, matching); err != nil {
			return Page{}, err
		}
		if settled(&page.Tally, reads) {
			break
		}
	}
	at := s.position(rules, v.state, v.flags.Revision, page.Slots, page.Deleted)
	result := Page{
		Tally: page.Tally, Buckets: page.Buckets, Messages: page.Messages, Complete: s.complete(v.state, rules),
		At: at, Version: at.version(), ReadUpTo: v.state.ReadMark.UpTo, ExpiredUpTo: v.state.Purged,
	}
	if len(page.Entries) > 0 {
		result.Entries = make([]Message, len(page.Entries))
	}
	for i, f := range page.Entries {
		result.Entries[i] = v.message(f)
	}
	if before == nil {
		result.Cursor = at.encode(user)
	}
	if req.All() {
		result.Tag = tag(at, result.Complete)
	}
	for _, id := range page.Absent {
		if !v.state.InGap(id.Time()) {
			result.Total++
			result.Unread++
		}
	}
	if page.Next != nil {
		result.Next = page.Next.Encode(user)
	}
	if !matching.filters(v) { // a filtered page may read a hundred times as much
		s.metrics.count(result, before == nil, s.opts.Now().Sub(began))
	}
	return result, nil
}

// read reads the user's record, then the flags, and then the page.
func (s *Service) read(
	ctx context.Context, user message.UserID, rules userstate.Rules, req Request, before *bucket.Cursor, matching matcher,
) (v view, page bucket.Page, err error) {
	state, err := s.look(ctx, user, rules, req.Peek)
	if err != nil {
		return v, page, err
	}
	if v, err = s.view(ctx, state); err != nil {
		return v, page, err
	}
	above, below := req.bounds()
	feed := s.rehydrator.Feed(user, rules)
	page, err = bucket.ReadPage(ctx, s.stores.Shown.Buckets, bucket.PageRequest{
		Owner: user, Hint: state.Head, Basis: state.Basis(v.flags),
		Before: before, Above: above, Below: below, Filter: s.filter(matching, v, feed), Limit: req.Limit,
		Absent: s.stretches(state, rules), Growing: !s.complete(state, rules), OnRead: feed.Newest,
	})
	return v, page, err
}

// look returns the user's state. Unless peek is set, it first records the view, if that changes anything.
func (s *Service) look(ctx context.Context, user message.UserID, rules userstate.Rules, peek bool) (userstate.State, error) {
	if peek {
		return s.seen(ctx, user)
	}
	state, err := s.shown(ctx, user)
	now := s.opts.Now()
	if err != nil || rules.Noted(state, now, s.opts.ViewedEvery) {
		return state, err
	}
	return s.rehydrator.ArriveLazily(ctx, user, now)
}

// shown returns the user's state, which may be seconds old.
func (s *Service) shown(ctx context.Context, user message.UserID) (userstate.State, error) {
	return userstate.Get(ctx, s.stores.Shown.Users, user)
}

// seen is shown, with userstate.ErrNotFound for a user who was never seen.
func (s *Service) seen(ctx context.Context, user message.UserID) (userstate.State, error) {
	return known(s.shown(ctx, user))
}
