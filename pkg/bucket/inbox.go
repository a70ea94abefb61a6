package bucket

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// ReadMark says which messages an owner has read: those at or below UpTo that were in the inbox when the mark was set. A message that
// was appended later is unread even if it is older than UpTo, because the owner has not seen it. ReadIn says what holds in gaps.
type ReadMark struct {
	UpTo message.ID
	// Sequence names a bucket. All entries in the buckets below it are read.
	Sequence uint32
	// Slots counts the slots, and Gaps the gaps, of the whole inbox when the mark was set.
	Slots int64
	Gaps  int
	// Read counts the slots with an id at or below UpTo.
	Read int64
	// InGap counts the messages at or below UpTo in the gap in which UpTo lies, if the mark lists that gap. One number is enough, because
	// gaps do not overlap: ReadIn derives those of the other gaps.
	InGap int64
}

// ReadIn returns how many messages of a gap the mark says are read. place is the gap's place among all gaps. A message that becomes
// visible later at or below UpTo, in a gap that the mark lists, is read, too.
func (m ReadMark) ReadIn(place int, g Gap) int64 {
	switch stretch := g.Stretch(); {
	case place >= m.Gaps || !stretch.After.Less(m.UpTo):
		return 0
	case stretch.Holds(m.UpTo):
		return m.InGap
	default:
		return g.Messages
	}
}

// Says reports whether a mark says that an entry is read, as Counts counts it. gaps are all gaps of the inbox.
func (m ReadMark) Says(f Found, gaps []Gap) bool {
	if !f.Absent {
		return f.Sequence < m.Sequence || !m.UpTo.Less(f.ID) && f.Position < m.Slots
	}
	place := slices.IndexFunc(gaps, func(g Gap) bool { return g.Stretch().Holds(f.ID) })
	return place >= 0 && place < m.Gaps && !m.UpTo.Less(f.ID)
}

// Covers reports whether m is at least as far as o in each of UpTo, Slots and Gaps. Then every message that o says is read, m says is
// read. Of two marks it may be that neither covers the other.
func (m ReadMark) Covers(o ReadMark) bool {
	return !m.UpTo.Less(o.UpTo) && m.Slots >= o.Slots && m.Gaps >= o.Gaps
}

// Gap is a time range of an inbox whose messages are not in buckets, because the user had missed too many. It holds the
// messages that were sent after After and before Before; both ends are excluded. Readers take these messages from the
// authors. A message may become visible in a gap later; the number of its messages then rises. To delete one of them, the
// inbox pushes its tombstone.
type Gap struct {
	After, Before time.Time
	// Messages counts the messages, including those that were deleted later.
	Messages int64
}

// Holds reports whether a message that was sent at the given time is in the gap.
func (g Gap) Holds(sent time.Time) bool { return sent.After(g.After) && sent.Before(g.Before) }

// Stretch returns the ids that are in the gap.
func (g Gap) Stretch() Stretch {
	return Stretch{After: message.LastBefore(g.After.Add(time.Millisecond)), Before: message.MinID(g.Before)}
}

// Above returns the part of the gap above an id that is the last possible one of its millisecond. Its Messages are still those of the whole
// gap. If nothing is left, its Stretch is empty.
func (g Gap) Above(id message.ID) Gap {
	if g.Stretch().After.Less(id) {
		g.After = id.Time()
	}
	return g
}

// Equal reports whether two gaps are the same.
func (g Gap) Equal(o Gap) bool {
	return g.After.Equal(o.After) && g.Before.Equal(o.Before) && g.Messages == o.Messages
}

// Holds reports whether an id is in the stretch.
func (s Stretch) Holds(id message.ID) bool { return s.After.Less(id) && id.Less(s.Before) }

// NewReadMark returns a mark that sets all entries at or below upTo read, in the slots below a position. It ignores gaps: the caller sets Gaps
// and InGap.
func NewReadMark(ctx context.Context, store Store, owner message.UserID, hint Hint, upTo message.ID, below int64) (ReadMark, error) {
	head, err := ReadHead(ctx, store, owner, hint)
	if err != nil {
		return ReadMark{}, err
	}
	holders, err := holdersOf(ctx, store, owner, head, upTo)
	if err != nil || len(holders) == 0 {
		return ReadMark{UpTo: upTo}, err
	}
	size, lowest := store.Size(), holders[len(holders)-1].Sequence
	mark := ReadMark{UpTo: upTo, Sequence: lowest, Slots: min(below, head.End(size))}
	mark.Read = size.Position(lowest, 0) // all of the buckets below, also the tombstones of void messages, which Counts leaves out
	if mark.Read >= mark.Slots {         // upTo lies in a gap, above everything in these slots
		mark.Sequence, mark.Read = uint32(mark.Slots/int64(size)), mark.Slots //nolint:gosec // it is a sequence
		return mark, nil
	}
	blanked, err := blankedIn(ctx, store, owner, holders)
	if err != nil {
		return ReadMark{}, err
	}
	for _, b := range holders {
		mark.Read += mark.readOf(size, b, blanked)
	}
	return mark, nil
}

// readOf counts the slots of a bucket, from Sequence up, that the mark says are read. Of a stub, these are all or none. If none, UpTo is at or
// below the last of the stub. Then all that UpTo covers has expired, so the number does not matter.
func (m ReadMark) readOf(size Size, b Bucket, blanked map[int64]message.ID) (read int64) {
	if b.Stub && !m.UpTo.Less(b.Last) {
		return max(0, min(b.End(size), m.Slots)-size.Position(b.Sequence, 0))
	}
	for slot, e := range b.Entries {
		at := size.Position(b.Sequence, slot)
		if e.ID.IsZero() {
			e.ID = blanked[at]
		}
		if at < m.Slots && !m.UpTo.Less(e.ID) {
			read++
		}
	}
	return read
}

// blankedIn returns the ids of the blanked entries in buckets, by position. It takes them from the deletions, as Counts does. The
// lowest bucket comes last.
func blankedIn(ctx context.Context, store Store, owner message.UserID, buckets []Bucket) (map[int64]message.ID, error) {
	blank := func(e Entry) bool { return e.ID.IsZero() }
	if !slices.ContainsFunc(buckets, func(b Bucket) bool { return slices.ContainsFunc(b.Entries, blank) }) {
		return nil, nil
	}
	deletions, err := ReadDeletions(ctx, store, owner, buckets[len(buckets)-1].Sequence)
	if err != nil {
		return nil, err
	}
	ids := make(map[int64]message.ID)
	for _, t := range deletions.Recent {
		ids[t.Position] = t.ID
	}
	return ids, nil
}

// Delete deletes the entry with that id from the owner's inbox. It returns ErrNotFound if the inbox never held the entry. It is
// idempotent. The tombstone keeps the id, so a redelivery cannot append the message again. Delete does nothing to an entry that has been
// emptied: see Store.Empty.
func Delete(ctx context.Context, store Store, owner message.UserID, hint Hint, id message.ID) error {
	err := deleteHeld(ctx, store, owner, hint, id)
	if errors.Is(err, ErrNotFound) {
		err = deleteHeld(ctx, store, owner, hint, id) // its bucket may have been emptied between the two steps
	}
	return err
}

func deleteHeld(ctx context.Context, store Store, owner message.UserID, hint Hint, id message.ID) error {
	holders, err := locate(ctx, store, owner, hint, id)
	if err != nil {
		return err
	}
	expired := false
	for _, b := range holders {
		expired = expired || b.Stub && !b.Last.Less(id)
		if i := slices.IndexFunc(b.Entries, func(e Entry) bool { return e.ID == id }); i >= 0 && !b.Entries[i].Expired {
			return store.Delete(ctx, owner, b.Sequence, id)
		} else if i >= 0 {
			return nil
		}
	}
	if expired {
		return nil
	}
	return fmt.Errorf("delete %s from the inbox of %s: %w", id, owner, ErrNotFound)
}

// Deleted reports whether an owner has deleted the message with that id. A deletion that an emptied bucket held is forgotten: all messages up to the
// purge point have expired.
func Deleted(ctx context.Context, store Store, owner message.UserID, hint Hint, id message.ID) (bool, error) {
	holders, err := locate(ctx, store, owner, hint, id)
	deleted := func(e Entry) bool { return e.ID == id && e.Deleted }
	return slices.ContainsFunc(holders, func(b Bucket) bool { return slices.ContainsFunc(b.Entries, deleted) }), err
}

// Locate returns where the buckets of an inbox hold messages, tombstones and expired entries included, without contents. Messages that no
// bucket holds are missing in the result. A place never changes.
func Locate(ctx context.Context, store Store, owner message.UserID, hint Hint, ids []message.ID) (map[message.ID]Found, error) {
	places := make(map[message.ID]Found, len(ids))
	head, err := ReadHead(ctx, store, owner, hint)
	if err != nil {
		return nil, err
	}
	rest := slices.SortedFunc(slices.Values(ids), message.ID.Compare)
	for len(rest) > 0 && head.Slots > 0 {
		holders, err := holdersOf(ctx, store, owner, head, rest[len(rest)-1])
		if err != nil {
			return nil, err
		}
		for _, b := range holders {
			for slot, e := range b.Entries {
				if _, wanted := slices.BinarySearchFunc(rest, e.ID, message.ID.Compare); wanted {
					places[e.ID] = Found{Entry: e, Sequence: b.Sequence, Position: store.Size().Position(b.Sequence, slot)}
				}
			}
		}
		floor := holders[len(holders)-1].Floor // no lower bucket has an id above it
		n, _ := slices.BinarySearchFunc(rest, floor.Next(), message.ID.Compare)
		rest = rest[:n]
	}
	return places, nil
}

// locate returns the buckets that can hold id: see holdersOf.
func locate(ctx context.Context, store Store, owner message.UserID, hint Hint, id message.ID) ([]Bucket, error) {
	head, err := ReadHead(ctx, store, owner, hint)
	if err != nil {
		return nil, err
	}
	return holdersOf(ctx, store, owner, head, id)
}

// holdersOf returns the buckets that can hold id, without contents. The last is the highest bucket with a floor below id: it holds id
// if the message came in order. The others are the buckets above it to which messages came late. The entries of all lower buckets are
// below id. An empty inbox has no such buckets.
func holdersOf(ctx context.Context, store Store, owner message.UserID, head Bucket, id message.ID) ([]Bucket, error) {
	if head.Slots == 0 {
		return nil, nil
	}
	sequence, err := highestBelow(ctx, store, owner, head.Outline, id, nearHead)
	if err != nil {
		return nil, err
	}
	section := Section{Owner: owner, Low: sequence, High: sequence}
	if sequence < head.Sequence {
		section.Late = id.Next()
	}
	holders, err := ReadSection(ctx, store, section, NoFields)
	if err != nil {
		return nil, err
	}
	if _, there := bucketAt(holders, sequence); !there {
		return nil, lost(owner, sequence)
	}
	return holders, nil
}

// ReadHead returns the head of an inbox: see Store.Heads.
func ReadHead(ctx context.Context, store Store, owner message.UserID, hint Hint) (Bucket, error) {
	heads, err := store.Heads(ctx, []Head{{Owner: owner, Hint: hint}})
	if err != nil {
		return Bucket{}, err
	}
	return heads[0], nil
}

// lateAbove names only the buckets above one into which a message below id came late.
func lateAbove(owner message.UserID, sequence uint32, id message.ID) Section {
	return Section{Owner: owner, Low: sequence + 1, High: sequence, Late: id}
}

// lost returns the error for a bucket that has to be there because a later one is.
func lost(owner message.UserID, sequence uint32) error {
	return fmt.Errorf("inbox of %s: bucket %d is missing: %w", owner, sequence, message.ErrCorrupt)
}

// Check reads all buckets of an inbox. It returns an error that wraps message.ErrCorrupt if one is damaged, or if one is missing below the
// head and was not removed. Entries that are missing in a bucket are no concern of Check.
func Check(ctx context.Context, store Store, owner message.UserID) error {
	head, err := ReadHead(ctx, store, owner, Hint{})
	if err != nil || head.Slots == 0 {
		return err
	}
	const stride = 8 // buckets a query
	for next := int64(head.Sequence); next >= 0; {
		low := max(0, next-stride+1)
		buckets, err := ReadSection(ctx, store, Section{Owner: owner, Low: uint32(low), High: uint32(next)}, AllFields) //nolint:gosec // both are sequences
		if err != nil {
			return err
		}
		for _, b := range buckets {
			if b.Stub && b.Floor.IsZero() && int64(b.Sequence) >= next {
				return nil // there are no messages below
			}
			if int64(b.Sequence) != next {
				break
			}
			next--
		}
		if next >= low {
			return lost(owner, uint32(next)) //nolint:gosec // it is a sequence
		}
	}
	return nil
}

// nearHead is how many floors more than needed a search for a recent id may read. It begins with so many next to the head.
const nearHead = 2

// highestBelow returns the highest bucket with a floor below id. Floors rise with the sequence. So it
// bisects. Of an inbox of n buckets, it reads at most 1 + log2(n) floors, and more if the caller allows them. Each probe is as near to the
// head as the remaining reads allow, because most searches are for a recent id.
func highestBelow(ctx context.Context, store Store, owner message.UserID, head Outline, id message.ID, more int) (uint32, error) {
	if head.Sequence == 0 || head.Floor.Less(id) {
		return head.Sequence, nil
	}
	low, high := uint64(0), uint64(head.Sequence) // the answer is at least low and less than high
	for reads := bits.Len64(high+1) + more; low < high-1; reads-- {
		probe := min(high-1, low+1<<(reads-1))                // the reads that are left can bisect the buckets below
		o, err := outlineOf(ctx, store, owner, uint32(probe)) //nolint:gosec // it is below the head's sequence
		if err != nil {
			return 0, err
		}
		if o.Floor.Less(id) {
			low = probe
		} else {
			high = probe
		}
	}
	return uint32(low), nil
}

// outlineOf returns the outline of a bucket that has to be there, or that of the stub that stands for it because it was removed.
func outlineOf(ctx context.Context, store Store, owner message.UserID, sequence uint32) (Outline, error) {
	found, err := ReadSection(ctx, store, Section{Owner: owner, Low: sequence, High: sequence}, NoEntries)
	if err != nil {
		return Outline{}, err
	}
	at, exists := bucketAt(found, sequence)
	if !exists {
		return Outline{}, lost(owner, sequence)
	}
	return at.Outline, nil
}

// bucketAt returns the bucket with a sequence, or the stub that stands for it because it was removed.
func bucketAt(found []Bucket, sequence uint32) (Bucket, bool) {
	for _, b := range found {
		if b.Sequence == sequence {
			return b, true
		}
	}
	if n := len(found); n > 0 && found[n-1].Stub && found[n-1].Floor.IsZero() && found[n-1].Sequence > sequence {
		return found[n-1], true
	}
	return Bucket{}, false
}
