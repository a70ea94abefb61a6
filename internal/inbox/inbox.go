// Package inbox serves an inbox to its owner: pages, read marks, deletions, what is kept, and the time of the last view.
package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Stores are the stores that hold inboxes.
type Stores struct {
	Buckets  bucket.Store
	Users    userstate.Store
	Appender *bucket.Appender
	// Flags holds the flags of single messages; nil if there are none.
	Flags flag.Store
	// Shown are read for what is merely shown; zero means Buckets, Users and Flags.
	Shown Shown
}

// Shown are Buckets, Users and Flags, which may answer from a state that is seconds old.
type Shown struct {
	Buckets bucket.Store
	// Index is that of Buckets; nil if there is none.
	Index bucket.Index
	Users userstate.Store
	Flags flag.Store
}

// Options configures a Service.
type Options struct {
	// Rules returns the rules that hold now.
	Rules func() userstate.Rules
	Now   func() time.Time
	// ViewedEvery is how often the page views of an active user are recorded. See userstate.Rules.Noted.
	ViewedEvery time.Duration
	// Epoch, unless it is nil, returns that of the store: see Position.
	Epoch func() uint64
	// Retention, unless it is nil, returns what is kept now for users without a retention of their own.
	Retention func() userstate.Retention
	// Expired, unless it is nil, returns up to where messages of a user with a retention have expired by age: see retention.Expired.
	Expired func(ctx context.Context, keep userstate.Retention, first bool) (message.ID, error)
	// Clock returns what the store's clock shows, and whether the clocks agree; nil means that it is Now.
	Clock func(ctx context.Context) (now time.Time, agree bool, err error)
	// Trim, unless it is nil, lets all but a user's newest messages expire before it returns, as the user's retention says. It may do so
	// lazily: see userstate.Step.
	Trim func(ctx context.Context, user message.UserID) error
	// Attributes, unless it is nil, returns the attributes that are declared now.
	Attributes func() attribute.Set
	// FilterBuckets and FilterMessages bound what a page with a Filter and CountBy read: buckets, and messages for gaps and for an inbox that is
	// not complete. They are at least 2; zero means 200 and 2,000.
	FilterBuckets, FilterMessages int
	// Purged, unless it is nil, is called with each user whose purge point has risen. It must not block.
	Purged func(message.UserID)
	Logger zerolog.Logger
	// Metrics is where the metrics are registered; nil means nowhere.
	Metrics prometheus.Registerer
}

// Service serves inboxes. It is safe for concurrent use.
type Service struct {
	stores     Stores
	rehydrator *rehydrate.Service
	purger     retention.Purger
	opts       Options
	metrics    metrics
	damaged    damaged
}

// New returns a Service.
func New(stores Stores, rehydrator *rehydrate.Service, opts Options) *Service {
	if opts.Attributes == nil {
		opts.Attributes = func() attribute.Set { return attribute.Set{} }
	}
	opts.FilterBuckets = cmp.Or(opts.FilterBuckets, defaultFilterBuckets)
	opts.FilterMessages = cmp.Or(opts.FilterMessages, defaultFilterMessages)
	if opts.Expired == nil {
		opts.Expired = func(context.Context, userstate.Retention, bool) (message.ID, error) { return message.ID{}, nil }
	}
	if opts.Clock == nil {
		opts.Clock = func(context.Context) (time.Time, bool, error) { return opts.Now(), true, nil }
	}
	if opts.Epoch == nil {
		opts.Epoch = func() uint64 { return 0 }
	}
	if opts.Retention == nil {
		opts.Retention = func() userstate.Retention { return userstate.Retention{} }
	}
	if stores.Shown.Users == nil {
		stores.Shown = Shown{Buckets: stores.Buckets, Users: stores.Users, Flags: stores.Flags, Index: stores.Shown.Index}
	}
	return &Service{
		stores: stores, rehydrator: rehydrator, opts: opts, metrics: newMetrics(opts.Metrics),
		damaged: newDamaged(opts.Logger, opts.Metrics),
		purger: retention.Purger{
			Buckets: stores.Buckets, Users: stores.Users, Rehydrator: rehydrator, Rules: opts.Rules, Raised: opts.Purged,
		},
	}
}

// Delete deletes a message from the inbox permanently. It returns bucket.ErrNotFound if the message is not in the inbox. It is
// idempotent, and does nothing to a message that has expired.
//
// If the message is in no bucket yet, Delete pushes its tombstone in one write. If it pushed an entry first, a crash would leave the entry
// in its gap, where it counts twice.
func (s *Service) Delete(ctx context.Context, user message.UserID, id message.ID) error {
	rules := s.opts.Rules()
	state, err := s.state(ctx, user)
	if err != nil {
		return err
	}
	if !state.Purged.Less(id) {
		return nil // it has expired
	}
	err = bucket.Delete(ctx, s.stores.Buckets, user, state.Head, id)
	if !errors.Is(err, bucket.ErrNotFound) || !s.absent(state, rules, id) {
		return err
	}
	feed := s.rehydrator.Feed(user, rules)
	there, feedErr := s.onRead(ctx, feed, id)
	if feedErr != nil || !there {
		return cmp.Or(feedErr, err)
	}
	if err := s.countGapOf(ctx, user, feed, id); err != nil {
		return err
	}
	return s.pushTombstone(ctx, user, state.Head, id)
}

// countGapOf counts the gap that a visible message lies in. Otherwise the gap may not count the message yet, and the tombstone would
// make the total one too low. If the process dies before the tombstone is pushed, the gap counts right all the same. A gap that is made
// later counts the message, because the message is visible.
func (s *Service) countGapOf(ctx context.Context, user message.UserID, feed *rehydrate.Feed, id message.ID) error {
	state, err := s.state(ctx, user) // again: an older one may lack the gap
	if err != nil {
		return err
	}
	for {
		next, err := counted(ctx, feed, state, id)
		if err != nil || next.Same(state) {
			return err
		}
		// No sync is needed: a crash that loses the count also loses the tombstone.
		stepped, err := s.stores.Users.Step(ctx, []userstate.Step{{From: state, To: next, Lazy: true}})
		if err != nil {
			return fmt.Errorf("raise the count of a gap: %w", err)
		}
		if stepped[0].Applied {
			return nil
		}
		state = stepped[0].State
	}
}

// pushTombstone appends the tombstone of a message. If the message was delivered meanwhile, or a reply was lost, the message is in a
// bucket, and is deleted there.
func (s *Service) pushTombstone(ctx context.Context, user message.UserID, hint bucket.Hint, id message.ID) error {
	tombstone := []bucket.Entry{{ID: id, Deleted: true}}
	results, err := s.stores.Appender.Append(ctx, []bucket.Append{{Owner: user, Hint: hint, Entries: tombstone}})
	if err == nil {
		err = results[0].Err
	}
	if err != nil || results[0].New == 1 {
		return err
	}
	return bucket.Delete(ctx, s.stores.Buckets, user, hint, id)
}

// absent reports whether a message may belong to the inbox without being in a bucket.
func (s *Service) absent(state userstate.State, rules userstate.Rules, id message.ID) bool {
	for _, stretch := range s.stretches(state, rules) {
		if stretch.Holds(id) {
			return true
		}
	}
	return false
}

// stretches returns the parts of an inbox that fan out on read answers: gaps, the part that a running rehydration appends, and everything
// after the horizon of a dormant owner.
func (s *Service) stretches(state userstate.State, rules userstate.Rules) []bucket.Stretch {
	stretches := make([]bucket.Stretch, 0, len(state.Gaps)+1)
	for _, gap := range state.Gaps {
		stretches = append(stretches, gap.Stretch())
	}
	beyond := state.Horizon.Add(time.Millisecond)
	missing := bucket.Stretch{After: message.LastBefore(beyond), Before: message.MinID(beyond)}
	if from, rehydrating := state.MissingFrom(); rehydrating && from.Before(beyond) {
		missing.After = message.LastBefore(from)
	}
	if !rules.Active(state, s.opts.Now()) { // a rehydration that is not due yet will append the rest
		missing.Before = message.MaxID
	}
	if missing = missing.Within(bucket.Stretch{After: state.Purged, Before: message.MaxID}); !missing.Empty() {
		stretches = append(stretches, missing)
	}
	return stretches
}

// complete reports whether all messages for the owner are in buckets and gaps.
func (s *Service) complete(state userstate.State, rules userstate.Rules) bool {
	return !state.Rehydrating() && rules.Active(state, s.opts.Now())
}

func (s *Service) state(ctx context.Context, user message.UserID) (userstate.State, error) {
	return userstate.Get(ctx, s.stores.Users, user)
}

// known returns the user's state, or userstate.ErrNotFound if the store has no record of the user.
func (s *Service) known(ctx context.Context, user message.UserID) (userstate.State, error) {
	return known(s.state(ctx, user))
}

func known(state userstate.State, err error) (userstate.State, error) {
	if err == nil && !state.Known() {
		err = fmt.Errorf("%s: %w", state.User, userstate.ErrNotFound)
	}
	return state, err
}

// counted returns a state after the gap in which an id lies, if any, was counted by the state's read mark.
func counted(ctx context.Context, feed *rehydrate.Feed, state userstate.State, id message.ID) (userstate.State, error) {
	for _, gap := range state.Gaps {
		if !gap.Holds(id.Time()) {
			continue
		}
		counted, err := feed.CountGap(ctx, gap, state.ReadMark)
		if err != nil {
			return state, err
		}
		return state.Count([]userstate.GapCount{counted}), nil
	}
	return state, nil
}
