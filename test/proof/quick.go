package main

// ceiling is the record that no stored message was sent after a time.
type ceiling struct {
	stored int8
	known  int8 // what the process knows that knows most
	begun  int8 // what a read answers that has begun (a mutation)
}

// raiseCeiling lets a process raise the ceiling, by any clock. The message for which it does that is stored at any later time, or never.
// After the last message a raise only makes looks longer: they end the sweep, or leave it to a host as a login does that does not look.
func (m *rehydration) raiseCeiling(s system, yield func(event, system)) {
	if !m.quick || s.messages[m.messages-1].stored() {
		return
	}
	for to := s.ceiling.known + 1; to <= m.top; to++ {
		t := s
		t.ceiling.stored, t.ceiling.known = max(s.ceiling.stored, to), to
		if m.mutation == ceilingKnownAbove {
			t.ceiling.known = m.top
		}
		yield(happened("a process raises the ceiling to %d", to), t)
	}
}

// mayStore returns up to when a message may have been sent that a process stores next. A process that knows less of the ceiling
// raises it to what it is.
func (m *rehydration) mayStore(s *system) int8 {
	if m.quick && m.mutation != storedBeforeCeiling {
		return s.ceiling.known
	}
	return m.top
}

// asks lets a login find that it would raise the horizon too little, and leave it as it is. This has no effect: what may follow
// might also have followed without the login.
func (m *rehydration) asks(s system, yield func(event, system)) {
	yield(happened("a login leaves the horizon as it is"), s)
	i := s.firstIdle()
	if m.mutation == lookBeforeRaise && i != nobody && s.user.mark == none && s.user.sweep == none && !m.anyAfter(&s, s.user.horizon) {
		s.hosts[i] = rehydrator{phase: looked, horizon: s.user.horizon}
		yield(happened("host %d finds no message after the horizon %d", i, s.user.horizon), s)
	}
}

// look gives the sweep that a login has just left to the login's host, if it may end it at once. A sweep that was there before may be
// owed for the count of a gap.
func (m *rehydration) look(before, s system, yield func(event, system)) {
	i := s.firstIdle()
	if i == nobody || before.user.sweep != none && m.mutation != quickEndOfOlder {
		return
	}
	s.user.holder = i
	h := &s.hosts[i]
	m.know(&s, h)
	h.phase = checking
	yield(happened("a login raises the horizon to %d, leaves a sweep, and host %d has the token", s.user.horizon, i), m.normal(s))
}

// anyAfter is the question whether any message was sent after a time. It does not matter whose it is.
func (m *rehydration) anyAfter(s *system, after int8) bool {
	return m.find(*s, func(c canonical) bool { return c.sent > after }) != 0
}

// endQuickly does the next step of the host of a login. Whether it looks at the time itself at which the sweep begins does not
// matter, and both are tried.
func (m *rehydration) endQuickly(s system, i int8, token bool, yield func(event, system)) {
	h := &s.hosts[i]
	switch h.phase {
	case looked:
		if s.user.horizon != h.horizon || s.user.mark != none || s.user.sweep != none {
			return
		}
		for to := h.horizon + 1; to <= m.top; to++ {
			t := s
			t.user.horizon, t.user.sweep, t.user.holder = to, h.horizon, i
			t.hosts[i] = rehydrator{phase: ending}
			yield(happened("host %d raises the horizon to %d and leaves a sweep, with the token", i, to), t)
		}
	case checking:
		ceiling := s.ceiling.stored
		if m.mutation == ceilingReadFirst {
			ceiling = s.ceiling.begun
		}
		if t := s; ceiling > h.sweep-1 {
			t.hosts[i].phase = seeking
			yield(happened("host %d reads the ceiling %d, and will look for messages", i, ceiling), m.normal(t))
		}
		if ceiling > h.sweep {
			return
		}
		m.willEnd(h)
		yield(happened("host %d reads the ceiling %d, and will end its sweep", i, ceiling), m.normal(s))
	case seeking:
		after := h.sweep
		if m.mutation == lookFromHorizon {
			after = h.horizon
		}
		if t := s; m.anyAfter(&s, after-1) {
			m.begin(&t, &t.hosts[i], rereading)
			yield(happened("host %d finds a message since %d, and will sweep", i, after), m.normal(t))
		}
		if m.anyAfter(&s, after) {
			return
		}
		m.willEnd(h)
		yield(happened("host %d finds no message after %d", i, after), m.normal(s))
	case ending:
		switch m.mutation {
		case quickEndByBounds:
			token = s.user.sweep == h.sweep && s.user.horizon == h.horizon
		case quickEndWithoutToken:
			token = s.user.sweep != none
		default:
		}
		if token && s.user.mark == none {
			s.user.sweep, s.user.holder = none, nobody
			s.hosts[i] = rehydrator{}
			yield(happened("host %d ends the sweep at once", i), m.normal(s))
		}
	default:
	}
}

// willEnd forgets what the host of a login needs no more.
func (m *rehydration) willEnd(h *rehydrator) {
	known := *h
	if *h = (rehydrator{phase: ending}); m.mutation == quickEndByBounds {
		h.sweep, h.horizon = known.sweep, known.horizon
	}
}
