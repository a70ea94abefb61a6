package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Position says how far an inbox had changed when it was read. Its numbers only rise.
type Position struct {
	// Epoch is that of the store. In another one, slots may hold other messages, and the numbers say nothing.
	Epoch uint64
	// Slots counts the slots that were used, Deleted the deletions, Flags the changes of flags, Gaps the gaps that were ever made, and Marks the
	// changes of the read mark and of what was seen.
	Slots, Deleted, Flags, Gaps, Marks int64
	// Marked is a hash of the read mark and the gaps, and Rest of what else is shown: what has expired, and whether the inbox is complete.
	Marked, Rest uint64
}

// version returns the numbers, which only rise.
func (p Position) version() []int64 { return []int64{p.Slots, p.Deleted, p.Flags, p.Gaps, p.Marks} }

// ahead reports whether a number is above that of another position. A read of Deleted may miss some while a bucket becomes a stub.
func (p Position) ahead(of Position) bool {
	return p.Slots > of.Slots || p.Flags > of.Flags || p.Gaps > of.Gaps || p.Marks > of.Marks
}

const (
	positionVersion  = 1
	positionBytes    = 1 + 8*8
	positionChecksum = 8
)

// encode returns the position as an opaque string for a URL, bound to the owner of the inbox. The checksum is no secret: a position grants nothing.
func (p Position) encode(owner message.UserID) string {
	b := []byte{positionVersion}
	for _, n := range []uint64{p.Epoch, p.Marked, p.Rest} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	for _, n := range p.version() {
		b = binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // the conversion keeps the bits
	}
	sum := sha256.Sum256(append(b, owner...))
	return base64.RawURLEncoding.EncodeToString(append(b, sum[:positionChecksum]...))
}

// readPosition reads what a page of the same inbox has given in this epoch, or nothing. For anything else it returns a
// *message.InvalidError.
func (s *Service) readPosition(owner message.UserID, text string) (Position, error) {
	p, err := parsePosition(owner, text)
	if err != nil || text != "" && p.Epoch != s.opts.Epoch() {
		err = &message.InvalidError{Field: "cursor", Reason: "is not from a page of this inbox, or is older than a crash or a restore: fetch the page again"}
	}
	return p, err
}

// parsePosition reads what encode wrote for the same owner, or nothing. For anything else it returns bucket.ErrCursor.
func parsePosition(owner message.UserID, s string) (p Position, err error) {
	if s == "" {
		return p, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != positionBytes+positionChecksum {
		return p, bucket.ErrCursor
	}
	for i, n := range []*uint64{&p.Epoch, &p.Marked, &p.Rest} {
		*n = binary.BigEndian.Uint64(b[1+8*i:])
	}
	for i, n := range []*int64{&p.Slots, &p.Deleted, &p.Flags, &p.Gaps, &p.Marks} {
		*n = int64(binary.BigEndian.Uint64(b[25+8*i:])) //nolint:gosec // the conversion keeps the bits
	}
	if p.encode(owner) != s { // another version or checksum, or a line break, which the decoder skips
		return p, bucket.ErrCursor
	}
	return p, nil
}

// knownAt returns what there was at a position of all that is there: the messages in its slots, and those in gaps that had been made.
func (s *Service) knownAt(ctx context.Context, state userstate.State, all reach, at Position) (reach, error) {
	size := int64(s.stores.Buckets.Size())
	to := reach{slots: min(all.slots, max(0, at.Slots)), gaps: max(0, len(state.Gaps)-int(max(0, state.GapsMade-at.Gaps)))}
	if to.slots > 0 {
		sequence := uint32((to.slots - 1) / size) //nolint:gosec // it is a sequence
		buckets, err := bucket.ReadSection(ctx, s.stores.Buckets, bucket.Section{Owner: state.User, Low: sequence, High: sequence}, bucket.NoFields)
		if err != nil {
			return reach{}, err
		}
		for _, b := range buckets { // one, or the stub that stands for it
			if to.upTo = b.Floor; b.Stub {
				to.upTo = b.Last
			}
			for slot, e := range b.Entries {
				if int64(sequence)*size+int64(slot) < to.slots && to.upTo.Less(e.ID) {
					to.upTo = e.ID
				}
			}
		}
	}
	return to.raise(state.Gaps), nil
}
