package main

import "fmt"

// record is what is recorded of the user. Every change of it is one compare-and-swap.
type record struct {
	horizon int8 // up to when fan-out copies; 0 for a user without a record
	mark    int8 // from where they are to be rehydrated; none for no mark
	bounded bool // whether the limit has been applied to the mark
	sweep   int8 // the time after which a host has to sweep; none for no sweep
	holder  int8 // the holder of the lease: a host, dead or nobody
	expired int8 // what was sent up to then
	gaps    [maxGaps]gap
}

const (
	nobody int8 = -1
	dead   int8 = -2 // no host has the token
)

// gap holds the messages that the limit left out: all that were sent after one time and before another.
type gap struct{ after, before, messages int8 }

func (g gap) holds(sent int8) bool { return g.after < sent && sent < g.before }

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

// gapOf returns the gap that holds a message, or an empty one.
func (r record) gapOf(sent int8) gap {
	for _, g := range r.gaps {
		if g.holds(sent) {
			return g
		}
	}
	return gap{}
}

// known returns how many gaps there are.
func (r record) known() int8 {
	n := int8(0)
	for n < maxGaps && r.gaps[n].before > 0 {
		n++
	}
	return n
}

// ahead reports whether a mark or a sweep requires a host to copy a message.
func (r record) ahead(sent int8) bool {
	return r.mark != none && sent > r.mark || r.sweep != none && sent > r.sweep
}

// horizon returns the horizon of a record. Where it is computed by a setting, it changes with that.
func (m *rehydration) horizon(s *system, r record) int8 {
	switch {
	case r.horizon == 0:
	case m.mutation == computedRaised:
		return r.horizon + s.setting
	case m.mutation == computedLowered:
		return max(r.horizon-s.setting, 1)
	default:
	}
	return r.horizon
}

// fate is what fan-out does with a message.
type fate uint8

const (
	copied fate = iota // into the inbox
	left               // to the marked rehydration, or to a later one
	gapped             // left in a gap
)

// deliver is the decision of fan-out.
func (m *rehydration) deliver(r record, horizon, sent int8) fate {
	beyond, marked, inGap := sent > horizon, r.mark != none && sent > r.mark, r.inGap(sent, maxGaps)
	switch m.mutation {
	case sweepLikeMark:
		marked = marked || r.sweep != none && sent > r.sweep
	case neitherInclusive:
		beyond, marked = sent >= horizon, r.mark != none && sent >= r.mark
	case gapsDelivered:
		inGap = false
	default:
	}
	switch {
	case beyond || marked:
		return left
	case inGap:
		return gapped
	default:
		return copied
	}
}

// owe returns the records that may follow when a worker leaves a message in its gap and owes a sweep, which counts the gap. The
// debt takes the token away from a sweep under way. Two things do not matter, and all ways are tried: whether the sweep begins at
// the gap or at the horizon; and what is owed where a host with a mark will sweep anyway: a sweep, with its token or without, or nothing.
func (m *rehydration) owe(r record, sent int8) []record {
	if m.mutation == noDebtForGap {
		return []record{r}
	}
	var owing []record
	for _, from := range [...]int8{r.gapOf(sent).after, r.horizon} {
		next := r
		if r.sweep == none || from < r.sweep || m.mutation == overwrittenByDebt {
			next.sweep = from
		}
		keeps := r.mark != none || m.mutation == tokenKeptByGap || m.mutation == endsByBounds
		if keeps && r.holder != nobody {
			owing = append(owing, next)
		}
		if !keeps || r.mark != none || r.holder == nobody {
			next.holder = dead
			owing = append(owing, next)
		}
	}
	if r.mark != none {
		owing = append(owing, r)
	}
	return owing
}

// secondary returns what a secondary that lags answers from now on, where reads may be stale, or what a worker reads too early.
func (m *rehydration) secondary(r record) record {
	if m.mutation == staleRead || m.mutation == stateReadFirst {
		return r
	}
	return record{}
}
