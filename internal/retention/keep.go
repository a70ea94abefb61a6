package retention

import (
	"context"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Kept is what the walk has found of one user.
type Kept struct {
	// Clear is an id up to which nothing of the user is left that has not expired: no entry, no part of a gap, and nothing that a
	// rehydration has still to find.
	Clear message.ID
	// Expired counts the messages that have expired now.
	Expired int64
}

// Keep lets a user's messages expire that are old enough, or more than the inbox keeps, and frees their space. It raises the user's purge point
// to what the age and the number of messages demand, if anything of theirs has not expired up to there. It empties the buckets, for which it may block. It writes nothing if nothing expires. It is idempotent.
//
// Where messages of the deployment expire by age, they expire up to the target at least. It may be zero.
//
// A user who was never seen has nothing: the first look begins at the target of the round that is under way then.
func (w *Walker) Keep(ctx context.Context, state userstate.State, target message.ID) (Kept, error) {
	if !state.Known() {
		return Kept{Clear: message.MaxID}, nil
	}
	now, rules, deployment := w.opts.Now(), w.opts.Rules(), w.opts.Retention()
	own := state.Keep.Within(deployment)
	safe := rules.Settled(now)
	to := rules.Expired(own, now)
	if limit := rules.Expired(deployment, now); deployment.MaxAge > 0 && to.Less(target) && !limit.Less(target) {
		to = target
	}
	var kept Kept
	var err error
	if kept.Clear, err = w.clear(ctx, state, message.Later(safe, target)); err != nil {
		return kept, err
	}
	if kept.Clear.Less(to) {
		if state, kept.Expired, err = w.purger.Raise(ctx, state, to); err != nil {
			return kept, err
		}
		kept.Clear = state.Purged
	}
	state, trimmed, err := w.Trim(ctx, state)
	kept.Expired += trimmed
	if err != nil {
		return kept, err
	}
	kept.Clear = message.Later(kept.Clear, state.Purged)
	if kept.Expired > 0 && kept.Clear.Less(safe) { // what comes next may be far above the purge point
		if kept.Clear, err = w.clear(ctx, state, safe); err != nil {
			return kept, err
		}
	}
	return kept, w.Empty(ctx, state)
}

// clear finds out up to where nothing of the user is left that has not expired, at most up to the given id.
//
// A gap counts from its begin, because a message may become visible in it. So does what a rehydration has still to find, if there is a message.
func (w *Walker) clear(ctx context.Context, state userstate.State, most message.ID) (message.ID, error) {
	next, err := earliest(ctx, w.stores.Buckets, state, most.Next())
	if err != nil {
		return message.ID{}, err
	}
	from := state.Horizon.Add(time.Millisecond)
	if missing, rehydrating := state.MissingFrom(); rehydrating && missing.Before(from) {
		from = missing
	}
	left := bucket.Stretch{After: message.LastBefore(from), Before: next}.Within(bucket.Stretch{After: state.Purged, Before: message.MaxID})
	if !left.Empty() {
		entries, err := w.purger.Rehydrator.Feed(state.User, w.opts.Rules()).Oldest(ctx, left, 1)
		if err != nil {
			return message.ID{}, err
		}
		for _, e := range entries {
			next = e.ID
		}
	}
	return message.LastBefore(next.Time()), nil
}

// earliest returns the least id that an entry has that is neither deleted nor expired, or that may lie in a gap; at most the given one.
func earliest(ctx context.Context, buckets bucket.Store, state userstate.State, most message.ID) (message.ID, error) {
	id, found, err := bucket.Least(ctx, buckets, state.User, state.Oldest, state.Purged)
	if err != nil {
		return message.ID{}, fmt.Errorf("oldest entry of %s: %w", state.User, err)
	}
	if found && id.Less(most) {
		most = id
	}
	if len(state.Gaps) > 0 {
		if first := state.Gaps[0].Stretch().After.Next(); first.Less(most) {
			most = message.Later(first, state.Purged.Next())
		}
	}
	return most, nil
}
