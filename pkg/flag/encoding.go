package flag

import (
	"encoding/binary"
	"fmt"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	headerBytes  = 8 + 8 + 8 + 4
	bucketBytes  = 4 + 8 + 3*8
	messageBytes = 16 + 1
)

// AppendTo appends the stored form of the record without its owner: the revisions and the number of buckets, then the buckets, then the
// messages. Numbers are big-endian.
func (r Record) AppendTo(b []byte) []byte {
	for _, n := range []int64{r.Revision, r.MessagesAt, r.DroppedAt} {
		b = binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // a revision is never negative
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Buckets))) //nolint:gosec // at most MaxBuckets
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

// Parse decodes the stored form of an owner's record. It returns an error that wraps message.ErrCorrupt if b is not one. It keeps no reference
// to b.
func Parse(owner message.UserID, b []byte) (Record, error) {
	r := Record{Owner: owner}
	corrupt := fmt.Errorf("flags of %s: %w", owner, message.ErrCorrupt)
	if len(b) < headerBytes {
		return Record{Owner: owner}, corrupt
	}
	number := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	r.Revision, r.MessagesAt, r.DroppedAt = int64(number(0)), int64(number(8)), int64(number(16))
	buckets := int64(binary.BigEndian.Uint32(b[24:]))
	b = b[headerBytes:]
	if r.Revision <= 0 || int64(len(b)) < buckets*bucketBytes || (int64(len(b))-buckets*bucketBytes)%messageBytes != 0 {
		return Record{Owner: owner}, corrupt
	}
	for ; buckets > 0; buckets-- {
		//nolint:gosec // a revision was written by AppendTo
		in := Bucket{Sequence: binary.BigEndian.Uint32(b), At: int64(number(4)), Read: number(12), Unread: number(20), Archived: number(28)}
		if n := len(r.Buckets); n > 0 && in.Sequence <= r.Buckets[n-1].Sequence || in.Read&in.Unread != 0 {
			return Record{Owner: owner}, corrupt
		}
		r.Buckets, b = append(r.Buckets, in), b[bucketBytes:]
	}
	for ; len(b) > 0; b = b[messageBytes:] {
		r.Messages = append(r.Messages, Message{ID: message.ID(b), Flags: Flags(b[16])})
	}
	return r, nil
}
