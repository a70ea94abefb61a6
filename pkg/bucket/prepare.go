package bucket

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// MaxEntryBytes is the greatest size of an entry. The size is the length of the entry as the store encodes it, without the fields of its
// bucket. It differs a little between stores. Every store accepts an entry without To and Topics whose other contents are at most
// MaxEntryBytes - EntryOverhead bytes long. A full bucket is therefore far below 16 MiB, which is the limit of a document in MongoDB.
const MaxEntryBytes = 136 << 10

// EntryOverhead is the greatest number of bytes that a store adds to the contents of an entry when it encodes the entry.
const EntryOverhead = 128

// Encoder encodes the entries of pushes for a store, each entry once for all the pushes that have it. It keeps the encoded
// entries, so a store makes a new one for each call of Push. It is not safe for concurrent use.
type Encoder[E ~[]byte] struct {
	encode func(*Entry) (E, error)
	size   Size
	header int
	known  map[version]encoded[E]
}

// version is the entry of a message with or without names.
type version struct {
	id    message.ID
	named bool
}

type encoded[E ~[]byte] struct {
	entry *Entry
	bytes E
}

// NewEncoder returns an Encoder for a store with buckets of a size. An entry takes header bytes and those that encode returns.
func NewEncoder[E ~[]byte](size Size, header int, encode func(*Entry) (E, error)) *Encoder[E] {
	return &Encoder[E]{encode: encode, size: size, header: header, known: make(map[version]encoded[E])}
}

// Prepare encodes the entries of a push and appends them to dst. It also returns whether the store has to try the push. If not, the push
// cannot apply, and the Outcome is the final one. Its Err wraps ErrTooLarge if an entry is larger than MaxEntryBytes, and ErrNotAlone if a
// tombstone is not the only entry. Otherwise the push is refused, because it has no entries, or more than a bucket has slots. The encoded
// entries are shared between pushes, so do not change them. The Encoder keeps references to the entries of the push.
func (c *Encoder[E]) Prepare(push *Push, dst []E) (entries []E, refused Outcome, try bool, err error) {
	if len(push.Entries) == 0 || len(push.Entries) > int(c.size) {
		return dst, Outcome{}, false, nil
	}
	for i := range push.Entries {
		e := &push.Entries[i]
		if e.Deleted && len(push.Entries) > 1 {
			refused.Err = fmt.Errorf("%w: that of message %s comes with %d other entries", ErrNotAlone, e.ID, len(push.Entries)-1)
			return dst, refused, false, nil
		}
		b, err := c.of(e)
		if err != nil {
			return dst, Outcome{}, false, fmt.Errorf("encode entry %s: %w", e.ID, err)
		}
		if size := len(b) + c.header; size > MaxEntryBytes {
			refused.Err = fmt.Errorf("%w: message %s takes %d bytes, an entry has at most %d", ErrTooLarge, e.ID, size, MaxEntryBytes)
			return dst, refused, false, nil
		}
		dst = append(dst, b)
	}
	return dst, Outcome{}, true, nil
}

// of returns the encoded entry.
func (c *Encoder[E]) of(e *Entry) (E, error) {
	v := version{e.ID, len(e.To) > 0}
	known, ok := c.known[v]
	if ok && sameEntry(known.entry, e) {
		return known.bytes, nil
	}
	b, err := c.encode(e)
	if err == nil && !ok {
		c.known[v] = encoded[E]{entry: e, bytes: b}
	}
	return b, err
}

// sameEntry reports whether two entries of one id are equal. It is quick if they share memory, as the entries of one message
// for many inboxes do.
func sameEntry(x, y *Entry) bool {
	return x == y || x.From == y.From && x.Body == y.Body && x.ContentType == y.ContentType &&
		slices.Equal(x.To, y.To) && x.ToCount == y.ToCount && x.Audience == y.Audience && slices.Equal(x.Topics, y.Topics) &&
		bytes.Equal(x.Attrs, y.Attrs) && x.Recovered == y.Recovered && x.Deleted == y.Deleted
}
