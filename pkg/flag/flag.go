// Package flag defines the state of single messages in an inbox: what is read or unread whatever the read mark says, and what is archived.
//
// The flags of an inbox are one record, apart from its buckets, because appends and deletions never touch them. A place in a bucket never
// holds another message, so flags belong to places. A message in a gap has no place: its flags belong to its id.
//
// test/proof checks exhaustively, for small instances, that counts with flags are exact.
package flag

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// MaxBuckets is how many buckets of an inbox may have flags. The record has 36 bytes for each.
	MaxBuckets = 4096
	// MaxMessages is how many messages in gaps may have flags.
	MaxMessages = 256
)

// ErrTooMany says that an inbox would have flags in more than MaxBuckets buckets or for more than MaxMessages messages in gaps.
var ErrTooMany = errors.New("too many messages are marked one by one")

// Flags are the state of one message, as far as it differs from what the read mark says.
type Flags uint8

const (
	// Read says that the message is read.
	Read Flags = 1 << iota
	// Unread says that the message is unread. No message has Read and Unread.
	Unread
	// Archived says that the message is archived. It may be read or unread.
	Archived
)

// Read reports whether a message with these flags is read. covered is what the read mark says.
func (f Flags) Read(covered bool) bool { return f&Read != 0 || covered && f&Unread == 0 }

// Archived reports whether a message with these flags is archived.
func (f Flags) Archived() bool { return f&Archived != 0 }

// Change is what a request does to the flags of messages. Nil leaves them as they are.
type Change struct{ Read, Archived *bool }

// Of returns flags after the change.
func (c Change) Of(f Flags) Flags {
	if c.Read != nil {
		if f &^= Read | Unread; *c.Read {
			f |= Read
		} else {
			f |= Unread
		}
	}
	if c.Archived != nil {
		if f &^= Archived; *c.Archived {
			f |= Archived
		}
	}
	return f
}

// Place is a slot of an inbox.
type Place struct {
	Sequence uint32
	Slot     int
}

// Bucket are the flags of a bucket. Bit i of each map stands for slot i.
type Bucket struct {
	Sequence uint32
	// At is the revision of the record that changed these flags last.
	At                     int64
	Read, Unread, Archived uint64
}

func (b Bucket) empty() bool { return b.Read|b.Unread|b.Archived == 0 }

// Of returns the flags of a slot.
func (b Bucket) Of(slot int) Flags {
	return Flags(b.Read>>slot&1)*Read | Flags(b.Unread>>slot&1)*Unread | Flags(b.Archived>>slot&1)*Archived
}

// with returns the bucket with other flags for a slot.
func (b Bucket) with(slot int, f Flags) Bucket {
	for _, bits := range []struct {
		of   *uint64
		flag Flags
	}{{&b.Read, Read}, {&b.Unread, Unread}, {&b.Archived, Archived}} {
		if *bits.of &^= 1 << slot; f&bits.flag != 0 {
			*bits.of |= 1 << slot
		}
	}
	return b
}

// Message are the flags of a message in a gap.
type Message struct {
	ID    message.ID
	Flags Flags
}

// Record are the flags of an inbox. A record with Revision 0 stands for none. Records share their slices: nobody changes these.
type Record struct {
	Owner message.UserID
	// Revision rises by 1 with each change, and never falls: the record is never removed.
	Revision int64
	// Buckets are those with flags, ascending.
	Buckets []Bucket
	// Messages are those in gaps with flags, ascending.
	Messages []Message
	// MessagesAt is the revision that changed Messages last, and DroppedAt the last one after which a bucket or a message had no flags any more.
	MessagesAt, DroppedAt int64
}

// In returns the flags of a bucket.
func (r Record) In(sequence uint32) Bucket {
	if i, there := r.find(sequence); there {
		return r.Buckets[i]
	}
	return Bucket{Sequence: sequence}
}

func (r Record) find(sequence uint32) (int, bool) {
	return slices.BinarySearchFunc(r.Buckets, sequence, func(b Bucket, sequence uint32) int { return cmp.Compare(b.Sequence, sequence) })
}

// Of returns the flags of a message in a gap.
func (r Record) Of(id message.ID) Flags {
	if i, there := slices.BinarySearchFunc(r.Messages, id, func(m Message, id message.ID) int { return m.ID.Compare(id) }); there {
		return r.Messages[i].Flags
	}
	return 0
}

// AnyArchived reports whether a message may be archived.
func (r Record) AnyArchived() bool {
	return slices.ContainsFunc(r.Buckets, func(b Bucket) bool { return b.Archived != 0 }) ||
		slices.ContainsFunc(r.Messages, func(m Message) bool { return m.Flags.Archived() })
}

// With returns the record with other flags for some places and for some messages in gaps, and whether anything is new. It leaves out what is
// below a bucket or at or below an id, because that has expired. It returns ErrTooMany if there are too many.
func (r Record) With(places map[Place]Flags, messages map[message.ID]Flags, oldest uint32, purged message.ID) (next Record, changed bool, err error) {
	next = Record{Owner: r.Owner, Revision: r.Revision + 1, MessagesAt: r.MessagesAt, DroppedAt: r.DroppedAt}
	buckets := make(map[uint32]Bucket, len(r.Buckets))
	for _, b := range r.Buckets {
		buckets[b.Sequence] = b
	}
	for p, f := range places {
		if b := buckets[p.Sequence]; p.Sequence >= oldest && b.Of(p.Slot) != f {
			b.Sequence, b.At, changed = p.Sequence, next.Revision, true
			buckets[p.Sequence] = b.with(p.Slot, f)
		}
	}
	for _, sequence := range slices.Sorted(maps.Keys(buckets)) {
		switch b := buckets[sequence]; {
		case sequence < oldest:
		case b.empty():
			next.DroppedAt = next.Revision
		default:
			next.Buckets = append(next.Buckets, b)
		}
	}
	of := make(map[message.ID]Flags, len(r.Messages))
	for _, m := range r.Messages {
		of[m.ID] = m.Flags
	}
	for id, f := range messages {
		if purged.Less(id) && of[id] != f {
			of[id], next.MessagesAt, changed = f, next.Revision, true
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(of), message.ID.Compare) {
		switch f := of[id]; {
		case !purged.Less(id):
		case f == 0:
			next.DroppedAt = next.Revision
		default:
			next.Messages = append(next.Messages, Message{ID: id, Flags: f})
		}
	}
	if !changed {
		return r, false, nil
	}
	if len(next.Buckets) > MaxBuckets || len(next.Messages) > MaxMessages {
		return r, false, ErrTooMany
	}
	return next, true, nil
}
