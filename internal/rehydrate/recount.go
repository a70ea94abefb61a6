package rehydrate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// ErrRehydrating says that a rehydration of the user is due or under way, which counts the gaps itself.
var ErrRehydrating = errors.New("a rehydration of the user is due or under way")

// Recount sets the numbers of a user's gaps to what pages show, and the number of the read mark in them. It is the only operation that lowers
// the number of a gap: see userstate.EndRecount. It is idempotent. It returns ErrRehydrating, and changes nothing, if a rehydration is due or
// under way. It returns ErrLost if one becomes due meanwhile. After a crash, a sweep is due, which a worker ends.
func (s *Service) Recount(ctx context.Context, user message.UserID, buckets bucket.Store) error {
	st, err := s.state(ctx, user)
	if err != nil || len(st.Gaps) == 0 {
		return err
	}
	a := &attempt{Service: s, token: s.token(), rules: s.opts.Rules()}
	now := s.opts.Now()
	lease := userstate.Lease{Token: a.token, Until: now.Add(s.opts.Lease), Since: now}
	a.state, err = s.step(ctx, st, lazy, func(st userstate.State) (userstate.State, error) {
		next, ok := st.BeginRecount(lease)
		if !ok {
			return st, fmt.Errorf("recount the gaps of %s: %w", user, ErrRehydrating)
		}
		return next, nil
	})
	if err != nil {
		return err
	}
	if err := a.recount(ctx, buckets); err != nil {
		a.endRecount(context.WithoutCancel(ctx))
		return fmt.Errorf("recount the gaps of %s: %w", user, err)
	}
	return nil
}

// recount counts and sets the numbers, once, unless a deletion changes them meanwhile.
func (a *attempt) recount(ctx context.Context, buckets bucket.Store) error {
	feed := a.Feed(a.state.User, a.rules)
	if err := feed.Open(ctx); err != nil {
		return err
	}
	for a.state.Sweep != nil {
		counted, err := a.countAgain(ctx, feed, buckets)
		if err != nil {
			return err
		}
		a.state, err = a.step(ctx, a.state, durable, func(st userstate.State) (userstate.State, error) {
			next, ok := st.EndRecount(a.token, counted)
			if !ok {
				return st, ErrLost
			}
			return next, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// endRecount ends a recount that failed. It removes only the sweep of the recount. If that fails, a worker ends the sweep when the lease has
// ended.
func (a *attempt) endRecount(ctx context.Context) {
	err := a.change(ctx, func(st userstate.State) (userstate.State, bool) { return st.Finish(a.token, 0, nil) })
	if err != nil && !errors.Is(err, ErrLost) {
		a.opts.Logger.Warn().Err(err).Str("user", string(a.state.User)).Stringer("lease", a.opts.Lease).
			Msg("a recount of gaps cannot be ended: a worker ends it when its lease ends")
	}
}

// countAgain counts the gaps of the state that the attempt knows.
func (a *attempt) countAgain(ctx context.Context, feed *Feed, buckets bucket.Store) (userstate.Recount, error) {
	mark := a.state.ReadMark
	c := userstate.Recount{Of: a.state, Gaps: slices.Clone(a.state.Gaps), ReadMark: mark}
	deletions, err := bucket.ReadDeletions(ctx, buckets, a.state.User, 0)
	if err != nil {
		return c, err
	}
	for i, gap := range a.state.Gaps {
		all, read, err := a.countOne(ctx, feed, gap.Stretch(), deletions.Recent)
		if err != nil {
			return c, err
		}
		c.Gaps[i].Messages = all
		if i < mark.Gaps && gap.Stretch().Holds(mark.UpTo) {
			c.ReadMark.InGap = read
		}
	}
	return c, nil
}

// countOne counts the messages of a gap, and those of them at or below the read mark. A tombstone reduces the counts of the inbox by a
// message of the gap (see bucket.Counts). So the gap counts each tombstone in it, even if pages would not show the message any more. One
// pass counts both, so a message that becomes visible meanwhile is in neither or as it should be.
func (a *attempt) countOne(ctx context.Context, feed *Feed, s bucket.Stretch, tombstones []bucket.Tombstone) (all, read int64, err error) {
	upTo := a.state.ReadMark.UpTo
	count := func(id message.ID) {
		all++
		if !upTo.Less(id) {
			read++
		}
	}
	deleted := make(map[message.ID]bool)
	for _, t := range tombstones {
		if s.Holds(t.ID) {
			deleted[t.ID] = true
			count(t.ID)
		}
	}
	for {
		entries, err := feed.Oldest(ctx, s, a.opts.Page)
		if err != nil {
			return all, read, err
		}
		for _, e := range entries {
			if !deleted[e.ID] {
				count(e.ID)
			}
		}
		if len(entries) < a.opts.Page {
			return all, read, nil
		}
		s.After = entries[len(entries)-1].ID
		if err := a.renew(ctx); err != nil {
			return all, read, err
		}
	}
}
