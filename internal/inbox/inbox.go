// Package inbox serves an inbox to its owner: pages, read marks, deletions, and when they last looked.
package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/partition"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Options configures a Service.
type Options struct {
	// Partitions is the store's partition count.
	Partitions int
	Policy     userstate.Policy
	Now        func() time.Time
}

// Service serves inboxes. It is safe for concurrent use.
type Service struct {
	buckets bucket.Store
	users   userstate.Store
	opts    Options
}

// New returns a Service.
func New(buckets bucket.Store, users userstate.Store, opts Options) *Service {
	return &Service{buckets: buckets, users: users, opts: opts}
}

// Page is a page of an inbox as its owner sees it.
type Page struct {
	// Entries are newest first. There may be fewer than were asked for where some were deleted.
	Entries []bucket.Entry
	// Next is the cursor of the next page, or empty at the end.
	Next string
	// Total counts the messages in the inbox, Unread those of them that are not marked read.
	Total  int64
	Unread int64
	// Complete tells that the inbox is kept warm, so that it holds everything the owner should have by now. The
	// inbox of somebody who is dormant, or was never seen, lacks what was sent since.
	Complete bool
	// Buckets counts the buckets that were read.
	Buckets int
}

// Read returns a page of at most limit messages. The cursor is one that an earlier page gave, or empty for the first
// page; one that is not from this inbox is a bucket.ErrCursor. Reading counts as viewing for a user who is
// active, unless peek is set.
func (s *Service) Read(ctx context.Context, user message.UserID, cursor string, limit int, peek bool) (Page, error) {
	var before *bucket.Cursor
	if cursor != "" {
		c, err := bucket.ParseCursor(user, cursor)
		if err != nil {
			return Page{}, err
		}
		before = &c
	}
	now := s.opts.Now()
	state, err := s.view(ctx, user, now, peek)
	if err != nil {
		return Page{}, err
	}
	page, err := bucket.ReadPage(ctx, s.buckets, user, state.Head, before, limit)
	if err != nil {
		return Page{}, err
	}
	deletions, err := s.buckets.Deletions(ctx, user, state.ReadMark.Sequence)
	if err != nil {
		return Page{}, err
	}
	result := Page{Entries: page.Entries, Buckets: page.Buckets, Complete: s.opts.Policy.Active(state, now)}
	result.Total, result.Unread = bucket.Counts(page.Slots, deletions, state.ReadMark)
	if page.Next != nil {
		result.Next = page.Next.Encode(user)
	}
	return result, nil
}

// view returns the user's state, and unless it only peeks, extends the time for which an active user's inbox is kept warm.
func (s *Service) view(ctx context.Context, user message.UserID, now time.Time, peek bool) (userstate.State, error) {
	if peek {
		return s.state(ctx, user)
	}
	viewed, err := s.users.View(ctx, []userstate.View{{User: user, At: now, After: s.opts.Policy.ActiveSince(now)}})
	if err != nil {
		return userstate.State{}, err
	}
	return viewed[0].Previous, nil
}

func (s *Service) state(ctx context.Context, user message.UserID) (userstate.State, error) {
	states, err := s.users.Lookup(ctx, partition.Of(user, s.opts.Partitions), []message.UserID{user})
	if err != nil {
		return userstate.State{}, err
	}
	return states[0], nil
}

// known returns the user's state, or userstate.ErrNotFound if there is no record of them.
func (s *Service) known(ctx context.Context, user message.UserID) (userstate.State, error) {
	state, err := s.state(ctx, user)
	if err == nil && !state.Known() {
		err = fmt.Errorf("%s: %w", user, userstate.ErrNotFound)
	}
	return state, err
}

// MarkRead marks everything in the inbox up to and including a message as read. It never marks anything unread again. It
// returns userstate.ErrNotFound for a user never seen.
func (s *Service) MarkRead(ctx context.Context, user message.UserID, upTo message.ID) error {
	state, err := s.known(ctx, user)
	if err != nil {
		return err
	}
	mark, err := bucket.NewReadMark(ctx, s.buckets, user, state.Head, upTo)
	if err != nil {
		return err
	}
	_, err = s.users.SetReadMark(ctx, user, mark)
	return err
}

// Delete deletes a message from the inbox, for good. It is idempotent, and returns bucket.ErrNotFound if the inbox never
// held it.
func (s *Service) Delete(ctx context.Context, user message.UserID, id message.ID) error {
	state, err := s.state(ctx, user)
	if err != nil {
		return err
	}
	return bucket.Delete(ctx, s.buckets, user, state.Head, id)
}
