package bucket

import (
	"context"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// Expired says what has expired of an inbox: every message at or below UpTo. Its zero value stands for nothing.
type Expired struct {
	// UpTo is the owner's purge point.
	UpTo message.ID
	// Sequence is the highest bucket with a floor at or below UpTo. All messages in the buckets below it have expired.
	Sequence uint32
	// Base is the position up to which all slots have expired: the Base of that bucket or, if it is a stub, of the one above.
	Base int64
	// Slots are the positions of the entries from Base up that have expired. Tombstones are not among them.
	Slots []int64
}

// ReadExpired returns what has expired of an inbox with a head, up to an id. The bucket oldest has a floor at or below this id; the nearer it
// is to Expired.Sequence, the fewer buckets are read. A head without slots stands for an empty inbox.
//
// Entries that have expired are in the bucket Sequence, in lower ones, and in those higher ones to which they came late.
func ReadExpired(ctx context.Context, store Store, owner message.UserID, head Outline, upTo message.ID, oldest uint32) (Expired, error) {
	return readExpired(ctx, store, owner, head, upTo, oldest, nil)
}

// readExpired is ReadExpired for a caller that has read some of the buckets.
func readExpired(
	ctx context.Context, store Store, owner message.UserID, head Outline, upTo message.ID, oldest uint32, read map[uint32]spent,
) (Expired, error) {
	e := Expired{UpTo: upTo}
	if upTo.IsZero() || head.Cap == 0 {
		return e, nil
	}
	var err error
	if e.Sequence, err = oldestUnexpired(ctx, store, owner, head, upTo, oldest); err != nil {
		return e, err
	}
	s, known := read[e.Sequence]
	if !known {
		buckets, err := store.Range(ctx, owner, e.Sequence, e.Sequence, 1, AllFields)
		if err != nil {
			return e, err
		}
		if len(buckets) == 0 {
			return e, lost(owner, e.Sequence)
		}
		s = buckets[0].spent(upTo)
	}
	e.Base, e.Slots = s.base, s.slots
	if e.Sequence >= head.Sequence {
		return e, nil
	}
	late, err := store.Overlapping(ctx, owner, e.Sequence, upTo.Next())
	for _, b := range late {
		e.Slots = append(e.Slots, b.spent(upTo).slots...)
	}
	return e, err
}

// oldestUnexpired returns the highest bucket with a floor at or below an id.
func oldestUnexpired(ctx context.Context, store Store, owner message.UserID, head Outline, upTo message.ID, oldest uint32) (uint32, error) {
	if head.Sequence == 0 || !upTo.Less(head.Floor) || oldest >= head.Sequence {
		return head.Sequence, nil
	}
	if above := oldest + 1; above < head.Sequence {
		floor, err := floorOf(ctx, store, owner, above)
		if err != nil {
			return 0, err
		}
		if !upTo.Less(floor) {
			return highestBelow(ctx, store, owner, head, upTo.Next(), 0)
		}
	}
	return oldest, nil
}

// spent is what of a bucket has expired.
type spent struct {
	base  int64
	slots []int64
}

// spent returns what has expired up to an id. All slots of a stub have expired.
func (b Bucket) spent(upTo message.ID) spent {
	if b.Stub {
		return spent{base: b.Base + int64(b.Slots())}
	}
	s := spent{base: b.Base}
	for slot, e := range b.Entries {
		if !e.Deleted && !e.ID.IsZero() && !upTo.Less(e.ID) {
			s.slots = append(s.slots, b.Position(slot))
		}
	}
	return s
}

// holds reports whether the slot of a tombstone counts as expired already: that of a stub, or one whose entry was deleted between two reads.
func (e Expired) holds(t Tombstone) bool {
	return t.Position < e.Base || slices.Contains(e.Slots, t.Position)
}
