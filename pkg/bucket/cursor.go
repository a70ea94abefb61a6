package bucket

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"

	"github.com/fanmail/fanmail/pkg/message"
)

// ErrCursor says that Fanmail did not make a cursor, or made it for another inbox.
var ErrCursor = errors.New("cursor does not belong to this inbox")

// Cursor is the place in an inbox where a page ended. It grants no access.
type Cursor struct {
	// ID is the last id shown: the next page begins below it.
	ID message.ID
	// Sequence is a hint: the highest bucket with a floor below ID when the cursor was made. Floors never rise. It is Unlocated if messages
	// older than ID may not be in the buckets yet. Then a later bucket may have a floor below ID.
	Sequence uint32
}

// Unlocated is the Sequence of a Cursor without a bucket. The next page searches for the bucket.
const Unlocated = math.MaxUint32

const (
	cursorVersion  = 1
	cursorPayload  = 1 + 4 + 16
	cursorChecksum = 8
)

// Encode returns the cursor as an opaque string for a URL, bound to the owner of the inbox.
func (c Cursor) Encode(owner message.UserID) string {
	b := make([]byte, 0, cursorPayload+cursorChecksum)
	b = append(b, cursorVersion)
	b = binary.BigEndian.AppendUint32(b, c.Sequence)
	b = append(b, c.ID[:]...)
	b = append(b, checksum(owner, b)...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor reads what Encode wrote for the same owner. For anything else it returns ErrCursor.
func ParseCursor(owner message.UserID, s string) (Cursor, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != cursorPayload+cursorChecksum || b[0] != cursorVersion {
		return Cursor{}, ErrCursor
	}
	c := Cursor{Sequence: binary.BigEndian.Uint32(b[1:]), ID: message.ID(b[5:cursorPayload])}
	if c.Encode(owner) != s { // the checksum, or a line break, which the decoder skips
		return Cursor{}, ErrCursor
	}
	return c, nil
}

func checksum(owner message.UserID, payload []byte) []byte {
	h := sha256.New()
	h.Write(payload)
	h.Write([]byte(owner))
	return h.Sum(nil)[:cursorChecksum]
}
