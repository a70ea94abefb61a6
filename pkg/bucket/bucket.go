package bucket

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// Capacity is the size of the buckets of a store that was created without another one.
	Capacity = 50
	// MaxCapacity is the greatest size that a store may have.
	MaxCapacity = 64
)

// Size is how many slots every bucket of a store has. It is chosen when the database is created, and never changes.
type Size int

// Position returns the place of a slot in its inbox, counted from the first slot of bucket 0. It is the order of arrival.
func (s Size) Position(sequence uint32, slot int) int64 {
	return int64(sequence)*int64(s) + int64(slot)
}

// Entry is the copy of a message inside an inbox, or the tombstone of a deleted copy. Entries are shared between inboxes, so no
// caller may change an entry or the memory that its fields point to.
type Entry struct {
	ID          message.ID
	From        message.UserID
	Body        string
	ContentType string
	Attrs       json.RawMessage
	// To are the users whom the message names, if these are at most message.MaxNames and the owner of the inbox is one of them, or the author. ToCount
	// counts all whom it names.
	To       []message.UserID
	ToCount  int
	Audience message.Audience
	Topics   []message.Topic
	// Recovered reports that a rehydration appended the entry, not fan-out.
	Recovered bool
	// Deleted marks a tombstone. A tombstone keeps only the ID. A blanked entry keeps no ID either: see Store.Blank.
	Deleted bool
	// Expired marks an entry that Store.Empty has emptied. It keeps only the ID.
	Expired bool
}

// EntryOf returns the entry for message m in the inboxes of users whom it names. The entry shares m's memory.
func EntryOf(m message.Message) Entry {
	e := Entry{
		ID: m.ID, From: m.From, Body: m.Body, ContentType: m.ContentType, Attrs: m.Attrs, ToCount: len(m.To), Audience: m.Audience, Topics: m.Topics,
	}
	if len(m.To) <= message.MaxNames {
		e.To = m.To
	}
	return e
}

// EntryOfStored is EntryOf for a message that may be short.
func EntryOfStored(m message.Stored) Entry {
	e := EntryOf(m.Message)
	if m.Named > 0 {
		e.To, e.ToCount = nil, m.Named
	}
	return e
}

// For returns the entry as it is in an owner's inbox: without names, unless the owner is named or the author.
func (e Entry) For(owner message.UserID) Entry {
	if e.From != owner && !slices.Contains(e.To, owner) {
		e.To = nil
	}
	return e
}

// ReadBytes is how many bytes of contents are read of an inbox at a time. See Section.Bytes.
const ReadBytes = 4 << 20

// Size returns about how many bytes the contents take.
func (e Entry) Size() int {
	n := len(e.From) + len(e.Body) + len(e.ContentType) + len(e.Attrs)
	for _, user := range e.To {
		n += len(user)
	}
	for _, topic := range e.Topics {
		n += len(topic)
	}
	return n
}

// Field names a part of the contents of an entry.
type Field int

const (
	// AllFields stands for the whole contents.
	AllFields Field = iota
	// NoBody stands for all but the body.
	NoBody
	// FieldFrom is the sender alone.
	FieldFrom
	// FieldAttrs is the attributes alone.
	FieldAttrs
	// NoFields stands for entries without contents.
	NoFields
	// NoEntries stands for buckets without entries.
	NoEntries
)

// Only returns the entry without its contents but for one field. Its ID, Deleted and Expired stay.
func (e Entry) Only(field Field) Entry {
	only := Entry{ID: e.ID, Deleted: e.Deleted, Expired: e.Expired}
	switch field {
	case AllFields:
		return e
	case NoBody:
		e.Body = ""
		return e
	case FieldFrom:
		only.From = e.From
	case FieldAttrs:
		only.Attrs = e.Attrs
	case NoFields, NoEntries:
	}
	return only
}

// Sent returns when the entry's message was sent.
func (e Entry) Sent() time.Time { return e.ID.Time() }

// Outline is a bucket without its owner and entries.
type Outline struct {
	Sequence uint32
	// Slots counts the taken slots. It is zero if there is no such bucket.
	Slots int
	// Decl says that the facets of the bucket are those of its entries for all declarations with numbers up to it. It is fixed when the
	// bucket is created, and never below that of the bucket before. It is zero if the creator of the bucket knew of no declaration, and in
	// a store without an Index.
	Decl int
	// Floor is the greatest id in any earlier bucket; zero in bucket 0.
	Floor message.ID
	// Last is the greatest id in this or any earlier bucket.
	Last message.ID
	// Stub says that Store.Empty has emptied the whole bucket. It was full, and every message up to Last has expired.
	Stub bool
}

// End returns the position above the taken slots of the bucket. It is the number of taken slots of the inbox up to this bucket.
func (o Outline) End(size Size) int64 { return size.Position(o.Sequence, o.Slots) }

// Bucket is a bucket of one owner.
type Bucket struct {
	Outline

	Owner message.UserID
	// Entries are in the order of their slots, which is the order of the appends. They include tombstones and expired entries. A stub has
	// none.
	Entries []Entry
	// Purged is at or above the ids of the expired entries, and zero if there are none. Every message up to Purged has expired.
	Purged message.ID
}

// Bytes returns about how many bytes the contents of the entries take.
func (b Bucket) Bytes() (n int) {
	for _, e := range b.Entries {
		n += e.Size()
	}
	return n
}

// Bytes returns about how many bytes the contents of buckets take.
func Bytes(buckets []Bucket) (n int) {
	for _, b := range buckets {
		n += b.Bytes()
	}
	return n
}

// Holds reports whether the bucket counts as holding a message. A stub counts as holding every message up to its last, because these have
// expired: none of them may be appended again.
func (b Bucket) Holds(id message.ID) bool {
	return b.Stub && !b.Last.Less(id) || slices.ContainsFunc(b.Entries, func(e Entry) bool { return e.ID == id })
}

// Hint names a bucket at or below an owner's head, so that reads start near the head. It is never ahead of the head, because a
// hint is raised only to a bucket that exists. The zero Hint is valid for every inbox.
type Hint struct {
	Sequence uint32
	// Decl is that of the bucket.
	Decl int
	// Floor is the floor of that bucket.
	Floor message.ID
}
