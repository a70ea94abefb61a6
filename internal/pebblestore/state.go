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
//	version[1] parts[1] last_viewed[8] head_sequence[4] head_floor[16]
//	(purged[16] oldest[4])?
//	(max_age[8] newest[8])?
//	horizon[8]?
//	recovered[8]?
//	read_up_to[16] read_sequence[4] read_slots[8] read_gaps[8] read[8] (read_in_gap[8])?
//	mark_from[8]? sweep_from[8]?
//	gaps[4] (after[8] before[8] messages[8])*?
//	lease_until[8] lease_since[8] lease_token?
//
// Parts with a question mark are optional. Each has a bit in parts, which is set if it exists. The highest bit of read_gaps is set if
// read_in_gap exists. The version is purgedVersion if purged and oldest exist, and keepVersion if max_age (in milliseconds) and newest
// exist, too. A state is not CBOR, because fan-out reads it for every recipient. Most states have only the first line.
const (
	partRecovered = 1 << iota
	partReadMark
	partMark
	partBounded // Mark.Bounded
	partSweep
	partGaps
	partLease
	partHorizon // from format level 2 on
)

const (
	stateHeaderLen = 1 + 8 + 4 + idLen
	gapLen         = 8 + 8 + 8
	numbered       = 1 << 63 // the bit of read_gaps: ReadMark.Numbered, from format level 2 on

	// purgedVersion is the version of a state with a purge point, from format level 3 on. Earlier releases refuse it.
	purgedVersion = version + 1
	// keepVersion is the version of a state with a retention of the user's own, from format level 3 on. It has a purge point, be it zero.
	keepVersion = version + 2
)

func partsOf(st *userstate.State) (parts byte) {
	add := func(part byte, there bool) {
		if there {
			parts |= part
		}
	}
	add(partHorizon, !st.Horizon.IsZero())
	add(partRecovered, st.Recovered != 0)
	add(partReadMark, st.ReadMark != bucket.ReadMark{})
	add(partMark, st.Mark != nil)
	add(partBounded, st.Mark != nil && st.Mark.Bounded)
	add(partSweep, st.Sweep != nil)
	add(partGaps, len(st.Gaps) > 0)
	add(partLease, st.Lease != userstate.Lease{})
	return parts
}

func encodeState(st userstate.State) []byte {
	parts := partsOf(&st)
	b := append(make([]byte, 0, 1+stateHeaderLen), version, parts)
	b = appendTime(b, st.LastViewed)
	b = binary.BigEndian.AppendUint32(b, st.Head.Sequence)
	b = append(b, st.Head.Floor[:]...)
	keeps := st.Keep != userstate.Retention{}
	if keeps || !st.Purged.IsZero() {
		b[0] = purgedVersion
		b = binary.BigEndian.AppendUint32(append(b, st.Purged[:]...), st.Oldest)
	}
	if keeps {
		b[0] = keepVersion
		b = appendCount(appendCount(b, st.Keep.MaxAge.Milliseconds()), st.Keep.Newest)
	}
	if parts&partHorizon != 0 {
		b = appendTime(b, st.Horizon)
	}
	if parts&partRecovered != 0 {
		b = appendCount(b, st.Recovered)
	}
	if parts&partReadMark != 0 {
		b = appendReadMark(b, st.ReadMark)
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
	gaps := uint64(m.Gaps) //nolint:gosec // a gap per return of the user at most
	if m.Numbered {
		gaps |= numbered
	}
	b = append(b, m.UpTo[:]...)
	b = appendCount(binary.BigEndian.AppendUint32(b, m.Sequence), m.Slots)
	b = appendCount(binary.BigEndian.AppendUint64(b, gaps), m.Read)
	if m.Numbered {
		b = appendCount(b, m.InGap)
	}
	return b
}

func appendCount(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // the conversion keeps the bits
}

// parseState decodes a value of encodeState.
func parseState(user message.UserID, value []byte) (userstate.State, error) {
	keeps := len(value) > 0 && value[0] == keepVersion
	purged := keeps || len(value) > 0 && value[0] == purgedVersion
	b, err := statePayload(value, purged)
	if err != nil {
		return userstate.State{}, err
	}
	parts := b[0]
	f := fields{rest: b[1:]}
	st := userstate.State{
		User: user, LastViewed: f.time(),
		Head: bucket.Hint{Sequence: f.uint32(), Floor: f.id()},
	}
	if purged {
		st.Purged, st.Oldest = f.id(), f.uint32()
		f.short = f.short || st.Purged.IsZero() && !keeps
	}
	if keeps {
		st.Keep = userstate.Retention{MaxAge: time.Duration(f.count()) * time.Millisecond, Newest: f.count()}
		f.short = f.short || st.Keep == userstate.Retention{}
	}
	if parts != 0 {
		f.parts(&st, parts)
	}
	if f.short || len(f.rest) > 0 {
		return userstate.State{}, corrupt(spaceUsers)
	}
	return st, nil
}

// statePayload returns the bytes after the version of a state.
func statePayload(value []byte, purged bool) ([]byte, error) {
	switch {
	case !purged:
		return payload(spaceUsers, value, stateHeaderLen)
	case len(value) < 1+stateHeaderLen:
		return nil, corrupt(spaceUsers)
	}
	return value[1:], nil
}

// parts decodes the optional parts of a state.
func (f *fields) parts(st *userstate.State, parts byte) {
	if parts&partHorizon != 0 {
		st.Horizon = f.time()
	}
	if parts&partRecovered != 0 {
		st.Recovered = f.count()
	}
	if parts&partReadMark != 0 {
		st.ReadMark = f.readMark()
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
	m := bucket.ReadMark{UpTo: f.id(), Sequence: f.uint32(), Slots: f.count()}
	gaps := f.uint64()
	m.Gaps, m.Numbered, m.Read = int(gaps&^numbered), gaps&numbered != 0, f.count() //nolint:gosec // without its highest bit it fits
	if m.Numbered {
		m.InGap = f.count()
	}
	return m
}

func (f *fields) time() time.Time { return timeOf(f.next(8)) }
func (f *fields) id() message.ID  { return message.ID(f.next(idLen)) }
func (f *fields) uint32() uint32  { return binary.BigEndian.Uint32(f.next(4)) }
func (f *fields) uint64() uint64  { return binary.BigEndian.Uint64(f.next(8)) }
func (f *fields) count() int64    { return int64(f.uint64()) } //nolint:gosec // the conversion keeps the bits
