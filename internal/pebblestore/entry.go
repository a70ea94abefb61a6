package pebblestore

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// An inbox is one record for each entry and nothing else. A record is
//
//	version[1] flags[1] id[16] floor[16]? last[16]? (capacity[1] base)? content
//
// The bucket's floor is in slot 0, unless it is zero. The bucket's last is in every record except the one with that id. So the
// highest record of a bucket tells the number of used slots and the last id, and appending an entry writes only that entry. Every record of
// a sized bucket has the capacity and, as a varint, the base. The others are of buckets with bucket.Capacity and bucket.FormatBase. The
// content of a tombstone and of an expired entry is empty, and the id of a blanked tombstone is zero.
const (
	flagDeleted = 1 << iota
	flagFloor
	flagLast
	flagRecovered
	flagSized   // from format level 3 on; earlier releases refuse it
	flagExpired // from format level 3 on; earlier releases refuse it
)

const (
	idLen           = len(message.ID{})
	entryHeaderLen  = 2 + idLen
	entryFlagsKnown = flagDeleted | flagFloor | flagLast | flagRecovered | flagSized | flagExpired
)

// entryRecord is a record of the inbox.
type entryRecord struct {
	deleted   bool
	recovered bool
	expired   bool
	id        message.ID
	floor     message.ID
	last      message.ID
	size      size
	content   []byte
}

// size is the capacity and the base of a sized bucket; zero for the others.
type size struct {
	capacity uint8
	base     int64
}

// sizeOf returns the size of a bucket. A bucket whose numbers are those of the format is not sized, whatever is below it.
func sizeOf(sequence uint32, capacity int, base int64) size {
	if capacity == bucket.Capacity && base == bucket.FormatBase(sequence) {
		return size{}
	}
	return size{capacity: uint8(capacity), base: base} //nolint:gosec // at most MaxCapacity
}

// of returns the capacity and the base of the bucket.
func (z size) of(sequence uint32) (capacity int, base int64) {
	if z.capacity == 0 {
		return bucket.Capacity, bucket.FormatBase(sequence)
	}
	return int(z.capacity), z.base
}

// position returns that of a slot of the bucket.
func (z size) position(sequence uint32, slot int) int64 {
	_, base := z.of(sequence)
	return base + int64(slot)
}

func (r *entryRecord) flags() (flags byte) {
	if r.deleted {
		flags |= flagDeleted
	}
	if !r.floor.IsZero() {
		flags |= flagFloor
	}
	if r.last != r.id {
		flags |= flagLast
	}
	if r.recovered {
		flags |= flagRecovered
	}
	if r.size.capacity != 0 {
		flags |= flagSized
	}
	if r.expired {
		flags |= flagExpired
	}
	return flags
}

// length returns the length of the encoded record.
func (r *entryRecord) length() int {
	n := entryHeaderLen + len(r.content)
	if !r.floor.IsZero() {
		n += idLen
	}
	if r.last != r.id {
		n += idLen
	}
	if r.size.capacity != 0 {
		n += 1 + uvarintLen(r.size.base)
	}
	return n
}

// appendTo appends the encoded record.
func (r *entryRecord) appendTo(b []byte) []byte {
	flags := r.flags()
	b = append(b, version, flags)
	b = append(b, r.id[:]...)
	if flags&flagFloor != 0 {
		b = append(b, r.floor[:]...)
	}
	if flags&flagLast != 0 {
		b = append(b, r.last[:]...)
	}
	if flags&flagSized != 0 {
		b = binary.AppendUvarint(append(b, r.size.capacity), uint64(r.size.base)) //nolint:gosec // a base is not negative
	}
	return append(b, r.content...)
}

// parseEntry decodes a record of appendTo. The content shares the memory of b.
func parseEntry(b []byte) (r entryRecord, err error) {
	rest, err := payload(spaceInbox, b, entryHeaderLen-1)
	if err != nil {
		return r, err
	}
	flags := rest[0]
	next := func() (id message.ID) {
		if len(rest) < idLen {
			err = corrupt(spaceInbox)
			return id
		}
		id, rest = message.ID(rest), rest[idLen:]
		return id
	}
	rest = rest[1:]
	r.deleted = flags&flagDeleted != 0
	r.recovered = flags&flagRecovered != 0
	r.expired = flags&flagExpired != 0
	r.id = next()
	r.last = r.id
	if flags&flagFloor != 0 {
		r.floor = next()
	}
	if flags&flagLast != 0 {
		r.last = next()
	}
	if flags&flagSized != 0 {
		var n int
		if r.size, n = parseSize(rest); n <= 0 {
			return r, corrupt(spaceInbox)
		}
		rest = rest[n:]
	}
	if flags&^entryFlagsKnown != 0 {
		err = corrupt(spaceInbox)
	}
	r.content = rest
	return r, err
}

// parseSize decodes the size of a sized bucket, and returns its length, or 0 if it is damaged.
func parseSize(b []byte) (size, int) {
	if len(b) == 0 || b[0] == 0 {
		return size{}, 0
	}
	base, n := binary.Uvarint(b[1:])
	if n <= 0 || base > math.MaxInt64 {
		return size{}, 0
	}
	return size{capacity: b[0], base: int64(base)}, 1 + n
}

func uvarintLen(n int64) int { return (bits.Len64(uint64(n)|1) + 6) / 7 } //nolint:gosec // a base is not negative

// entryContent is the content of an entry without its id.
type entryContent struct {
	From        message.UserID  `cbor:"1,keyasint"`
	Body        string          `cbor:"2,keyasint,omitempty"`
	ContentType string          `cbor:"3,keyasint,omitempty"`
	Attrs       json.RawMessage `cbor:"4,keyasint,omitempty"`
}

func encodeContent(e *bucket.Entry) []byte {
	return encode(nil, entryContent{From: e.From, Body: e.Body, ContentType: e.ContentType, Attrs: e.Attrs})
}

// newEncoder returns the encoder for the entries of pushes. The length of an entry includes the header of its record.
func newEncoder() *bucket.Encoder[[]byte] {
	return bucket.NewEncoder(entryHeaderLen, func(e *bucket.Entry) ([]byte, error) { return encodeContent(e), nil })
}

// entry returns the entry of a record. It does not share memory with the record.
func (r *entryRecord) entry() (bucket.Entry, error) {
	if r.deleted {
		return bucket.Entry{ID: r.id, Deleted: true}, nil
	}
	if r.expired {
		return bucket.Entry{ID: r.id, Expired: true}, nil
	}
	var c entryContent
	if err := decode(spaceInbox, r.content, &c); err != nil {
		return bucket.Entry{}, err
	}
	return bucket.Entry{ID: r.id, From: c.From, Body: c.Body, ContentType: c.ContentType, Attrs: c.Attrs, Recovered: r.recovered}, nil
}

// only returns the entry with one field of its contents. The others are not decoded.
func (r *entryRecord) only(field bucket.Field) (bucket.Entry, error) {
	e := bucket.Entry{ID: r.id, Deleted: r.deleted, Expired: r.expired}
	if r.deleted || r.expired {
		return e, nil
	}
	var err error
	switch field {
	case bucket.AllFields:
	case bucket.FieldFrom:
		var c struct {
			From message.UserID `cbor:"1,keyasint"`
		}
		err = decode(spaceInbox, r.content, &c)
		e.From = c.From
	case bucket.FieldAttrs:
		var c struct {
			Attrs json.RawMessage `cbor:"4,keyasint,omitempty"`
		}
		err = decode(spaceInbox, r.content, &c)
		e.Attrs = c.Attrs
	}
	return e, err
}

// at returns the record's place as that of a tombstone.
func (r *entryRecord) at(sequence uint32, slot int) bucket.Tombstone {
	return bucket.Tombstone{Sequence: sequence, Slot: slot, Position: r.size.position(sequence, slot), ID: r.id}
}

// toTombstone turns the record into a tombstone.
func (r *entryRecord) toTombstone() {
	r.deleted, r.recovered, r.expired, r.content = true, false, false, nil
}

// expire empties the record of an entry that has expired.
func (r *entryRecord) expire() { r.expired, r.recovered, r.content = true, false, nil }

// entryAt returns the record at an iterator's position. It shares the iterator's memory.
func entryAt(it *pebble.Iterator) (entryRecord, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return entryRecord{}, fmt.Errorf("read from the store: %w", err)
	}
	return parseEntry(value)
}
