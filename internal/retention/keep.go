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
	// rehydration has still to find. What is above the target of the round does not matter.
	Clear message.ID
	// Expired counts the messages that have expired now.
	Expired int64
}

// Keep lets a user's messages expire that are old enough as of the time of a round, or more than the inbox keeps, and frees their space. It raises the
// user's purge point to what the age and the number of messages demand, if anything of theirs has not expired up to there. It empties the buckets,
// for which it may block. It writes nothing if nothing expires. It is idempotent. It reads nothing of a user of whom nothing expires.
//
// Where messages of the deployment expire by age, they expire up to the target of the round at least. It may be zero.
//
// A user who was never seen has nothing: the first look begins at the target of the round that is under way then.
func (w *Walker) Keep(ctx context.Context, state userstate.State, round Round) (Kept, error) {
	if !state.Known() {
		return Kept{Clear: message.MaxID}, nil
	}
	rules, deployment := w.opts.Rules(), w.opts.Retention()
	to := round.expired(rules, state.Keep.Within(deployment))
	if !round.expired(rules, deployment).Less(round.Target) {
		to = message.Later(to, round.Target)
	}
	kept, most := Kept{Clear: message.MaxID}, message.Later(to, round.Target)
	deleted := false
	var err error
	if state.Purged.Less(most) {
		if kept.Clear, deleted, err = w.clear(ctx, state, most, to); err != nil {
			return kept, err
		}
	}
	if kept.Clear.Less(to) || deleted {
		if state, kept.Expired, err = w.purger.Raise(ctx, state, to); err != nil {
			return kept, err
		}
	}
	state, trimmed, err := w.Trim(ctx, state)
	kept.Expired += trimmed
	if err != nil {
		return kept, err
	}
	kept.Clear = message.Later(kept.Clear, state.Purged)
	return kept, w.Empty(ctx, state)
}

// clear finds out up to where nothing of the user is left that has not expired, at most up to the given id. It also reports whether the oldest bucket
// holds only deleted messages that expire up to an id: these never make anything expire, and would stay for ever.
//
// A gap counts from its begin, because a message may become visible in it. So does what a rehydration has still to find, if there is a message.
func (w *Walker) clear(ctx context.Context, state userstate.State, most, to message.ID) (_ message.ID, deleted bool, err error) {
	next, oldest, err := earliest(ctx, w.stores.Buckets, state, most.Next())
	if err != nil {
		return message.ID{}, false, err
	}
	deleted = w.deleted(oldest, state, to)
	from := state.Horizon.Add(time.Millisecond)
	if missing, rehydrating := state.MissingFrom(); rehydrating && missing.Before(from) {
		from = missing
	}
	left := bucket.Stretch{After: message.LastBefore(from), Before: next}.Within(bucket.Stretch{After: state.Purged, Before: message.MaxID})
	if !left.Empty() {
		entries, err := w.purger.Rehydrator.Feed(state.User, w.opts.Rules()).Oldest(ctx, left, 1)
		if err != nil {
			return message.ID{}, false, err
		}
		for _, e := range entries {
			next = e.ID
		}
	}
	return message.LastBefore(next.Time()), deleted, nil
}

// deleted reports whether the oldest bucket of a user, in which nothing is left up to an id, is full and ends there or before.
func (w *Walker) deleted(oldest bucket.Outline, state userstate.State, to message.ID) bool {
	return oldest.Slots == int(w.stores.Buckets.Size()) && !to.Less(oldest.Last) && state.Purged.Less(oldest.Last)
}

// earliest returns the least id that an entry has that is neither deleted nor expired, or that may lie in a gap; at most the given one. It also returns
// the oldest bucket.
func earliest(ctx context.Context, buckets bucket.Store, state userstate.State, most message.ID) (message.ID, bucket.Outline, error) {
	id, found, oldest, err := bucket.Least(ctx, buckets, state.User, state.Oldest, state.Purged)
	if err != nil {
		return message.ID{}, oldest, fmt.Errorf("oldest entry of %s: %w", state.User, err)
	}
	if found && id.Less(most) {
		most = id
	}
	if len(state.Gaps) > 0 {
		if first := state.Gaps[0].Stretch().After.Next(); first.Less(most) {
			most = message.Later(first, state.Purged.Next())
		}
	}
	return most, oldest, nil
}
