package message

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"sync"
	"time"
)

// ID names a message. It is a UUIDv7 (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then bits that
// tell ids of one millisecond apart. The zero ID names no message and sorts before every other.
type ID [16]byte

// MaxID is not a message's id; it sorts after every other.
var MaxID = ID(bytes.Repeat([]byte{0xff}, 16))

// ParseID reads the 36-character form that String writes. It accepts version 7 only, and returns an
// *InvalidError for the field "id" otherwise.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, invalid("id", "is not a UUID of the form xxxxxxxx-xxxx-7xxx-xxxx-xxxxxxxxxxxx")
	}
	digits := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return ID{}, invalid("id", "is not a UUID: it has a character that is no hexadecimal digit")
	}
	if id[6]>>4 != 7 || id[8]>>6 != 0b10 {
		return ID{}, invalid("id", "is not a UUID of version 7")
	}
	return id, nil
}

// MinID returns the least id of a message sent at t. Messages with this id or a higher one were sent at t or
// later, all others before t. It is a bound for ranges and never the id of a message; for a time up to 1970
// it is the zero ID.
func MinID(t time.Time) ID {
	var id ID
	putMillis(&id, max(0, t.UnixMilli()))
	return id
}

// LastBefore returns the greatest value below every id of a message that is sent at t or later. It is a bound for
// ranges, as MinID is, and never the id of a message; for a time up to 1970 it is the zero ID.
func LastBefore(t time.Time) ID {
	if t.UnixMilli() <= 0 {
		return ID{}
	}
	id := MinID(t)
	for i := len(id) - 1; i >= 0; i-- {
		id[i]--
		if id[i] != 0xff {
			break
		}
	}
	return id
}

// Time returns when the message was sent, in UTC, to the millisecond.
func (id ID) Time() time.Time {
	var b [8]byte
	copy(b[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:]))).UTC() //nolint:gosec // 48 bits always fit
}

// Compare returns -1, 0 or +1 as id sorts before, with or after other.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// Less reports whether id sorts before other.
func (id ID) Less(other ID) bool { return bytes.Compare(id[:], other[:]) < 0 }

// Later returns the greater of two ids.
func Later(a, b ID) ID {
	if a.Less(b) {
		return b
	}
	return a
}

// Next returns the least value above id. MaxID has none and is returned as it is.
func (id ID) Next() ID {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]++
		if id[i] != 0 {
			return id
		}
	}
	return MaxID
}

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the canonical form, in lower case.
func (id ID) String() string {
	b, _ := id.AppendText(make([]byte, 0, 36)) // it cannot fail
	return string(b)
}

// AppendText implements encoding.TextAppender.
func (id ID) AppendText(b []byte) ([]byte, error) {
	b = hex.AppendEncode(b, id[0:4])
	for _, group := range [][]byte{id[4:6], id[6:8], id[8:10], id[10:16]} {
		b = append(b, '-')
		b = hex.AppendEncode(b, group)
	}
	return b, nil
}

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return id.AppendText(nil) }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts what ParseID accepts.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

func putMillis(id *ID, ms int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(ms)) //nolint:gosec // times before 1970 are never sent
	copy(id[:6], b[2:])
}

// maxLead is how far a Generator's ids may run ahead of its clock before it follows a clock that was set
// back. A second covers every slewing clock and any burst; a clock that jumped further back is believed.
const maxLead = time.Second

// Generator makes ids that rise strictly within one process, also within a millisecond. The 12 bits after the
// version are a counter (RFC 9562, section 6.2, method 1). It starts at a random place in the lower half of
// its range, and carries into the time when it overflows. It is safe for concurrent use.
type Generator struct {
	now    func() time.Time
	random io.Reader

	mu      sync.Mutex
	millis  int64
	counter uint16
}

// NewGenerator returns a Generator on the given clock and source of random bytes (crypto/rand.Reader).
func NewGenerator(now func() time.Time, random io.Reader) *Generator {
	return &Generator{now: now, random: random}
}

// Next returns a new id. It fails only when the source of random bytes fails.
func (g *Generator) Next() (ID, error) {
	var tail [10]byte
	if _, err := io.ReadFull(g.random, tail[:]); err != nil {
		return ID{}, err
	}
	millis, counter := g.tick(binary.BigEndian.Uint16(tail[8:]) & 0x7ff)
	var id ID
	putMillis(&id, millis)
	binary.BigEndian.PutUint16(id[6:8], 0x7000|counter)
	copy(id[8:], tail[:8])
	id[8] = 0x80 | id[8]&0x3f
	return id, nil
}

func (g *Generator) tick(seed uint16) (millis int64, counter uint16) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now().UnixMilli()
	switch {
	case now > g.millis, g.millis-now > maxLead.Milliseconds():
		g.millis, g.counter = now, seed
	case g.counter == 0xfff:
		g.millis, g.counter = g.millis+1, seed
	default:
		g.counter++
	}
	return g.millis, g.counter
}
