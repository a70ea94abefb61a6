package bucket

import (
	"context"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// MendedReadMark returns a mark that is up to a void message with another UpTo, and reports whether it could. A read mark only moves
// forward, so the owner could not mark anything read until that message's time. UpTo becomes the greatest id that the mark says is read.
// No message becomes read or unread. inGaps is the greatest id at or below the UpTo of the mark of a message in the gaps that the mark
// lists, or zero.
//
// It does nothing while a void message that the mark counts is live: see Repair. As NewReadMark, it ignores what is read in gaps, but for
// Gaps.
func MendedReadMark(ctx context.Context, store Store, owner message.UserID, mark ReadMark, inGaps message.ID, void Judge) (ReadMark, bool, error) {
	mended := ReadMark{UpTo: inGaps, Sequence: mark.Sequence, Slots: mark.Slots, Gaps: mark.Gaps}
	var ids []message.ID // in the slots from the start of Sequence
	next := int64(0)     // the position above the buckets read
	begun := false       // a bucket at or above Sequence was read
	const stride = 8     // buckets a query
	for low := uint32(0); next < mark.Slots; {
		buckets, err := store.Range(ctx, owner, low, low+stride-1, stride)
		if err != nil || len(buckets) == 0 {
			return mark, false, err
		}
		next = buckets[0].Position(buckets[0].Cap)
		low = buckets[0].Sequence + 1
		slices.Reverse(buckets)
		blanked, err := blankedIn(ctx, store, owner, buckets)
		if err != nil {
			return mark, false, err
		}
		for _, b := range buckets {
			if b.Sequence >= mark.Sequence && !begun {
				mended.Read, begun = b.Base, true
			}
			if b.Stub { // its last has expired, so it is not that of a void message
				mended = mended.withStub(b, mark)
				continue
			}
			held := b.held(blanked)
			if held == nil { // a slot has lost its id
				return mark, false, nil
			}
			held = held[:max(0, min(int64(len(held)), mark.Slots-b.Base))]
			held = slices.DeleteFunc(held, func(e Entry) bool { return mark.UpTo.Less(e.ID) })
			live, high, err := void.split(ctx, held, mended.UpTo)
			if err != nil || len(live) > 0 {
				return mark, false, err
			}
			mended.UpTo = high
			if b.Sequence >= mark.Sequence {
				ids = append(ids, Bucket{Entries: held}.Outline().IDs...)
			}
		}
	}
	for _, id := range ids {
		if !mended.UpTo.Less(id) {
			mended.Read++
		}
	}
	return mended, true, nil
}

// withStub returns a mark that is mended, with the slots of a stub: all are read, or none if the mark was not up to the last of the stub.
func (m ReadMark) withStub(b Bucket, from ReadMark) ReadMark {
	if from.UpTo.Less(b.Last) {
		return m
	}
	m.UpTo = greater(m.UpTo, b.Last)
	if b.Sequence >= from.Sequence {
		m.Read += max(0, min(int64(b.Slots()), from.Slots-b.Base))
	}
	return m
}
