package flag

import (
	"encoding/binary"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	headerBytes  = 3*8 + 2*2
	bucketBytes  = 4 + 4*8
	messageBytes = len(message.ID{}) + 1
)

// AppendTo appends the stored form of the record without its owner: the revisions and the numbers of buckets and of messages, then the buckets,
// then the messages. Numbers are big-endian.
func (r Record) AppendTo(b []byte) []byte {
	for _, n := range []int64{r.Revision, r.MessagesAt, r.DroppedAt} {
		b = binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // a revision is never negative
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.Buckets)))  //nolint:gosec // at most MaxBuckets
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.Messages))) //nolint:gosec // at most MaxMessages
	for _, in := range r.Buckets {
		b = binary.BigEndian.AppendUint32(b, in.Sequence)
		for _, n := range []uint64{uint64(in.At), in.Read, in.Unread, in.Archived} { //nolint:gosec // a revision is never negative
			b = binary.BigEndian.AppendUint64(b, n)
		}
	}
	for _, m := range r.Messages {
		b = append(append(b, m.ID[:]...), byte(m.Flags))
	}
	return b
}

// Parse decodes the stored form of an owner's record. It returns message.ErrCorrupt, and a record that has only the owner, if b is not one. It
// keeps no reference to b.
func Parse(owner message.UserID, b []byte) (Record, error) {
	none := Record{Owner: owner}
	if len(b) < headerBytes {
		return none, message.ErrCorrupt
	}
	number := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	revision := func(at int) int64 { return int64(number(at)) } //nolint:gosec // AppendTo wrote a revision
	r := Record{Owner: owner, Revision: revision(0), MessagesAt: revision(8), DroppedAt: revision(16)}
	buckets, messages := int(binary.BigEndian.Uint16(b[24:])), int(binary.BigEndian.Uint16(b[26:]))
	b = b[headerBytes:]
	if r.Revision <= 0 || len(b) != buckets*bucketBytes+messages*messageBytes {
		return none, message.ErrCorrupt
	}
	for range buckets {
		in := Bucket{Sequence: binary.BigEndian.Uint32(b), At: revision(4), Read: number(12), Unread: number(20), Archived: number(28)}
		if n := len(r.Buckets); n > 0 && in.Sequence <= r.Buckets[n-1].Sequence || in.empty() || in.Read&in.Unread != 0 {
			return none, message.ErrCorrupt
		}
		r.Buckets, b = append(r.Buckets, in), b[bucketBytes:]
	}
	for range messages {
		m := Message{ID: message.ID(b[:messageBytes-1]), Flags: Flags(b[messageBytes-1])}
		if n := len(r.Messages); n > 0 && !r.Messages[n-1].ID.Less(m.ID) || !m.Flags.valid() {
			return none, message.ErrCorrupt
		}
		r.Messages, b = append(r.Messages, m), b[messageBytes:]
	}
	return r, nil
}

// valid reports whether a message that has flags can have these.
func (f Flags) valid() bool {
	return f != 0 && f <= Read|Unread|Archived && f&(Read|Unread) != Read|Unread
}
