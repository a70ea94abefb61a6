package main

// login lets the user look. Their horizon rises to any time: by any clock, and by any setting.
func (m *rehydration) login(s system, yield func(event, system)) {
	if s.logins == 0 {
		return
	}
	s.logins--
	if m.quick && s.user.horizon > 0 {
		m.asks(s, yield)
	}
	lowest := max(s.user.horizon, 1)
	if m.mutation == horizonLowered {
		lowest = 1
	}
	for to := lowest; to <= m.top; to++ {
		m.raise(s, to, yield)
	}
}

// raise is the update of a login: it raises the horizon and leaves a debt, which is a mark or a sweep. A mark is also left by
// a login that finds the user dormant and does not raise the horizon.
func (m *rehydration) raise(s system, to int8, yield func(event, system)) {
	from, risen := m.horizon(&s, s.user), to != s.user.horizon
	if s.user.mark != none {
		if m.mutation == overwrittenFrom {
			s.user.mark = from
		}
		s.user.horizon = to
		if risen {
			yield(happened("a login raises the horizon to %d, and leaves the mark as it is", to), s)
		}
		return
	}
	if m.mutation == twoUpdates {
		m.markLater(s, to, yield)
		return
	}
	t := s
	t.user.horizon = to
	t.user.mark, t.user.bounded, t.user.holder = from, false, dead
	if stale := m.reusable(&t); stale != nobody {
		t.user.holder = stale
		yield(happened("a login raises the horizon to %d and leaves a mark with the token of host %d", to, stale), t)
	} else {
		yield(happened("a login raises the horizon to %d and leaves a mark", to), m.normal(t))
	}
	if !risen {
		return
	}
	t = s
	t.user.horizon = to
	if t.user.sweep == none || from < t.user.sweep {
		t.user.sweep = from
	}
	t.user.holder = dead
	switch m.mutation {
	case raiseWithoutDebt:
		t.user = s.user
		t.user.horizon = to
	case tokenKeptByRaise, endsByBounds:
		if s.user.holder != nobody {
			t.user.holder = s.user.holder
		}
	default:
	}
	yield(happened("a login raises the horizon to %d and leaves a sweep", to), m.normal(t))
	if m.quick {
		m.look(s, t, yield)
	}
}

// reusable returns a host that is still at an earlier rehydration, if its token may be used again.
func (m *rehydration) reusable(t *system) int8 {
	if m.mutation == tokenReused {
		for i, h := range t.hosts {
			if h.phase != idle {
				return int8(i)
			}
		}
	}
	return nobody
}

// markLater leaves the mark to a second update.
func (m *rehydration) markLater(t system, to int8, yield func(event, system)) {
	for i := range t.hosts {
		if t.hosts[i].phase == idle {
			t.hosts[i] = rehydrator{phase: marking, mark: t.user.horizon}
			t.user.horizon = to
			yield(happened("a login raises the horizon to %d and does no more yet", to), m.normal(t))
			return
		}
	}
}
