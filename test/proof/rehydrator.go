package main

import "math/bits"

// rehydrator is what a host does for the user, and what it knows: of the record, what it saw when it changed it last.
type rehydrator struct {
	phase   phase
	mark    int8
	bounded bool
	sweep   int8
	horizon int8
	gaps    int8  // how many there were
	edge    stage // the edge when it was read last
	clock   int8  // as it was read before the first query, or after settling
	gap     gap   // what the limit leaves out
	pending uint8 // the messages that were found and are not appended yet, a bit each
}

// phase is what a host does next.
type phase uint8

const (
	idle      phase = iota
	marking         // set the mark, in an update of its own (a mutation)
	clocking        // read the clock
	reading         // read the edges
	bounding        // find out what the limit leaves out
	recording       // record it
	querying        // query for the missed messages
	copying         // append them, and settle after the last one
	settled         // read the clock
	rereading       // read the edges again
	sweeping        // query for messages that arrived meanwhile
	closing         // append them, and finish after the last one
)

// know notes what a host sees of the record.
func (m *rehydration) know(h *rehydrator, r record) {
	h.mark, h.bounded, h.sweep, h.horizon, h.gaps = r.mark, r.bounded, r.sweep, m.horizon(r), r.known()
	if r.mark != none {
		h.sweep = none
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
		m.know(h, t.user)
		h.edge = open
		h.phase = clocking
		if t.user.mark == none {
			h.phase = settled
		}
		return true
	}
	return false
}

// login lets the user look, or another service record that they did. The host's clock was read up to late ago.
func (m *rehydration) login(s system, yield func(event, system)) {
	if s.logins == 0 {
		return
	}
	s.logins--
	late := m.late
	if m.mutation == lateUpdate {
		late = tolerance + 1
	}
	for clock := s.now - late; clock <= s.now+apart; clock++ {
		for at := clock - m.past; at <= clock; at += max(m.past, 1) {
			if at > 0 {
				m.arrive(s, clock, at, yield)
			}
		}
	}
}

// arrive is step 1: the conditional update of a login at a time, judged by a reading of the clock.
func (m *rehydration) arrive(t system, clock, at int8, yield func(event, system)) {
	before := t.user
	horizon := m.horizon(before)
	t.user.viewed = max(before.viewed, at)
	dormant := clock >= horizon-tolerance || before.viewed == 0
	switch m.mutation {
	case judgedByValue:
		dormant = at >= horizon-tolerance || before.viewed == 0
	case putWithoutRehydration:
		dormant = dormant && at == clock
	case waitForSweep:
		dormant = dormant && before.sweep == none
	default:
	}
	switch {
	case before.mark != none:
		if m.mutation == overwrittenFrom {
			t.user.mark = horizon
		}
		yield(happened("a login at %d waits for whoever has the lease", at), t)
		if m.mayTake(&t) && m.take(&t) {
			yield(happened("a login at %d takes the lease over", at), m.normal(t))
		}
	case !dormant:
		yield(happened("a login at %d, judged at %d, finds the user active", at, clock), t)
	case m.mutation == twoUpdates:
		m.markLater(t, horizon, yield)
	default:
		t.user.mark, t.user.bounded = horizon, false
		t.user.holder = dead // for all anybody knows
		if stale := m.reusable(&t); stale != nobody {
			t.user.holder = stale
			yield(happened("a login at %d finds the user dormant and sets the mark with the token of host %d", at, stale), t)
			return
		}
		m.take(&t)
		yield(happened("a login at %d, judged at %d, finds the user dormant and sets the mark", at, clock), m.normal(t))
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
func (m *rehydration) markLater(t system, horizon int8, yield func(event, system)) {
	for i := range t.hosts {
		if t.hosts[i].phase == idle {
			t.hosts[i] = rehydrator{phase: marking, mark: horizon}
			yield(happened("a login finds the user dormant and sets only the time of the view"), m.normal(t))
			return
		}
	}
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
			yield(happened("a reaper takes the lease over"), m.normal(t))
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
		m.know(h, s.user)
		h.edge, h.phase = open, clocking
		yield(happened("host %d sets the mark", i), m.normal(s))
	case clocking, settled:
		m.readClock(s, i, yield)
	case reading, rereading:
		m.readEdges(&s, h)
		yield(happened("host %d reads the edges", i), m.normal(s))
	case bounding:
		h.gap = m.leftOut(&s, h)
		h.phase = recording
		yield(happened("host %d finds that the limit leaves out %d from %d to %d", i, h.gap.messages, h.gap.after, h.gap.before), m.normal(s))
	case recording:
		if token {
			m.record(&s, h)
			yield(happened("host %d records that the mark is bounded", i), m.normal(s))
		}
	case querying:
		h.pending = m.missed(&s, h)
		h.sweep = m.settledBefore(h)
		h.phase = copying
		found := int8(h.pending)
		m.found(&s, h)
		yield(happened("host %d finds messages %03b", i, found), m.normal(s))
	case sweeping:
		h.pending = m.arrived(&s, h)
		h.phase = closing
		found := int8(h.pending)
		m.found(&s, h)
		yield(happened("host %d finds messages %03b in its sweep", i, found), m.normal(s))
	case copying, closing:
		switch {
		case h.pending != 0:
			oldest := m.oldest(&s, h.pending)
			h.pending &^= 1 << oldest
			s.inbox |= 1 << oldest
			yield(happened("host %d appends message %d", i, oldest), m.normal(s))
		case token && h.phase == copying && s.user.mark != none:
			m.settle(&s, i)
			yield(happened("host %d settles", i), m.normal(s))
		case token && h.phase == closing && s.user.mark == none:
			s.user.sweep, s.user.holder = none, nobody
			s.hosts[i] = rehydrator{}
			yield(happened("host %d finishes", i), m.normal(s))
		case token:
			s.hosts[i] = rehydrator{}
			s.user.holder = dead
			yield(happened("host %d is refused, and ends", i), m.normal(s))
		}
	default:
	}
}

func (m *rehydration) readClock(s system, i int8, yield func(event, system)) {
	for clock := s.now; clock <= s.now+apart; clock++ {
		t := s
		h := &t.hosts[i]
		h.clock = clock
		h.phase++
		if !m.edges {
			m.readEdges(&t, h)
		}
		yield(happened("host %d reads the clock: %d", i, clock), m.normal(t))
	}
}

// readEdges also decides what comes next: whether the limit is to be applied.
func (m *rehydration) readEdges(s *system, h *rehydrator) {
	h.edge = s.edge.place
	applied := m.limit == 0 || h.bounded && m.mutation != boundedTwice
	switch {
	case h.phase == rereading:
		h.phase = sweeping
	case applied:
		h.phase = querying
	default:
		h.phase = bounding
	}
}

// sweepFrom is the time before which all messages that count were visible at the first query.
func (m *rehydration) sweepFrom(clock int8) int8 {
	switch m.mutation {
	case sweepWithoutSlack:
		return max(clock-tolerance, 0)
	case sweepWithoutTolerance:
		return max(clock-m.slack, 0)
	default:
		return max(clock-m.slack-tolerance, 0)
	}
}

// leftOut is step 3: the gap of what the limit leaves out. It reaches no further than where everything is settled.
func (m *rehydration) leftOut(s *system, h *rehydrator) gap {
	missed := m.find(*s, func(c canonical) bool { return m.isMissed(s, h, c) })
	if bits.OnesCount8(missed) <= m.limit {
		return gap{}
	}
	kept := missed
	for bits.OnesCount8(kept) > m.limit {
		kept &^= 1 << m.oldest(s, kept)
	}
	left := gap{after: m.leftAfter(s, h), before: s.messages[m.oldest(s, kept)].sent}
	if m.mutation != unsettledGap {
		left.before = min(left.before, m.sweepFrom(h.clock))
	}
	for i, c := range s.messages {
		if missed&(1<<i) != 0 && left.after < c.sent && c.sent < left.before {
			left.messages++
		}
	}
	switch {
	case m.mutation == gapForgotten:
		h.mark = max(h.mark, left.before-1) // all that comes of the limit is that less is copied
		return gap{}
	case left.messages == 0:
		return gap{}
	default:
		return left
	}
}

// leftAfter is where a gap begins: at the mark.
func (m *rehydration) leftAfter(s *system, h *rehydrator) int8 {
	after := h.mark
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

// record is the end of step 3. It comes before anything is appended, so that a gap holds nothing that is in the inbox.
func (m *rehydration) record(s *system, h *rehydrator) {
	s.user.bounded = true
	if h.gap.messages > 0 {
		s.user.gaps[s.user.known()] = h.gap
	}
	h.gap = gap{}
	mark := h.mark
	m.know(h, s.user)
	if m.mutation == gapForgotten {
		h.mark = mark
	}
	h.phase = querying
}

// isMissed reports whether the mark left a message to the host.
func (m *rehydration) isMissed(s *system, h *rehydrator, c canonical) bool {
	after := c.sent > h.mark || c.sent == h.mark && m.mutation == bothInclusive
	return after && m.warm(h, c) && !s.user.inGap(c.sent, h.gaps) && m.forUser(s.edge, h.edge, c)
}

// warm reports whether a message is not beyond the horizon. A message beyond it is left to a later rehydration, whose mark
// begins there or later. So no rehydration finds in the inbox a message that it must leave out.
func (m *rehydration) warm(h *rehydrator, c canonical) bool {
	return c.sent <= h.horizon || m.mutation == beyondHorizon || m.mutation == gapAboveInbox
}

// missed is the query of step 4.
func (m *rehydration) missed(s *system, h *rehydrator) uint8 {
	return m.find(*s, func(c canonical) bool { return c.sent < h.clock && m.isMissed(s, h, c) })
}

// found forgets what the host needs no more. Without stalls it appends at once.
func (m *rehydration) found(s *system, h *rehydrator) {
	if !m.stalls {
		s.inbox |= h.pending
		h.pending = 0
	}
	h.mark, h.bounded, h.horizon, h.gaps, h.edge, h.clock = 0, false, 0, 0, 0, 0
	if h.phase == closing {
		h.sweep = 0
	}
}

// settledBefore returns the time before which the query of step 4 has seen all that counts. Where the horizon was before
// the time to sweep from, it may have grown since, and what lies between was left out by fan-out and by the query.
func (m *rehydration) settledBefore(h *rehydrator) int8 {
	from := m.sweepFrom(h.clock)
	if m.mutation == beyondHorizon || m.mutation == gapAboveInbox || m.mutation == settledBeyondHorizon {
		return from
	}
	return min(from, h.horizon+1)
}

// settle is step 5.
func (m *rehydration) settle(s *system, i int8) {
	h := &s.hosts[i]
	from := h.sweep
	if s.user.sweep != none && m.mutation != overwrittenSweep {
		from = min(from, s.user.sweep)
	}
	switch m.mutation {
	case noSweep:
		s.user.mark, s.user.bounded, s.user.holder = none, false, nobody
		s.hosts[i] = rehydrator{}
		return
	case sweepFromSettling:
		from = m.sweepFrom(s.now)
	default:
	}
	s.user.mark, s.user.bounded, s.user.sweep = none, false, from
	m.know(h, s.user)
	h.phase = settled
	h.edge = open
}

// arrived is the query of step 6.
func (m *rehydration) arrived(s *system, h *rehydrator) uint8 {
	found := m.find(*s, func(c canonical) bool {
		return c.sent >= h.sweep && c.sent <= h.clock+tolerance && m.warm(h, c) &&
			!s.user.inGap(c.sent, h.gaps) && m.forUser(s.edge, h.edge, c)
	})
	for m.mutation == limitedSweep && bits.OnesCount8(found) > m.limit {
		found &^= 1 << m.oldest(s, found)
	}
	return found
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
// A host without the token that has nothing left to append is done: all that it can do is to be refused.
func (m *rehydration) normal(s system) system {
	for i, h := range s.hosts {
		refused := h.phase == recording || h.phase == copying || h.phase == closing
		if refused && h.pending == 0 && s.user.holder != int8(i) && m.mutation != noToken {
			s.hosts[i] = rehydrator{}
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
	for _, v := range [...]int8{h.mark, h.sweep, h.horizon, h.clock, h.gap.after, h.gap.before} {
		weight = weight<<6 | uint64(v+1)
	}
	for _, v := range [...]uint8{uint8(h.gaps), uint8(h.edge), uint8(h.gap.messages), h.pending} {
		weight = weight<<3 | uint64(v)
	}
	weight <<= 1
	if h.bounded {
		weight |= 1
	}
	return weight
}
