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
	// Base is the position up to which all slots have expired: where the bucket begins or, if it is a stub, where it ends.
	Base int64
	// Slots are the positions of the entries from Base up that have expired. Tombstones are not among them.
	Slots []int64
}

// holds reports whether the slot of a tombstone counts as expired already: that of a stub, or one whose entry was deleted between two reads.
func (e Expired) holds(t Tombstone) bool {
	return t.Position < e.Base || slices.Contains(e.Slots, t.Position)
}

// ReadExpired returns what has expired of an inbox with a head, up to an id. The bucket oldest has a floor at or below this id; the nearer it
// is to Expired.Sequence, the fewer buckets are read. A head without slots stands for an empty inbox.
func ReadExpired(ctx context.Context, store Store, owner message.UserID, head Bucket, upTo message.ID, oldest uint32) (Expired, error) {
	x := expiring{owner: owner, head: head, upTo: upTo, low: oldest}
	err := readExpired(ctx, store, []*expiring{&x})
	return x.expired, err
}

// expiring is an inbox of which it is to be known what has expired. The bucket sought is the highest one with a floor at or below upTo. Entries
// that have expired are in this bucket, in lower ones, and in those higher ones to which they came late.
type expiring struct {
	owner   message.UserID
	head    Bucket
	upTo    message.ID
	expired Expired

	// The bucket sought is at least low, below high, and probably probe.
	low, high, probe uint32
}

// readExpired finds what has expired of inboxes. Each call of the store is for all that are still open.
func readExpired(ctx context.Context, store Store, inboxes []*expiring) error {
	var open []*expiring
	for _, x := range inboxes {
		x.expired.UpTo = x.upTo
		switch {
		case x.upTo.IsZero() || x.head.Slots == 0:
		case !x.upTo.Less(x.head.Floor) || x.low >= x.head.Sequence:
			x.expire(store.Size(), []Bucket{x.head})
		default:
			x.high, x.probe = x.head.Sequence, x.low
			open = append(open, x)
		}
	}
	for len(open) > 0 {
		sections := make([]Section, len(open))
		for i, x := range open {
			sections[i] = x.section()
		}
		found, err := store.Range(ctx, sections, NoFields)
		if err != nil {
			return err
		}
		var left []*expiring
		for i, x := range open {
			done, err := x.saw(store.Size(), found[i])
			if err != nil {
				return err
			}
			if !done {
				left = append(left, x)
			}
		}
		open = left
	}
	return nil
}

// section returns what to read next: a probe, or the lowest bucket that may be the one sought. The floor of the one above tells whether it is.
func (x *expiring) section() Section {
	if x.probe > x.low {
		return Section{Owner: x.owner, Low: x.probe, High: x.probe}
	}
	return Section{Owner: x.owner, Low: x.low, High: min(x.low+1, x.high-1), Late: x.upTo.Next()}
}

// saw takes the buckets of the section, and reports whether the one sought is among them.
func (x *expiring) saw(size Size, found []Bucket) (bool, error) {
	next, probably := x.probe, x.probe == x.low
	if probably {
		next = min(x.low+1, x.high-1)
	}
	at, there := bucketAt(found, next)
	if !there {
		return false, lost(x.owner, next)
	}
	below := !x.upTo.Less(at.Floor)
	if probably && (next == x.low || !below) {
		if _, there := bucketAt(found, x.low); !there {
			return false, lost(x.owner, x.low)
		}
		x.expire(size, found)
		return true, nil
	}
	if below {
		x.low = next
	} else {
		x.high = next
	}
	x.probe = x.low + (x.high-x.low)/2
	return false, nil
}

// expire takes what has expired in the bucket sought, the last one, and in those above it. An entry there has expired only if it came late.
func (x *expiring) expire(size Size, found []Bucket) {
	sought := found[len(found)-1]
	x.expired.Sequence, x.expired.Base = sought.Sequence, size.Position(sought.Sequence, 0)
	if sought.Stub {
		x.expired.Base = sought.End(size)
	}
	for _, b := range found {
		for slot, e := range b.Entries {
			if !e.Deleted && !e.ID.IsZero() && !x.upTo.Less(e.ID) {
				x.expired.Slots = append(x.expired.Slots, size.Position(b.Sequence, slot))
			}
		}
	}
}
