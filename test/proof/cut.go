package main

// cutter is a process that lets messages expire: it cuts the gaps to what was sent after a time, in one compare-and-swap on
// the record that it read before it counted.
type cutter struct {
	busy    bool
	to      int8
	numbers [maxGaps]int8
}

// cut lets a cutter count, and then cut. Its update is refused if the record has changed, and it gives up: see refuse.
func (m *rehydration) cut(s system, yield func(event, system)) {
	c := &s.cutter
	switch {
	case c.busy:
		for k, g := range s.user.gaps {
			if g.after >= c.to {
				continue
			}
			s.user.gaps[k] = gap{min(c.to, max(g.before-1, 0)), g.before, c.numbers[k]}
			for i := range s.hosts {
				h := &s.hosts[i]
				if counted := h.phase == sweeping || h.phase == closing; counted && m.mutation != cutIgnored {
					h.numbers[k] = 0 // of another gap than this is now, so finishing does not use it
					h.cut = m.mutation != cutUncounted
				}
			}
		}
		s.user.expired = c.to
		to := c.to
		*c = cutter{}
		yield(happened("what was sent up to %d expires, and gaps are cut", to), m.normal(s))
	case s.cuts > 0:
		s.cuts--
		for to := s.user.expired + 1; to <= m.top; to++ {
			t := s
			t.cutter = cutter{busy: true, to: to}
			for k, g := range s.user.gaps {
				g.after = max(g.after, to)
				t.cutter.numbers[k] = m.count(&t, g, t.edge.place)
			}
			yield(happened("what is left of the gaps after %d is counted: %d, %d", to, t.cutter.numbers[0], t.cutter.numbers[1]), t)
		}
	}
}

// refuse returns the state after a step in which the cutter gives up if the gaps of its record have changed. If something else has changed, the
// cutter compares with the new record: State.Purge.
func (m *rehydration) refuse(before, after system) system {
	if before.user.gaps != after.user.gaps && before.cutter == after.cutter && m.mutation != cutWithoutCompare {
		after.cutter = cutter{}
	}
	return after
}
