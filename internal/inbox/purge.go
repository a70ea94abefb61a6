package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Purge lets all messages of a user expire that were sent at a time or before, permanently, and returns how many. These are the messages in
// buckets and gaps that had not expired. A message that is deleted, or that is not there yet, does not count. With dry, Purge changes nothing.
//
// It returns a *message.InvalidError for a time in the future, a *settings.LevelError below format level 3, and userstate.ErrNotFound for a
// user never seen. It is idempotent: a repetition returns 0. It writes one record, and the emptying of buckets follows.
//
// A message is counted by one purge only, because only a purge that raises the purge point counts what lies between the old and the new one.
func (s *Service) Purge(ctx context.Context, user message.UserID, until time.Time, dry bool) (int64, error) {
	switch {
	case until.After(s.opts.Now()):
		return 0, &message.InvalidError{Field: "until", Reason: "is in the future: give the time up to which messages expire"}
	case until.UnixMilli() <= 0:
		return 0, &message.InvalidError{Field: "until", Reason: "is not after 1970: give the time up to which messages expire"}
	}
	if err := settings.Require(s.opts.Level(), settings.Retention); err != nil {
		return 0, err
	}
	state, err := s.known(ctx, user)
	if err != nil {
		return 0, err
	}
	to := message.LastBefore(until.Truncate(time.Millisecond).Add(time.Millisecond))
	for state.Purged.Less(to) {
		purge, expired, err := s.countPurge(ctx, state, to)
		if err != nil || dry {
			return expired, err
		}
		for next, ok := state.Purge(purge); ok; next, ok = state.Purge(purge) { // again, if only something else has changed
			stepped, err := s.stores.Users.Step(ctx, []userstate.Step{{From: state, To: next}})
			if err != nil {
				return 0, fmt.Errorf("raise the purge point of %s: %w", user, err)
			}
			if stepped[0].Applied {
				if s.opts.Purged != nil {
					s.opts.Purged(user)
				}
				return expired, nil
			}
			state = stepped[0].State
		}
	}
	return 0, nil
}

// countPurge counts what a purge needs to know, and how many messages it lets expire.
func (s *Service) countPurge(ctx context.Context, state userstate.State, to message.ID) (purge userstate.Purge, expired int64, err error) {
	purge = userstate.Purge{Of: state, To: to}
	heads, err := s.stores.Buckets.Heads(ctx, []bucket.Ref{{Owner: state.User, Sequence: state.Head.Sequence}})
	if err != nil {
		return purge, 0, err
	}
	deletions, err := s.stores.Buckets.Deletions(ctx, state.User, state.Oldest)
	if err != nil {
		return purge, 0, err
	}
	var left [2]int64 // in the buckets, above the old and the new purge point
	for i, upTo := range []message.ID{state.Purged, to} {
		e, err := bucket.ReadExpired(ctx, s.stores.Buckets, state.User, heads[0], upTo, state.Oldest)
		if err != nil {
			return purge, 0, err
		}
		left[i], _ = bucket.Counts(heads[0].Position(heads[0].Slots()), deletions, bucket.ReadMark{}, nil, e)
		purge.Oldest = e.Sequence
	}
	expired = left[0] - left[1]
	feed := s.lazyFeed(state.User, s.opts.Rules())
	for _, gap := range state.Gaps {
		cut, err := feed.cut(ctx, gap, to, state.ReadMark)
		if err != nil {
			return purge, 0, err
		}
		if cut == nil {
			continue
		}
		purge.Cuts = append(purge.Cuts, *cut)
		expired += cut.Expired
		for _, t := range deletions.Recent {
			if gap.Stretch().Holds(t.ID) && !to.Less(t.ID) {
				expired--
			}
		}
	}
	return purge, max(0, expired), nil
}

// cut counts a gap that a purge cuts. It returns nil if the purge leaves the gap as it is.
func (f *lazyFeed) cut(ctx context.Context, gap userstate.Gap, to message.ID, mark bucket.ReadMark) (*userstate.Cut, error) {
	cut := userstate.Cut{Left: userstate.GapCount{Gap: gap.Above(to), UpTo: mark.UpTo}}
	if cut.Left.Equal(gap) {
		return nil, nil //nolint:nilnil // there is nothing to cut
	}
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	var err error
	if !cut.Left.Stretch().Empty() {
		if cut.Left, err = f.feed.CountGap(ctx, cut.Left.Gap, mark); err != nil {
			return nil, err
		}
	}
	cut.Expired, err = f.count(ctx, gap.Stretch().Within(bucket.Stretch{Before: to.Next()}))
	return &cut, err
}
