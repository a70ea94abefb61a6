package bucket

import (
	"encoding/json"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// Capacity is the number of slots of a bucket, unless its creator names another one.
	Capacity = 50
	// MaxCapacity is the greatest number of slots that every store accepts.
	MaxCapacity = 255
)

// Entry is the copy of a message inside an inbox, or the tombstone of a deleted copy. Entries are shared between inboxes, so no
// caller may change an entry or the memory that its fields point to.
type Entry struct {
	ID          message.ID
	From        message.UserID
	Body        string
	ContentType string
	Attrs       json.RawMessage
	// Recovered reports that a rehydration appended the entry, not fan-out.
	Recovered bool
	// Deleted marks a tombstone. A tombstone keeps only the ID. A blanked entry keeps no ID either: see Store.Blank.
	Deleted bool
}

// EntryOf returns the entry for message m. The entry shares m's memory.
func EntryOf(m message.Message) Entry {
	return Entry{ID: m.ID, From: m.From, Body: m.Body, ContentType: m.ContentType, Attrs: m.Attrs}
}

// Sent returns when the entry's message was sent.
func (e Entry) Sent() time.Time { return e.ID.Time() }

// Bucket is up to Cap entries of one owner.
type Bucket struct {
	Owner    message.UserID
	Sequence uint32
	// Cap is the number of slots, and Base the number of slots in all earlier buckets. Both are fixed when the bucket is created.
	Cap  int
	Base int64
	// Floor is at or above every id in any earlier bucket; zero in bucket 0. Tombstones of void messages do not count.
	Floor message.ID
	// Last is at or above every id in this or any earlier bucket. Tombstones of void messages do not count.
	Last message.ID
	// Entries are in the order of their slots, which is the order of the appends. They include tombstones.
	Entries []Entry
}

// Slots returns the number of taken slots.
func (b Bucket) Slots() int { return len(b.Entries) }

// Full reports whether all slots are taken.
func (b Bucket) Full() bool { return b.Slots() >= b.Cap }

// Position returns the place of a slot in the inbox, counted from the first slot of bucket 0. It is the order of arrival.
func (b Bucket) Position(slot int) int64 { return b.Base + int64(slot) }

// Outline is a bucket without the contents of its entries. The Appender needs no more.
type Outline struct {
	Sequence uint32
	Cap      int
	Base     int64
	Floor    message.ID
	Last     message.ID
	// IDs are the ids of the entries and tombstones in the order of their slots.
	IDs []message.ID
}

// Outline returns the bucket's outline.
func (b Bucket) Outline() Outline {
	ids := make([]message.ID, len(b.Entries))
	for i, e := range b.Entries {
		ids[i] = e.ID
	}
	return Outline{Sequence: b.Sequence, Cap: b.Cap, Base: b.Base, Floor: b.Floor, Last: b.Last, IDs: ids}
}

// Position is that of Bucket.
func (o Outline) Position(slot int) int64 { return o.Base + int64(slot) }

// Hint names a bucket at or below an owner's head, so that reads start near the head. It is never ahead of the head, because a
// hint is raised only to a bucket that exists. The zero Hint is valid for every inbox.
type Hint struct {
	Sequence uint32
	// Cap is the number of slots of that bucket, or zero if that is not known, or is the capacity that new buckets get.
	Cap int
	// Floor is the floor of that bucket, or above it if Repair has lowered it since.
	Floor message.ID
}

// FormatBase returns the Base of a bucket if all buckets below it have Capacity slots.
func FormatBase(sequence uint32) int64 { return int64(sequence) * Capacity }
