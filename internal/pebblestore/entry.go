package pebblestore

import (
	"encoding/json"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// An inbox is one record for each entry and nothing else. A record is
//
//	version[1] flags[1] id[16] floor[16]? last[16]? content
//
// The bucket's floor is in slot 0, unless it is zero. The bucket's last is in every record except the one with that id. So the
// highest record of a bucket tells the number of used slots and the last id, and appending an entry writes only that entry. The
// content of a tombstone and of an expired entry is empty, and the id of a blanked tombstone is zero.
const (
	flagDeleted = 1 << iota
	flagFloor
	flagLast
	flagRecovered
	flagExpired
)

const (
	idLen           = len(message.ID{})
	entryHeaderLen  = 2 + idLen
	entryFlagsKnown = flagDeleted | flagFloor | flagLast | flagRecovered | flagExpired
)

// entryRecord is a record of the inbox.
type entryRecord struct {
	deleted   bool
	recovered bool
	expired   bool
	id        message.ID
	floor     message.ID
	last      message.ID
	content   []byte
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
	if flags&^entryFlagsKnown != 0 {
		err = corrupt(spaceInbox)
	}
	r.content = rest
	return r, err
}

// entryHead is the content of an entry without its id and its body.
type entryHead struct {
	From        message.UserID   `cbor:"1,keyasint"`
	ContentType string           `cbor:"3,keyasint,omitempty"`
	Attrs       json.RawMessage  `cbor:"4,keyasint,omitempty"`
	To          []message.UserID `cbor:"5,keyasint,omitempty"`
	ToCount     int              `cbor:"6,keyasint,omitempty"`
	Audience    message.Audience `cbor:"7,keyasint,omitempty"`
	Topics      []message.Topic  `cbor:"8,keyasint,omitempty"`
}

// entryContent is the content of an entry without its id.
type entryContent struct {
	entryHead

	Body string `cbor:"2,keyasint,omitempty"`
}

func encodeContent(e *bucket.Entry) []byte {
	head := entryHead{
		From: e.From, ContentType: e.ContentType, Attrs: e.Attrs, To: e.To, ToCount: e.ToCount, Audience: e.Audience, Topics: e.Topics,
	}
	return encode(nil, entryContent{entryHead: head, Body: e.Body})
}

// newEncoder returns the encoder for the entries of pushes. The length of an entry includes the header of its record.
func newEncoder(size bucket.Size) *bucket.Encoder[[]byte] {
	return bucket.NewEncoder(size, entryHeaderLen, func(e *bucket.Entry) ([]byte, error) { return encodeContent(e), nil })
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
	return r.with(c), nil
}

// with returns the entry of a record with contents.
func (r *entryRecord) with(c entryContent) bucket.Entry {
	return bucket.Entry{
		ID: r.id, From: c.From, Body: c.Body, ContentType: c.ContentType, Attrs: c.Attrs, Recovered: r.recovered,
		To: c.To, ToCount: c.ToCount, Audience: c.Audience, Topics: c.Topics,
	}
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
		return r.entry()
	case bucket.NoBody:
		var c entryHead
		err = decode(spaceInbox, r.content, &c)
		e = r.with(entryContent{entryHead: c})
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
	case bucket.NoFields, bucket.NoEntries:
	}
	return e, err
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
