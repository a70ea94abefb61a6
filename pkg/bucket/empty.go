package bucket

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// Emptying empties the buckets of one inbox, step by step, so that its caller can limit the rate. It is not safe for concurrent use, but
// several processes may empty one inbox at the same time. An Emptying that is abandoned, or whose process crashes, leaves the rest to the
// next one.
//
// It empties the buckets in ascending order, so the stubs are the lowest buckets. It finds the highest stub by a search from above. So its
// cost depends on how many buckets have expired since the last time, and not on the number of stubs.
type Emptying struct {
	store  Store
	owner  message.UserID
	hint   Hint
	purged message.ID

	begun bool
	next  uint32   // the lowest bucket that was not emptied yet
	count int64    // how many buckets from next up are to be emptied
	late  []uint32 // buckets above these to which messages came late that have expired
}

// NewEmptying returns an Emptying for all messages up to purged, which may be any purge point that the owner had at some time. See Store.Empty
// for what must be done before. The hint is one for the owner's head.
func NewEmptying(store Store, owner message.UserID, hint Hint, purged message.ID) *Emptying {
	return &Emptying{store: store, owner: owner, hint: hint, purged: purged}
}

// Step empties at most limit buckets. It returns what it freed, and whether there are more buckets to empty. After an error the caller may
// call Step again.
func (e *Emptying) Step(ctx context.Context, limit int) (freed Emptied, more bool, err error) {
	if !e.begun {
		if err := e.begin(ctx); err != nil {
			return freed, true, fmt.Errorf("what to empty of the inbox of %s: %w", e.owner, err)
		}
		e.begun = true
	}
	if n := min(int64(limit), e.count); n > 0 {
		freed, err = e.store.Empty(ctx, e.owner, e.next, e.next+uint32(n-1), e.purged) //nolint:gosec // at most count
		if err != nil {
			return freed, true, err
		}
		e.next, e.count, limit = e.next+uint32(n), e.count-n, limit-int(n) //nolint:gosec // the same
	}
	for ; limit > 0 && e.count == 0 && len(e.late) > 0; limit-- {
		part, err := e.store.Empty(ctx, e.owner, e.late[0], e.late[0], e.purged)
		if err != nil {
			return freed, true, err
		}
		freed.Add(part)
		e.late = e.late[1:]
	}
	return freed, e.count > 0 || len(e.late) > 0, nil
}

// begin finds the buckets that are to be emptied.
func (e *Emptying) begin(ctx context.Context) error {
	head, err := ReadHead(ctx, e.store, e.owner, e.hint)
	if err != nil || head.Slots == 0 {
		return err
	}
	above := e.purged.Next()
	highest, err := highestBelow(ctx, e.store, e.owner, head.Outline, above, nearHead)
	if err != nil {
		return err
	}
	if e.next, err = e.lowest(ctx, highest); err != nil {
		return err
	}
	e.count = max(0, int64(highest)-int64(e.next)+1)
	if highest >= head.Sequence {
		return nil
	}
	late, err := ReadSection(ctx, e.store, lateAbove(e.owner, highest, above), NoFields)
	if err != nil {
		return err
	}
	for _, b := range late {
		if slices.ContainsFunc(b.Entries, func(x Entry) bool { return !x.Deleted && !x.Expired && !e.purged.Less(x.ID) }) {
			e.late = append(e.late, b.Sequence)
		}
	}
	return nil
}

// lowest returns the lowest bucket above all stubs. It is at most one above highest. It steps down from there with growing steps to a stub, and
// then bisects.
func (e *Emptying) lowest(ctx context.Context, highest uint32) (uint32, error) {
	stubs, high := int64(-1), int64(highest)+1 // the buckets up to stubs are stubs, and high is none
	for step, probe := int64(1), int64(highest); stubs < high-1; {
		b, err := outlineOf(ctx, e.store, e.owner, uint32(probe)) //nolint:gosec // it is a sequence
		switch {
		case err != nil:
			return 0, err
		case b.Stub:
			stubs, step = int64(b.Sequence), high // halve from here on
		default:
			high = probe
		}
		if probe = stubs + (high-stubs)/2; step < high-stubs {
			probe = high - step
		}
		step *= 2
	}
	return uint32(max(high, stubs+1)), nil //nolint:gosec // it is at most one above a sequence
}
