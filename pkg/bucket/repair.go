package bucket

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// maxPasses bounds the passes of one Repair. A pass after the first finds something only if a writer had looked at the inbox
	// before the pass before it, and created a bucket since.
	maxPasses = 8
	// maxReads bounds how often a pass reads one bucket. It reads again if another process has changed the bucket.
	maxReads = 64
)

// Judge returns which messages are void. A ref names the author if the inbox has the entry. A tombstone keeps no author: its ref has
// only the ID. An id that is not in the result counts as not void, so leave out a message whose verdict is unknown. The
// verdict on a message must never change from void to another.
type Judge func(ctx context.Context, refs []message.Ref) (map[message.ID]bool, error)

// Repaired counts what a Repair has changed.
type Repaired struct {
	// Tombstones counts the void entries that became tombstones.
	Tombstones int
	// Lowered counts the buckets whose bounds were lowered, each time.
	Lowered int
}

// Repair heals an inbox that void messages have poisoned: messages with an id far in the future. It makes their entries tombstones, and
// lowers the bounds that they have raised. It does nothing to a sound inbox.
//
// Before the call, every writer must know that these messages are void. Otherwise a writer that still has one at hand may append it again.
//
// Repair makes passes over the buckets, from bucket 0 upward, until a pass changes nothing. It asks void about all live entries, and about
// those tombstones that matter for the bounds. It may crash, be repeated, and run beside writers, readers and other repairs. An error
// wraps ErrContended if other processes keep changing the inbox; the caller may try again. A pass ends without an error at a slot that has
// lost its id, and leaves the bounds from there up as they are.
//
// Bounds may be too high again afterwards: a writer that looked at the inbox before may create a bucket with a floor that is too high.
// That is safe, and the next Repair lowers it.
func Repair(ctx context.Context, store Store, owner message.UserID, void Judge) (Repaired, error) {
	r := repair{store: store, owner: owner, void: void}
	for range maxPasses {
		before := r.done
		if err := r.pass(ctx); err != nil {
			return r.done, fmt.Errorf("repair the inbox of %s: %w", owner, err)
		}
		if r.done == before {
			return r.done, nil
		}
	}
	return r.done, fmt.Errorf("repair the inbox of %s: %w: %d passes had something to do", owner, ErrContended, maxPasses)
}

// repair is a Repair under way.
type repair struct {
	store Store
	owner message.UserID
	void  Judge
	done  Repaired
}

// pass repairs the buckets in ascending order. It continues above a bucket only if that had all slots taken when it was read. Then the
// ids in it are final, and so are the lowest bounds that cover them.
func (r *repair) pass(ctx context.Context) error {
	var high message.ID // the greatest id in the buckets below that is not void
	for sequence := uint32(0); ; sequence++ {
		at, next, full, err := r.bucket(ctx, sequence, high)
		if err != nil || !full {
			return err
		}
		sequence, high = at, next
	}
}

// bucket repairs one bucket. It returns the sequence of the bucket, the greatest id that is not void in this bucket and those below, and
// whether the pass continues above it. If the bucket has changed since it was read, it reads the same bucket again. It leaves a stub as it is.
// The stub may have a higher sequence: see Store.Range.
func (r *repair) bucket(ctx context.Context, sequence uint32, below message.ID) (at uint32, high message.ID, full bool, err error) {
	for range maxReads {
		read, err := r.store.Range(ctx, r.owner, sequence, sequence, 1)
		if err != nil || len(read) == 0 {
			return sequence, below, false, err
		}
		b := read[0]
		if b.Stub {
			return b.Sequence, greater(below, b.Last), true, nil
		}
		blanked, err := blankedIn(ctx, r.store, r.owner, read)
		if err != nil {
			return sequence, below, false, err
		}
		held := b.held(blanked)
		if held == nil {
			return sequence, below, false, nil
		}
		live, high, err := r.void.split(ctx, held, below)
		if err != nil {
			return sequence, below, false, err
		}
		if gone, err := r.deleteVoid(ctx, sequence, live); err != nil {
			return sequence, below, false, err
		} else if gone {
			continue
		}
		if !below.Less(b.Floor) && !high.Less(b.Last) {
			return sequence, high, b.Full(), nil
		}
		applied, err := r.store.Lower(ctx, r.owner, b.Outline(), below, high)
		if err != nil {
			return sequence, below, false, err
		}
		if applied {
			r.done.Lowered++
			return sequence, high, b.Full(), nil
		}
	}
	return sequence, below, false, fmt.Errorf("%w: bucket %d changed after each of %d reads", ErrContended, sequence, maxReads)
}

// deleteVoid makes void entries tombstones. It reports whether an entry was blanked since it was read.
func (r *repair) deleteVoid(ctx context.Context, sequence uint32, void []message.ID) (gone bool, err error) {
	for _, id := range void {
		err := r.store.Delete(ctx, r.owner, sequence, id)
		switch {
		case errors.Is(err, ErrNotFound):
			gone = true
		case err != nil:
			return gone, err
		default:
			r.done.Tombstones++
		}
	}
	return gone, nil
}

// held returns the entries of a bucket, those that were blanked with their ids. It returns nil if a slot has lost its id.
func (b Bucket) held(blanked map[int64]message.ID) []Entry {
	held := make([]Entry, len(b.Entries))
	for slot, e := range b.Entries {
		if e.ID.IsZero() {
			e.ID = blanked[b.Position(slot)]
		}
		if e.ID.IsZero() {
			return nil
		}
		held[slot] = e
	}
	return held
}

// split returns the ids of the live entries that are void, and the greatest id that is not void: that of an entry or a tombstone, or least
// if they are all below it. It asks only about those tombstones and expired entries that are above the live entries.
func (void Judge) split(ctx context.Context, held []Entry, least message.ID) (live []message.ID, high message.ID, err error) {
	high = least
	for _, deleted := range []bool{false, true} {
		var refs []message.Ref
		for _, e := range held {
			if gone := e.Deleted || e.Expired; gone == deleted && (!deleted || high.Less(e.ID)) {
				refs = append(refs, message.Ref{From: e.From, ID: e.ID})
			}
		}
		if len(refs) == 0 {
			continue
		}
		verdicts, err := void(ctx, refs)
		if err != nil {
			return nil, high, fmt.Errorf("which messages are void: %w", err)
		}
		for _, ref := range refs {
			switch {
			case !verdicts[ref.ID]:
				high = greater(high, ref.ID)
			case !deleted:
				live = append(live, ref.ID)
			}
		}
	}
	return live, high, nil
}

func greater(x, y message.ID) message.ID {
	if x.Less(y) {
		return y
	}
	return x
}

// Lowered returns the bounds that Store.Lower leaves behind in a bucket: each the lesser of the one that it has and the given one.
func (o Outline) Lowered(floor, last message.ID) (message.ID, message.ID) {
	if o.Floor.Less(floor) {
		floor = o.Floor
	}
	if o.Last.Less(last) {
		last = o.Last
	}
	return floor, last
}
