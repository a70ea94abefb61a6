package bucket

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// Capacity is the number of slots of a bucket, unless its creator names another one.
	Capacity = 50
	// MaxCapacity is the greatest number of slots that every store accepts.
	MaxCapacity = 64
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
	// Expired marks an entry that Store.Empty has emptied. It keeps only the ID.
	Expired bool
}

// EntryOf returns the entry for message m. The entry shares m's memory.
func EntryOf(m message.Message) Entry {
	return Entry{ID: m.ID, From: m.From, Body: m.Body, ContentType: m.ContentType, Attrs: m.Attrs}
}

// Field names a part of the contents of an entry.
type Field int

// AllFields stands for the whole contents. The others can be read alone.
const (
	AllFields Field = iota
	FieldFrom
	FieldAttrs
)

// Only returns the entry without its contents but for one field. Its ID, Deleted and Expired stay.
func (e Entry) Only(field Field) Entry {
	only := Entry{ID: e.ID, Deleted: e.Deleted, Expired: e.Expired}
	switch field {
	case AllFields:
		return e
	case FieldFrom:
		only.From = e.From
	case FieldAttrs:
		only.Attrs = e.Attrs
	}
	return only
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
	// Decl says that the facets of the bucket are those of its entries for all declarations with numbers up to it. It is fixed when the bucket is
	// created, and never below that of the bucket before. It is zero if its creator knew of no declaration, and in a store without an Index.
	Decl int
	// Floor is the greatest id in any earlier bucket; zero in bucket 0.
	Floor message.ID
	// Last is the greatest id in this or any earlier bucket.
	Last message.ID
	// Entries are in the order of their slots, which is the order of the appends. They include tombstones and expired entries. A stub has
	// none.
	Entries []Entry
	// Stub says that Store.Empty has emptied the whole bucket. It was full, and every message up to Last has expired.
	Stub bool
	// Purged is at or above the ids of the expired entries, and zero if there are none. Every message up to Purged has expired.
	Purged message.ID
}

// Slots returns the number of taken slots.
func (b Bucket) Slots() int {
	if b.Stub {
		return b.Cap
	}
	return len(b.Entries)
}

// Full reports whether all slots are taken.
func (b Bucket) Full() bool { return b.Slots() >= b.Cap }

// Position returns the place of a slot in the inbox, counted from the first slot of bucket 0. It is the order of arrival.
func (b Bucket) Position(slot int) int64 { return b.Base + int64(slot) }

// Outline is a bucket without the contents of its entries. The Appender needs no more.
type Outline struct {
	Sequence uint32
	Cap      int
	Base     int64
	Decl     int
	Floor    message.ID
	Last     message.ID
	// IDs are the ids of the entries and tombstones in the order of their slots. A stub has none.
	IDs []message.ID
	// Stub is that of Bucket.
	Stub bool
}

// Slots returns the number of taken slots. It is zero if there is no such bucket.
func (o Outline) Slots() int {
	if o.Stub {
		return o.Cap
	}
	return len(o.IDs)
}

// Holds reports whether the bucket counts as holding a message. A stub counts as holding every message up to its last, because these have
// expired: none of them may be appended again.
func (o Outline) Holds(id message.ID) bool {
	return o.Stub && !o.Last.Less(id) || slices.Contains(o.IDs, id)
}

// Outline returns the bucket's outline.
func (b Bucket) Outline() Outline {
	ids := make([]message.ID, len(b.Entries))
	for i, e := range b.Entries {
		ids[i] = e.ID
	}
	return Outline{Sequence: b.Sequence, Cap: b.Cap, Base: b.Base, Decl: b.Decl, Floor: b.Floor, Last: b.Last, IDs: ids, Stub: b.Stub}
}

// Position is that of Bucket.
func (o Outline) Position(slot int) int64 { return o.Base + int64(slot) }

// Hint names a bucket at or below an owner's head, so that reads start near the head. It is never ahead of the head, because a
// hint is raised only to a bucket that exists. The zero Hint is valid for every inbox.
type Hint struct {
	Sequence uint32
	// Cap is the number of slots of that bucket, or zero if that is not known, or is the capacity that new buckets get.
	Cap int
	// Decl is that of the bucket.
	Decl int
	// Floor is the floor of that bucket.
	Floor message.ID
}

// FormatBase returns the Base of a bucket if all buckets below it have Capacity slots.
func FormatBase(sequence uint32) int64 { return int64(sequence) * Capacity }
