package main

// first is the first step towards a protocol without clocks. The horizon is the time of the user's last view plus
// dormant_after, and a view that finds the user active raises it without a debt. So two readings count: that of the clock that
// judges a view, and the time of a message must not be ahead of the present. All else is arbitrary.
type first struct {
	begin, end int8 // the present; time stands still at the end
	dormant    int8 // dormant_after
	late       int8 // how long a reading of a clock may take to have its effect on the record
	past       int8 // how far back the views that PUT last_viewed records may lie, at most
}

// Each reading of a clock may be ahead of the present by up to apart. So two readings at one time differ by at most apart,
// which is half of the tolerance.
const (
	tolerance = 2
	apart     = tolerance / 2
	jump      = 2 * tolerance // how far a clock is wrong (a mutation)
)

// wait lets time pass.
func (m *rehydration) wait(s system, yield func(event, system)) {
	if s.now < m.first.end {
		s.now++
		yield(happened("time goes on to %d", s.now), s)
	}
}

// latest returns the latest time of a message that is stored now.
func (f *first) latest(m *rehydration, now int8) int8 {
	if m.mutation == publisherAhead {
		return now + jump
	}
	return now + apart
}

// view lets the user look, or another service record that they did. The clock was read up to late ago.
func (m *rehydration) view(s system, yield func(event, system)) {
	f := m.first
	earliest := s.now - f.late
	switch m.mutation {
	case lateUpdate:
		earliest = s.now - tolerance - 1
	case loginBehind:
		earliest = s.now - jump
	default:
	}
	for clock := earliest; clock <= s.now+apart; clock++ {
		for at := clock - f.past; at <= clock; at += max(f.past, 1) {
			if at > 0 {
				m.judge(s, clock, at, yield)
			}
		}
	}
}

// judge is the conditional update of a view at a time, judged by a reading of the clock.
func (m *rehydration) judge(s system, clock, at int8, yield func(event, system)) {
	judged := clock
	if m.mutation == judgedByValue {
		judged = at
	}
	old := s.user.horizon
	dormant := old == 0 || judged >= old-tolerance
	if m.mutation == putWithoutRehydration {
		dormant = dormant && at == clock
	}
	to := max(old, at+m.first.dormant)
	if dormant || s.user.mark != none {
		m.raise(s, to, yield)
		return
	}
	s.user.horizon = to
	yield(happened("a view at %d, judged at %d, finds the user active and raises the horizon to %d", at, clock, to), s)
}
