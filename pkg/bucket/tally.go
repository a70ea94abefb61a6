package bucket

import (
	"math/bits"
	"slices"

	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
)

// Tally is how many messages an inbox has.
type Tally struct {
	// Total counts the messages that are not archived. Unread counts those of them that are not read, and Unseen those that the owner has not seen.
	// A message in a gap counts as seen.
	Total, Unread, Unseen int64
	// Archived counts the messages that are archived.
	Archived int64
}

// Possible reports whether an inbox can have these counts. If not, the inbox changed between the reads on which they rest, and the caller reads all
// again, the owner's records first.
func (t Tally) Possible() bool {
	return min(t.Total, t.Unread, t.Unseen, t.Archived) >= 0 && max(t.Unread, t.Unseen) <= t.Total
}

// Clamped returns counts near to these that are possible.
func (t Tally) Clamped() Tally {
	t.Total, t.Archived = max(0, t.Total), max(0, t.Archived)
	t.Unread, t.Unseen = min(max(0, t.Unread), t.Total), min(max(0, t.Unseen), t.Total)
	return t
}

// Basis is what the records of an owner say that counts rest on. They are read before the buckets, so that the inbox has at least what they say.
type Basis struct {
	ReadMark ReadMark
	// Gaps are always in the same order, and above Purged.
	Gaps []Gap
	// Purged is the purge point, and Oldest a bucket with a floor at or below it.
	Purged message.ID
	Oldest uint32
	// Seen is how many slots the owner has seen.
	Seen int64
	// Flags are those of single messages. They are read after the rest.
	Flags flag.Record
}

// deletionsFrom returns the lowest bucket whose tombstones Counts needs.
func (b Basis) deletionsFrom(size Size) uint32 {
	switch {
	case !b.Purged.IsZero():
		return b.Oldest // all messages below have expired
	case len(b.Gaps) > 0:
		return 0
	}
	from := b.ReadMark.Sequence
	if b.Seen > 0 { // otherwise the number of all tombstones is enough
		from = min(from, uint32(b.Seen/int64(size))) //nolint:gosec // it is a sequence
	}
	if len(b.Flags.Buckets) > 0 {
		from = min(from, b.Flags.Buckets[0].Sequence)
	}
	return from
}

// Inventory is an inbox as it was read, as far as Counts needs it.
type Inventory struct {
	Basis

	// Size is that of the store. Counts needs it if there are Flags.
	Size Size
	// Slots counts the taken slots.
	Slots int64
	// Deletions are best read before Slots. Recent must go back to the Sequence of the mark, to the bucket in which slot Seen is, and to the lowest one
	// with flags; to bucket 0 if there are gaps. If something has expired, it must go back to Expired.Sequence, and need go no further.
	Deletions Deletions
	// Expired is what has expired up to Purged.
	Expired Expired

	// covered has, for buckets with flags, the slots whose ids are at or below the read mark's UpTo: see readCovered.
	covered map[uint32]uint64
}

// Counts counts an inbox. It computes the counts from the number of slots, the deletions, the read mark, the gaps, what has expired, and the flags of
// single messages, so no stored counter can drift. It leaves out tombstones of slots that were taken after Slots was read.
func Counts(in Inventory) (t Tally) {
	mark, expired, purged := in.ReadMark, in.Expired, !in.Expired.UpTo.IsZero()
	t.Total = in.Slots - expired.Base - int64(len(expired.Slots))
	t.Unread = in.Slots - expired.Base - (mark.Read - min(expired.Base, mark.Slots))
	t.Unseen = in.Slots - max(expired.Base, in.Seen)
	for _, at := range expired.Slots {
		if at >= mark.Slots {
			t.Unread--
		}
		if at >= in.Seen {
			t.Unseen--
		}
	}
	for i, g := range in.Gaps {
		t.Total += g.Messages
		t.Unread += g.Messages - mark.ReadIn(i, g)
	}
	absent := make(map[message.ID]flag.Flags, len(in.Flags.Messages))
	for _, m := range in.Flags.Messages {
		absent[m.ID] = m.Flags
	}
	deleted := in.Deletions.Total
	for _, d := range in.Deletions.Recent {
		if d.Position >= in.Slots {
			deleted--
			continue
		}
		if expired.holds(d) {
			continue
		}
		if purged {
			t.Total--
		}
		if (purged || in.Seen > 0) && d.Position >= in.Seen {
			t.Unseen--
		}
		above := mark.UpTo.Less(d.ID)
		if d.Sequence >= mark.Sequence && (above || d.Position >= mark.Slots) {
			t.Unread-- // the slots below the mark's sequence are all read, also one that held a message from the future
		}
		if i := in.gapOf(d.ID); i >= 0 {
			delete(absent, d.ID)
			t.Total--
			if above || i >= mark.Gaps {
				t.Unread--
			}
		}
	}
	if !purged {
		t.Total -= deleted
	}
	if !purged && in.Seen == 0 {
		t.Unseen -= deleted
	}
	if in.coversNothing() {
		t.Unread = t.Total
	}
	in.addFlags(&t, absent)
	return t
}

// addFlags corrects counts by the flags of messages that are there. absent are those of messages without a tombstone, by id.
func (in *Inventory) addFlags(t *Tally, absent map[message.ID]flag.Flags) {
	dead := in.dead()
	for _, b := range in.Flags.Buckets {
		first, live := in.Size.Position(b.Sequence, 0), in.live(b.Sequence, dead)
		covered, archived := in.coveredOf(b.Sequence), b.Archived&live
		count := func(slots uint64) int64 { return int64(bits.OnesCount64(slots)) }
		t.Archived += count(archived)
		t.Total -= count(archived)
		t.Unseen -= count(archived &^ slotsBelow(in.Seen-first))
		t.Unread += count(live&b.Unread&covered&^b.Archived) - count(live&(b.Read|b.Archived)&^covered)
	}
	for id, f := range absent {
		gap := in.gapOf(id)
		if gap < 0 {
			continue // the gap was cut: the message has expired
		}
		if f.Archived() {
			t.Archived++
			t.Total--
		}
		covered := gap < in.ReadMark.Gaps && !in.ReadMark.UpTo.Less(id)
		switch unread := !f.Read(covered) && !f.Archived(); {
		case covered && unread:
			t.Unread++
		case !covered && !unread:
			t.Unread--
		}
	}
}

// gapOf returns the place of the gap that an id lies in, or -1.
func (in *Inventory) gapOf(id message.ID) int {
	return slices.IndexFunc(in.Gaps, func(g Gap) bool { return g.Stretch().Holds(id) })
}

// coversNothing reports whether all that the mark covers has expired.
func (in *Inventory) coversNothing() bool {
	return !in.Expired.UpTo.IsZero() && !in.Expired.UpTo.Less(in.ReadMark.UpTo)
}

// slotsBelow returns the first n slots of a bucket.
func slotsBelow(n int64) uint64 { return 1<<max(0, min(n, MaxCapacity)) - 1 }

// dead returns the slots of tombstones and of entries that have expired, by bucket, if there are flags.
func (in *Inventory) dead() map[uint32]uint64 {
	if len(in.Flags.Buckets) == 0 {
		return nil
	}
	dead := make(map[uint32]uint64)
	for _, d := range in.Deletions.Recent {
		dead[d.Sequence] |= 1 << d.Slot
	}
	for _, at := range in.Expired.Slots {
		dead[uint32(at/int64(in.Size))] |= 1 << (at % int64(in.Size)) //nolint:gosec // it is a sequence
	}
	return dead
}

// live returns the slots of a bucket that are taken by a message that is neither deleted nor expired.
func (in *Inventory) live(sequence uint32, dead map[uint32]uint64) uint64 {
	first := in.Size.Position(sequence, 0)
	return slotsBelow(in.Slots-first) &^ slotsBelow(in.Expired.Base-first) &^ dead[sequence]
}

// coveredOf returns the slots of a bucket that the mark covers, and maybe others that have expired.
func (in *Inventory) coveredOf(sequence uint32) uint64 {
	if sequence < in.ReadMark.Sequence {
		return slotsBelow(MaxCapacity)
	}
	return in.covered[sequence] & slotsBelow(in.ReadMark.Slots-in.Size.Position(sequence, 0))
}

// saw takes a bucket that was read. If it has flags, its ids say which of its slots the mark covers.
func (in *Inventory) saw(b Bucket) {
	if in.Flags.In(b.Sequence).At == 0 {
		return
	}
	if in.covered == nil {
		in.covered = make(map[uint32]uint64)
	}
	in.covered[b.Sequence] = 0
	for slot, e := range b.Entries {
		if !in.ReadMark.UpTo.Less(e.ID) {
			in.covered[b.Sequence] |= 1 << slot
		}
	}
}

const (
	// coveredAtOnce is how many buckets readCovered reads of an inbox at a time, and coveredApart how near two of them are that it reads together.
	coveredAtOnce = 64
	coveredApart  = 4
)

// toRead names the buckets with flags that were not read and whose ids decide what the mark covers.
func (in *Inventory) toRead(owner message.UserID) (sections []Section) {
	if in.coversNothing() {
		return nil
	}
	dead := in.dead()
	for _, b := range in.Flags.Buckets {
		_, seen := in.covered[b.Sequence]
		decided := b.Sequence < in.ReadMark.Sequence || in.Size.Position(b.Sequence, 0) >= in.ReadMark.Slots
		if seen || decided || in.live(b.Sequence, dead)&(b.Read|b.Unread|b.Archived) == 0 {
			continue
		}
		if n := len(sections) - 1; n >= 0 && b.Sequence-sections[n].High <= coveredApart && b.Sequence-sections[n].Low < coveredAtOnce {
			sections[n].High = b.Sequence
			continue
		}
		sections = append(sections, Section{Owner: owner, Low: b.Sequence, High: b.Sequence})
	}
	return sections
}
