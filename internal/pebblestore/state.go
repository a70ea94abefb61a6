package pebblestore

import (
	"encoding/binary"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// A state is
//
//	version[1] parts[2] last_viewed[8] horizon[8] head_sequence[4] head_floor[16]
//	(purged[16] oldest[4])?
//	(max_age[8] newest[8])?
//	recovered[8]?
//	(read_up_to[16] read_sequence[4] read_slots[8] read_gaps[8] read[8] read_in_gap[8])?
//	(seen[8] marks[8] gaps_made[8])?
//	mark_from[8]? sweep_from[8]?
//	gaps[4] (after[8] before[8] messages[8])*?
//	lease_until[8] lease_since[8] lease_token?
//
// Parts with a question mark are optional. Each has a bit in parts, which is set if it exists. max_age is in milliseconds. A state is not
// CBOR, because fan-out reads it for every recipient. Most states have only the first line.
const (
	partRecovered = 1 << iota
	partReadMark
	partMark
	partBounded // Mark.Bounded
	partSweep
	partGaps
	partLease
	partPurged
	partKeep
	partFlagged // State.Flagged
	partSeen
	knownParts = partSeen<<1 - 1
)

const (
	stateHeaderLen = 2 + 8 + 8 + 4 + idLen
	gapLen         = 8 + 8 + 8
)

func partsOf(st *userstate.State) (parts uint16) {
	add := func(part uint16, there bool) {
		if there {
			parts |= part
		}
	}
	add(partRecovered, st.Recovered != 0)
	add(partReadMark, st.ReadMark != bucket.ReadMark{})
	add(partMark, st.Mark != nil)
	add(partBounded, st.Mark != nil && st.Mark.Bounded)
	add(partSweep, st.Sweep != nil)
	add(partGaps, len(st.Gaps) > 0)
	add(partLease, st.Lease != userstate.Lease{})
	add(partPurged, !st.Purged.IsZero())
	add(partKeep, st.Keep != userstate.Retention{})
	add(partFlagged, st.Flagged)
	add(partSeen, st.Seen != 0 || st.Marks != 0 || st.GapsMade != 0)
	return parts
}

func encodeState(st userstate.State) []byte {
	parts := partsOf(&st)
	b := append(make([]byte, 0, 1+stateHeaderLen), version)
	b = binary.BigEndian.AppendUint16(b, parts)
	b = appendTime(appendTime(b, st.LastViewed), st.Horizon)
	b = binary.BigEndian.AppendUint32(b, st.Head.Sequence)
	b = append(b, st.Head.Floor[:]...)
	if parts&partPurged != 0 {
		b = binary.BigEndian.AppendUint32(append(b, st.Purged[:]...), st.Oldest)
	}
	if parts&partKeep != 0 {
		b = appendCount(appendCount(b, st.Keep.MaxAge.Milliseconds()), st.Keep.Newest)
	}
	if parts&partRecovered != 0 {
		b = appendCount(b, st.Recovered)
	}
	if parts&partReadMark != 0 {
		b = appendReadMark(b, st.ReadMark)
	}
	if parts&partSeen != 0 {
		b = appendCount(appendCount(appendCount(b, st.Seen), st.Marks), st.GapsMade)
	}
	if parts&partMark != 0 {
		b = appendTime(b, st.Mark.From)
	}
	if parts&partSweep != 0 {
		b = appendTime(b, st.Sweep.From)
	}
	if parts&partGaps != 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(len(st.Gaps))) //nolint:gosec // one gap per return of the user at most
		for _, g := range st.Gaps {
			b = appendCount(appendTime(appendTime(b, g.After), g.Before), g.Messages)
		}
	}
	if parts&partLease != 0 {
		b = appendTime(appendTime(b, st.Lease.Until), st.Lease.Since)
		b = append(b, st.Lease.Token...)
	}
	return b
}

func appendReadMark(b []byte, m bucket.ReadMark) []byte {
	b = append(b, m.UpTo[:]...)
	b = appendCount(binary.BigEndian.AppendUint32(b, m.Sequence), m.Slots)
	return appendCount(appendCount(appendCount(b, int64(m.Gaps)), m.Read), m.InGap)
}

func appendCount(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // the conversion keeps the bits
}

// parseState decodes a value of encodeState into a state that has only the user. After an error, the state is as before. A fan-out decodes
// millions of them, so they are not copied.
func parseState(st *userstate.State, value []byte) error {
	b, err := payload(spaceUsers, value, stateHeaderLen)
	if err != nil {
		return err
	}
	f := fields{rest: b[2:]}
	st.LastViewed, st.Horizon = f.time(), f.time()
	st.Head.Sequence, st.Head.Floor = f.uint32(), f.id()
	parts := binary.BigEndian.Uint16(b)
	if parts != 0 {
		f.parts(st, parts)
	}
	if parts > knownParts || f.short || len(f.rest) > 0 {
		*st = userstate.State{User: st.User}
		return corrupt(spaceUsers)
	}
	return nil
}

// parts decodes the optional parts of a state.
func (f *fields) parts(st *userstate.State, parts uint16) {
	st.Flagged = parts&partFlagged != 0
	if parts&partPurged != 0 {
		st.Purged, st.Oldest = f.id(), f.uint32()
	}
	if parts&partKeep != 0 {
		st.Keep = userstate.Retention{MaxAge: time.Duration(f.count()) * time.Millisecond, Newest: f.count()}
	}
	if parts&partRecovered != 0 {
		st.Recovered = f.count()
	}
	if parts&partReadMark != 0 {
		st.ReadMark = f.readMark()
	}
	if parts&partSeen != 0 {
		st.Seen, st.Marks, st.GapsMade = f.count(), f.count(), f.count()
	}
	if parts&partMark != 0 {
		st.Mark = &userstate.Mark{From: f.time(), Bounded: parts&partBounded != 0}
	}
	if parts&partSweep != 0 {
		st.Sweep = &userstate.Sweep{From: f.time()}
	}
	if parts&partGaps != 0 {
		n := int(f.uint32())
		if n == 0 || n > len(f.rest)/gapLen {
			f.short = true
			return
		}
		st.Gaps = make([]userstate.Gap, n)
		for i := range st.Gaps {
			st.Gaps[i] = userstate.Gap{After: f.time(), Before: f.time(), Messages: f.count()}
		}
	}
	if parts&partLease != 0 {
		st.Lease = userstate.Lease{Until: f.time(), Since: f.time()}
		st.Lease.Token, f.rest = string(f.rest), nil
	}
}

// fields decodes the fields of a record, one after another.
type fields struct {
	rest  []byte
	short bool // a field was missing
}

func (f *fields) next(n int) []byte {
	if len(f.rest) < n {
		f.short = true
		return make([]byte, n)
	}
	field := f.rest[:n]
	f.rest = f.rest[n:]
	return field
}

func (f *fields) readMark() bucket.ReadMark {
	return bucket.ReadMark{UpTo: f.id(), Sequence: f.uint32(), Slots: f.count(), Gaps: int(f.count()), Read: f.count(), InGap: f.count()}
}

func (f *fields) time() time.Time { return timeOf(f.next(8)) }
func (f *fields) id() message.ID  { return message.ID(f.next(idLen)) }
func (f *fields) uint32() uint32  { return binary.BigEndian.Uint32(f.next(4)) }
func (f *fields) uint64() uint64  { return binary.BigEndian.Uint64(f.next(8)) }
func (f *fields) count() int64    { return int64(f.uint64()) } //nolint:gosec // the conversion keeps the bits
