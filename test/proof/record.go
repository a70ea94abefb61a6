package main

import "fmt"

// record is what is recorded of the user. Every change of it is one compare-and-swap.
type record struct {
	viewed  int8 // when they last looked; 0 for never
	mark    int8 // from where they are to be rehydrated; none for no mark
	bounded bool // whether the limit has been applied to the mark
	sweep   int8 // the time from which a host has to sweep; none for no sweep
	holder  int8 // the holder of the lease: a host, dead or nobody
	gaps    [maxGaps]gap
}

const (
	nobody int8 = -1
	dead   int8 = -2 // a host that has crashed
)

// gap holds the messages that the limit left out: all that were sent after one time and before another. It never changes.
type gap struct{ after, before, messages int8 }

func (g gap) holds(sent int8) bool { return g.messages > 0 && g.after < sent && sent < g.before }

func (g gap) String() string { return fmt.Sprintf("(%d,%d)×%d", g.after, g.before, g.messages) }

// inGap reports whether one of the first known gaps holds a message.
func (r record) inGap(sent, known int8) bool {
	for _, g := range r.gaps[:known] {
		if g.holds(sent) {
			return true
		}
	}
	return false
}

// known returns how many gaps there are.
func (r record) known() int8 {
	n := int8(0)
	for n < maxGaps && r.gaps[n].messages > 0 {
		n++
	}
	return n
}

// ahead reports whether a mark or a sweep requires a host to copy a message.
func (r record) ahead(sent int8) bool {
	return r.mark != none && sent > r.mark || r.sweep != none && sent >= r.sweep
}

func (m *rehydration) horizon(r record) int8 {
	if r.viewed == 0 {
		return 0
	}
	return r.viewed + m.dormant
}

// deliver is the decision of fan-out: whether a message is copied now.
func (m *rehydration) deliver(r record, sent, now int8) bool {
	horizon := m.horizon(r)
	switch m.mutation {
	case workersNow:
		return now <= horizon && (r.mark == none || sent <= r.mark) && !r.inGap(sent, maxGaps)
	case sweepLikeMark:
		return sent <= horizon && (r.mark == none || sent <= r.mark) && (r.sweep == none || sent < r.sweep) && !r.inGap(sent, maxGaps)
	case neitherInclusive:
		return sent < horizon && (r.mark == none || sent < r.mark) && !r.inGap(sent, maxGaps)
	case gapsDelivered:
		return sent <= horizon && (r.mark == none || sent <= r.mark)
	default:
		return sent <= horizon && (r.mark == none || sent <= r.mark) && !r.inGap(sent, maxGaps)
	}
}

// secondary returns what a secondary that lags answers from now on, where reads may be stale.
func (m *rehydration) secondary(r record) record {
	if m.mutation == staleRead {
		return r
	}
	return record{}
}
