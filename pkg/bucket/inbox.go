package bucket

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// ReadMark says up to where an owner has read. What is at or below UpTo and was in the inbox when the mark
// was set counts as read; a message that came later counts as unread even if it is older, for nobody has seen it.
type ReadMark struct {
	UpTo message.ID
	// Sequence is a bucket below which everything is read.
	Sequence uint32
	// Slots counts the slots of the whole inbox when the mark was set.
	Slots int64
	// Read counts those of them with an id at or below UpTo.
	Read int64
}

// Counts tells how many entries an inbox has, and how many of them are unread, from the number of its slots, its
// deletions since the mark's Sequence, and the mark. It is derived from what is stored: there is no counter
// that could drift.
func Counts(slots int64, d Deletions, mark ReadMark) (total, unread int64) {
	unread = slots - mark.Read
	for _, t := range d.Recent {
		if mark.UpTo.Less(t.ID) || Position(t.Sequence, t.Slot) >= mark.Slots {
			unread--
		}
	}
	return slots - d.Total, unread
}

// NewReadMark returns the mark that sets everything in the inbox at or below upTo read.
func NewReadMark(ctx context.Context, store Store, owner message.UserID, hint Hint, upTo message.ID) (ReadMark, error) {
	head, holders, err := locate(ctx, store, owner, hint, upTo)
	if err != nil || len(holders) == 0 {
		return ReadMark{UpTo: upTo}, err
	}
	mark := ReadMark{UpTo: upTo, Sequence: holders[0].Sequence, Slots: Position(head.Sequence, len(head.IDs))}
	mark.Read = Position(mark.Sequence, 0) // all of the buckets below are at or below their last, which is below upTo
	for _, b := range holders {
		for slot, e := range b.Entries {
			if !upTo.Less(e.ID) && Position(b.Sequence, slot) < mark.Slots {
				mark.Read++
			}
		}
	}
	return mark, nil
}

// Delete deletes the entry with that id from the owner's inbox. A tombstone stays in its place, so that no
// redelivery can bring the message back. It is idempotent, and returns ErrNotFound if the inbox never held it.
func Delete(ctx context.Context, store Store, owner message.UserID, hint Hint, id message.ID) error {
	_, holders, err := locate(ctx, store, owner, hint, id)
	if err != nil {
		return err
	}
	for _, b := range holders {
		if slices.Contains(b.Outline().IDs, id) {
			return store.Delete(ctx, owner, b.Sequence, id)
		}
	}
	return fmt.Errorf("delete %s from the inbox of %s: %w", id, owner, ErrNotFound)
}

// locate returns the head and the buckets that can hold id: first the highest bucket with a floor below id, in
// which it is if it came in its turn, then those above in which it can be if it came late. Everything in the
// buckets below is below id. An empty inbox has no such buckets.
func locate(ctx context.Context, store Store, owner message.UserID, hint Hint, id message.ID) (Outline, []Bucket, error) {
	heads, err := store.Heads(ctx, []Ref{{Owner: owner, Sequence: hint.Sequence}})
	if err != nil || len(heads[0].IDs) == 0 {
		return Outline{}, nil, err
	}
	head := heads[0]
	sequence, err := highestBelow(ctx, store, owner, head, id)
	if err != nil {
		return Outline{}, nil, err
	}
	holders, err := store.Range(ctx, owner, sequence, sequence, 1)
	if err != nil {
		return Outline{}, nil, err
	}
	if len(holders) == 0 {
		return Outline{}, nil, fmt.Errorf("inbox of %s: bucket %d is missing", owner, sequence)
	}
	if sequence == head.Sequence {
		return head, holders, nil
	}
	late, err := store.Overlapping(ctx, owner, sequence, successor(id))
	return head, append(holders, late...), err
}

// highestBelow returns the highest bucket with a floor below id. Floors rise with the sequence and never
// change, so that a search that gallops down from the head and then halves finds it in few reads.
func highestBelow(ctx context.Context, store Store, owner message.UserID, head Outline, id message.ID) (uint32, error) {
	if head.Sequence == 0 || head.Floor.Less(id) {
		return head.Sequence, nil
	}
	low, high := uint32(0), head.Sequence // the answer is at least low and less than high
	for step := uint32(1); low < high-1; {
		probe := low + (high-low)/2
		if step < high-low {
			probe = high - step
		}
		step *= 2
		b, err := store.Range(ctx, owner, probe, probe, 1)
		if err != nil {
			return 0, err
		}
		if len(b) == 0 {
			return 0, fmt.Errorf("inbox of %s: bucket %d is missing", owner, probe)
		}
		if b[0].Floor.Less(id) {
			low, step = probe, high // found a lower bound: halve from here on
		} else {
			high = probe
		}
	}
	return low, nil
}

// successor returns the least id above id.
func successor(id message.ID) message.ID {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]++
		if id[i] != 0 {
			return id
		}
	}
	return message.MaxID
}
