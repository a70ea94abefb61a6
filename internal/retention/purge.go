package retention

import (
	"context"
	"fmt"

	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Purger raises the purge points of users. It counts what is in gaps by the feeds of the rehydrator. It is safe for concurrent use.
type Purger struct {
	Buckets    bucket.Store
	Users      userstate.Store
	Rehydrator *rehydrate.Service
	// Rules returns the rules that hold now.
	Rules func() userstate.Rules
	// Lazy allows the store to lose a raise in a crash, together with all later writes. Use it for raises that are repeated.
	Lazy bool
	// Raised, unless it is nil, is called with each user whose purge point has risen. It must not block.
	Raised func(message.UserID)
}

// Raise raises a user's purge point to an id, the last possible one of a millisecond. It returns the state afterwards, and how many
// messages have expired by it. It starts from a state that the caller has read. A purge point that is as high already stays, and nothing
// expires. Raise is idempotent, and writes one record, durably unless Lazy is set.
//
// A message is counted by one raise only, because only a raise that takes effect counts what lies between the old and the new purge point.
func (p *Purger) Raise(ctx context.Context, state userstate.State, to message.ID) (userstate.State, int64, error) {
	for state.Purged.Less(to) {
		purge, expired, err := p.count(ctx, state, to)
		if err != nil {
			return state, 0, err
		}
		for next, ok := state.Purge(purge); ok; next, ok = state.Purge(purge) { // again, if only something else has changed
			stepped, err := p.Users.Step(ctx, []userstate.Step{{From: state, To: next, Lazy: p.Lazy}})
			if err != nil {
				return state, 0, fmt.Errorf("raise the purge point of %s: %w", state.User, err)
			}
			state = stepped[0].State
			if stepped[0].Applied {
				if p.Raised != nil {
					p.Raised(state.User)
				}
				return state, expired, nil
			}
		}
	}
	return state, 0, nil
}

// Count returns how many messages a raise would let expire.
func (p *Purger) Count(ctx context.Context, state userstate.State, to message.ID) (int64, error) {
	if !state.Purged.Less(to) {
		return 0, nil
	}
	_, expired, err := p.count(ctx, state, to)
	return expired, err
}

// count counts what a raise needs to know, and how many messages it lets expire: those in buckets and gaps that are not deleted.
func (p *Purger) count(ctx context.Context, state userstate.State, to message.ID) (purge userstate.Purge, expired int64, err error) {
	purge = userstate.Purge{Of: state, To: to}
	heads, err := p.Buckets.Heads(ctx, []bucket.Head{{Owner: state.User, Hint: state.Head}})
	if err != nil {
		return purge, 0, err
	}
	deletions, err := bucket.ReadDeletions(ctx, p.Buckets, state.User, state.Oldest)
	if err != nil {
		return purge, 0, err
	}
	var left [2]int64 // in the buckets, above the old and the new purge point
	for i, upTo := range []message.ID{state.Purged, to} {
		e, err := bucket.ReadExpired(ctx, p.Buckets, state.User, heads[0], upTo, state.Oldest)
		if err != nil {
			return purge, 0, err
		}
		left[i] = bucket.Counts(bucket.Inventory{Slots: heads[0].End(p.Buckets.Size()), Deletions: deletions, Expired: e}).Total
		purge.Oldest = e.Sequence
	}
	expired = left[0] - left[1]
	purge.Cuts, err = p.Rehydrator.Feed(state.User, p.Rules()).Cuts(ctx, state, to)
	for _, cut := range purge.Cuts {
		expired += cut.Expired
	}
	for _, gap := range state.Gaps {
		for _, t := range deletions.Recent {
			if gap.Stretch().Holds(t.ID) && !to.Less(t.ID) {
				expired--
			}
		}
	}
	return purge, max(0, expired), err
}
