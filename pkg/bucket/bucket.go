package bucket

import (
	"encoding/json"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// Capacity is the number of slots of a bucket.
const Capacity = 50

// Entry is the copy of a message inside an inbox, or the tombstone that deleting it left. Entries are shared
// between inboxes: nobody may change one, nor what its fields point to.
type Entry struct {
	ID          message.ID
	From        message.UserID
	Body        string
	ContentType string
	Attrs       json.RawMessage
	// Recovered tells that a rehydration appended the entry, and not fan-out.
	Recovered bool
	// Deleted marks a tombstone. Only its ID is left, or not even that where another copy of the entry was removed.
	Deleted bool
}

// EntryOf returns the entry that stands for m in an inbox. It shares m's memory.
func EntryOf(m message.Message) Entry {
	return Entry{ID: m.ID, From: m.From, Body: m.Body, ContentType: m.ContentType, Attrs: m.Attrs}
}

// Sent returns when the entry's message was sent.
func (e Entry) Sent() time.Time { return e.ID.Time() }

// Bucket is up to Capacity entries of one owner.
type Bucket struct {
	Owner    message.UserID
	Sequence uint32
	// Floor is the greatest id in any earlier bucket; zero in bucket 0.
	Floor message.ID
	// Last is the greatest id in this or any earlier bucket.
	Last message.ID
	// Entries are in the order of their slots, which is the order in which they came, tombstones included.
	Entries []Entry
}

// Slots returns how many slots of the bucket are taken.
func (b Bucket) Slots() int { return len(b.Entries) }

// Outline is a bucket without the contents of its entries: what appending needs to see of it.
type Outline struct {
	Sequence uint32
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
	return Outline{Sequence: b.Sequence, Floor: b.Floor, Last: b.Last, IDs: ids}
}

// Hint says where an owner's head was when somebody last looked. It may be behind the head, never ahead of
// it: a hint is raised only to a bucket that exists. The zero Hint is always right.
type Hint struct {
	Sequence uint32
	// Floor is the floor of that bucket.
	Floor message.ID
}

// Position is the place of a slot in an inbox, counted from the first slot of bucket 0.
func Position(sequence uint32, slot int) int64 { return int64(sequence)*Capacity + int64(slot) }
