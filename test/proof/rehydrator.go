package main

import "math/bits"

// rehydrator is what a host does for the user, and what it knows: of the record, what it saw when it changed it last.
type rehydrator struct {
	phase   phase
	mark    int8
	bounded bool
	sweep   int8
	horizon int8
	gaps    int8          // how many there were
	edge    stage         // the edge when it was read last
	gap     gap           // what the limit leaves out
	numbers [maxGaps]int8 // of messages in the gaps, as they were counted
	cut     bool          // whether a gap was cut after it was counted
	pending uint8         // the messages that were found and are not appended yet, a bit each
}

// phase is what a host does next.
type phase uint8

const (
	idle      phase = iota
	marking         // leave the mark, in an update of its own (a mutation)
	reading         // read the edges
	bounding        // find out what the limit leaves out
	recording       // record it
	querying        // query for the missed messages
	copying         // append them, and settle after the last one
	rereading       // read the edges again
	numbering       // count the gaps
	sweeping        // query for the messages after the sweep
	closing         // append them, and finish after the last one
	looked          // raise the horizon, after a look for later messages (a mutation)
	checking        // read the ceiling, for the sweep of a login
	seeking         // look for messages after that sweep
	ending          // end that sweep at once
)

// know notes what a host sees of the record.
func (m *rehydration) know(s *system, h *rehydrator) {
	r := s.user
	h.mark, h.bounded, h.sweep, h.horizon, h.gaps = r.mark, r.bounded, r.sweep, m.horizon(s, r), r.known()
	if r.mark != none {
		h.sweep = none
	}
}

// begin lets a host begin with a phase, in which it reads the edges.
func (m *rehydration) begin(s *system, h *rehydrator, with phase) {
	h.edge, h.phase = open, with
	if !m.edges {
		m.readEdges(s, h)
	}
}

// take gives the lease to an idle host, if there is one.
func (m *rehydration) take(t *system) bool {
	for i := range t.hosts {
		h := &t.hosts[i]
		if h.phase != idle {
			continue
		}
		t.user.holder = int8(i)
		m.know(t, h)
		with := reading
		if t.user.mark == none {
			with = rereading
		}
		m.begin(t, h, with)
		return true
	}
	return false
}

// mayTake reports whether a host may take the lease over. The lease of a crashed host always ends, so taking it over costs
// nothing. Taking over the lease of a live host counts towards takeovers.
func (m *rehydration) mayTake(t *system) bool {
	if t.user.holder < 0 {
		return true
	}
	t.takeovers--
	return t.takeovers >= 0
}

// host lets one host take its next step, crash, or find that it has lost the token.
func (m *rehydration) host(s system, i int8, yield func(event, system)) {
	h := s.hosts[i]
	if h.phase == idle {
		t := s
		if i == s.firstIdle() && (s.user.mark != none || s.user.sweep != none) && m.mayTake(&t) && m.take(&t) {
			yield(happened("host %d takes the lease", i), m.normal(t))
		}
		return
	}
	holds := s.user.holder == i
	if !holds || s.crashes > 0 {
		t := s
		t.hosts[i] = rehydrator{}
		if holds {
			t.crashes--
			t.user.holder = dead
			yield(happened("host %d crashes", i), m.normal(t))
		} else {
			yield(happened("host %d finds its token lost", i), m.normal(t))
		}
	}
	m.work(s, i, holds || m.mutation == noToken, yield)
}

func (s *system) firstIdle() int8 {
	for i, h := range s.hosts {
		if h.phase == idle {
			return int8(i)
		}
	}
	return nobody
}

// work does the next step of a working host. A host that has lost the token continues until the store refuses a step.
func (m *rehydration) work(s system, i int8, token bool, yield func(event, system)) {
	h := &s.hosts[i]
	switch h.phase {
	case marking:
		s.user.mark, s.user.bounded, s.user.holder = h.mark, false, i
		m.know(&s, h)
		m.begin(&s, h, reading)
		yield(happened("host %d sets the mark", i), m.normal(s))
	case reading, rereading:
		m.readEdges(&s, h)
		yield(happened("host %d reads the edges", i), m.normal(s))
	case bounding:
		m.bound(s, i, yield)
	case recording:
		if token && h.gap.messages > 0 && h.gap.after < s.user.expired && m.mutation != boundUncut {
			h.gap, h.phase = gap{}, bounding
			yield(happened("host %d finds that messages of its gap have expired", i), m.normal(s))
		} else if token {
			m.record(&s, h)
			yield(happened("host %d records that the mark is bounded", i), m.normal(s))
		}
	case querying:
		for _, end := range m.ends(h) {
			t := s
			h := &t.hosts[i]
			h.pending = m.find(t, func(c canonical) bool { return c.sent <= end && m.isMissed(&t, h, c) })
			h.phase = copying
			found := int8(h.pending)
			m.found(&t, h)
			yield(happened("host %d queries up to %d and finds messages %03b", i, end, found), m.normal(t))
		}
	case numbering:
		for k := range h.gaps {
			h.numbers[k] = m.count(&s, s.user.gaps[k], h.edge)
		}
		h.phase = sweeping
		yield(happened("host %d counts the gaps: %d, %d", i, h.numbers[0], h.numbers[1]), m.normal(s))
	case sweeping:
		for _, end := range m.ends(h) {
			without, with := m.arrived(&s, h, h.sweep, end), m.arrived(&s, h, h.sweep-1, end)
			m.sweep(s, i, without, yield)
			if with != without && m.mutation == correct {
				m.sweep(s, i, with, yield)
			}
		}
	case copying, closing:
		m.finish(s, i, token, yield)
	case looked, checking, seeking, ending:
		m.endQuickly(s, i, token, yield)
	default:
	}
}

// sweep notes what a sweep has found. Whether it looks at the time itself at which it begins does not matter, and both are tried.
func (m *rehydration) sweep(t system, i int8, found uint8, yield func(event, system)) {
	h := &t.hosts[i]
	h.pending, h.phase = found, closing
	m.found(&t, h)
	yield(happened("host %d finds messages %03b in its sweep", i, int8(found)), m.normal(t))
}

// finish appends a message that was found, or settles or finishes after the last one.
func (m *rehydration) finish(s system, i int8, token bool, yield func(event, system)) {
	h := &s.hosts[i]
	switch {
	case h.pending != 0:
		oldest := m.oldest(&s, h.pending)
		h.pending &^= 1 << oldest
		s.inbox |= 1 << oldest
		yield(happened("host %d appends message %d", i, oldest), m.normal(s))
	case token && h.phase == copying && s.user.mark != none:
		for _, from := range m.sweepsFrom(&s, h) {
			t := s
			m.settle(&t, i, from)
			yield(happened("host %d settles, with a sweep from %d", i, from), m.normal(t))
		}
	case token && h.phase == closing && h.cut:
		for k := range h.gaps {
			h.numbers[k] = m.count(&s, s.user.gaps[k], h.edge)
		}
		h.cut = false
		yield(happened("host %d counts the gaps again: %d, %d", i, h.numbers[0], h.numbers[1]), m.normal(s))
	case token && h.phase == closing && s.user.mark == none && !m.outdated(&s, h):
		for k := range h.gaps {
			s.user.gaps[k].messages = max(s.user.gaps[k].messages, h.numbers[k])
		}
		s.user.sweep, s.user.holder = none, nobody
		s.hosts[i] = rehydrator{}
		yield(happened("host %d finishes", i), m.normal(s))
	case token:
		s.hosts[i] = rehydrator{}
		s.user.holder = dead
		yield(happened("host %d is refused, and ends", i), m.normal(s))
	}
}

// outdated reports that the bounds of a sweep have changed, where that decides instead of the token (a mutation).
func (m *rehydration) outdated(s *system, h *rehydrator) bool {
	return m.mutation == endsByBounds && (s.user.horizon != h.horizon || s.user.sweep != h.sweep)
}

// readEdges also decides what comes next: whether the limit is to be applied, and whether there are gaps to count.
func (m *rehydration) readEdges(s *system, h *rehydrator) {
	h.edge = s.edge.place
	applied := m.limit == 0 || h.bounded && m.mutation != boundedTwice
	switch {
	case h.phase == rereading && h.gaps > 0 && m.mutation != noRecount:
		h.phase = numbering
	case h.phase == rereading:
		h.phase = sweeping
	case applied:
		h.phase = querying
	default:
		h.phase = bounding
	}
}

// ends returns where a query may end: at the horizon that the host knows, or at a clock if that is earlier (a mutation).
func (m *rehydration) ends(h *rehydrator) []int8 {
	if m.mutation != endByClock && (m.mutation != sweepEndsByClock || h.phase != sweeping) {
		if m.mutation == beyondHorizon || m.mutation == gapAboveInbox {
			return []int8{m.top}
		}
		return []int8{h.horizon}
	}
	var ends []int8
	for clock := range h.horizon + 1 {
		ends = append(ends, clock)
	}
	return ends
}

// bound finds what the limit leaves out. Without a gap, the host copies what it has found here.
func (m *rehydration) bound(s system, i int8, yield func(event, system)) {
	h := &s.hosts[i]
	missed := m.find(s, func(c canonical) bool { return m.isMissed(&s, h, c) })
	h.phase = recording
	if bits.OnesCount8(missed) <= m.limit {
		h.pending = missed
		yield(happened("host %d finds messages %03b, and that the limit leaves out none", i, int8(missed)), m.normal(s))
		return
	}
	kept := missed
	for bits.OnesCount8(kept) > m.limit {
		kept &^= 1 << m.oldest(&s, kept)
	}
	after, latest := m.leftAfter(&s, h), s.messages[m.oldest(&s, kept)].sent
	earliest := latest
	if m.early {
		earliest = min(after+1, latest)
	}
	for before := earliest; before <= latest; before++ {
		t := s
		h := &t.hosts[i]
		left := gap{after: after, before: before}
		left.messages = m.count(&t, left, h.edge)
		switch {
		case m.mutation == gapForgotten:
			h.mark = max(h.mark, before-1) // all that comes of the limit is that less is copied
		case left.messages > 0:
			h.gap = left
		}
		yield(happened("host %d finds that the limit leaves out %d from %d to %d", i, h.gap.messages, h.gap.after, h.gap.before), m.normal(t))
	}
}

// leftAfter is where a gap begins: at the mark, or after what has expired.
func (m *rehydration) leftAfter(s *system, h *rehydrator) int8 {
	after := max(h.mark, s.user.expired)
	if m.mutation == bothInclusive {
		after--
	}
	if m.mutation == gapAboveInbox {
		for i, c := range s.messages {
			if s.inbox&(1<<i) != 0 {
				after = max(after, c.sent)
			}
		}
	}
	return after
}

// record comes before anything is appended, so that a gap holds nothing that is in the inbox.
func (m *rehydration) record(s *system, h *rehydrator) {
	s.user.bounded = true
	known := *h
	h.phase = querying
	if h.gap.messages > 0 {
		s.user.gaps[s.user.known()] = h.gap
	} else if h.pending != 0 {
		h.phase = copying
	}
	h.gap = gap{}
	m.know(s, h)
	if m.mutation == gapForgotten {
		h.mark = known.mark
	}
	if h.phase == copying {
		m.found(s, h)
	}
}

// isMissed reports whether the mark left a message to the host. A message beyond the horizon is left to a later
// rehydration, whose mark begins there or later. So no rehydration finds in the inbox a message that it must leave out.
func (m *rehydration) isMissed(s *system, h *rehydrator, c canonical) bool {
	after := c.sent > h.mark || c.sent == h.mark && m.mutation == bothInclusive
	warm := c.sent <= h.horizon || m.mutation == beyondHorizon || m.mutation == gapAboveInbox
	return after && warm && !s.user.inGap(c.sent, h.gaps) && m.forUser(s.edge, h.edge, c)
}

// arrived is the query of a sweep.
func (m *rehydration) arrived(s *system, h *rehydrator, after, end int8) uint8 {
	found := m.find(*s, func(c canonical) bool {
		return c.sent > after && c.sent <= end && !s.user.inGap(c.sent, h.gaps) && m.forUser(s.edge, h.edge, c)
	})
	for m.mutation == limitedSweep && bits.OnesCount8(found) > m.limit {
		found &^= 1 << m.oldest(s, found)
	}
	return found
}

// count returns the number of messages in a gap, according to a reader that read the edge at a stage.
func (m *rehydration) count(s *system, g gap, seen stage) int8 {
	return int8(bits.OnesCount8(m.find(*s, func(c canonical) bool { return g.holds(c.sent) && m.forUser(s.edge, seen, c) })))
}

// found forgets what the host needs no more. Without stalls it appends at once.
func (m *rehydration) found(s *system, h *rehydrator) {
	if !m.stalls {
		s.inbox |= h.pending
		h.pending = 0
	}
	h.bounded, h.edge = false, 0
	if m.mutation != endsByBounds {
		h.sweep, h.horizon = none, 0
	}
	if h.phase == copying {
		h.gaps = 0
	} else {
		h.mark = none
	}
}

// sweepsFrom returns where the sweep may begin that settling leaves: at the mark, or at a clock (mutations).
func (m *rehydration) sweepsFrom(s *system, h *rehydrator) []int8 {
	switch m.mutation {
	case sweepFromClock:
		var from []int8
		for clock := range m.top + 1 {
			from = append(from, clock)
		}
		return from
	case sweepFromHorizon:
		return []int8{m.horizon(s, s.user)}
	default:
		return []int8{h.mark}
	}
}

// settle replaces the mark by a sweep of the same stretch.
func (m *rehydration) settle(s *system, i, from int8) {
	h := &s.hosts[i]
	if s.user.sweep != none && m.mutation != overwrittenSweep {
		from = min(from, s.user.sweep)
	}
	s.user.mark, s.user.bounded, s.user.sweep = none, false, from
	if m.mutation == noSweep {
		s.user.sweep, s.user.holder = none, nobody
		s.hosts[i] = rehydrator{}
		return
	}
	m.know(s, h)
	m.begin(s, h, rereading)
}

// oldest returns the first of some messages by time.
func (m *rehydration) oldest(s *system, some uint8) int8 {
	first := int8(-1)
	for i, c := range s.messages {
		if some&(1<<i) != 0 && (first < 0 || c.sent < s.messages[first].sent) {
			first = int8(i)
		}
	}
	return first
}

// normal returns the one of two states that differ in nothing but the names of the hosts. A host has no identity but
// its token, so that they have the same future.
//
// A host without the token that will append nothing is done: all that it can do is to be refused.
func (m *rehydration) normal(s system) system {
	for i, h := range s.hosts {
		if s.user.holder == int8(i) || m.mutation == noToken || m.mutation == tokenReused {
			continue
		}
		switch h.phase {
		case bounding, recording:
			s.hosts[i] = rehydrator{}
		case ending:
			if m.mutation != quickEndByBounds && m.mutation != quickEndWithoutToken {
				s.hosts[i] = rehydrator{}
			}
		case copying, closing:
			if h.pending == 0 {
				s.hosts[i] = rehydrator{}
			}
		default:
		}
	}
	if m.mutation != correct || s.hosts[0].weight() >= s.hosts[1].weight() {
		return s
	}
	s.hosts[0], s.hosts[1] = s.hosts[1], s.hosts[0]
	if s.user.holder >= 0 {
		s.user.holder = 1 - s.user.holder
	}
	return s
}

// weight is a number that is different for different rehydrators.
func (h rehydrator) weight() uint64 {
	weight := uint64(h.phase)
	for _, v := range [...]int8{h.mark, h.sweep, h.horizon, h.gap.after, h.gap.before} {
		weight = weight<<5 | uint64(v+1)
	}
	for _, v := range [...]int8{h.gaps, int8(h.edge), h.gap.messages, h.numbers[0], h.numbers[1], h.numbers[2]} {
		weight = weight<<3 | uint64(v)
	}
	weight = weight<<4 | uint64(h.pending)
	weight <<= 1
	if h.bounded {
		weight |= 1
	}
	weight <<= 1
	if h.cut {
		weight |= 1
	}
	return weight
}
