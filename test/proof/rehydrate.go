package main

import (
	"fmt"
	"strings"
)

// rehydration is the protocol by which a user who was away gets the messages that they missed. It has one user, their messages, a
// fan-out whose workers stall, repeat and crash, logins, and rehydrators that stall, crash and take over from each other.
//
// Times are small integers. The protocol compares no clocks, so the model has none: a message is sent, a horizon rises and a
// span of an edge begins or ends at any time. Leases have no times: a host may take a lease over at any moment, because
// only speed may depend on leases.
type rehydration struct {
	mutation mutation

	messages int
	top      int8   // the greatest time that any clock shows
	horizons []int8 // the user's horizon before the model starts; 0 for a user without a record
	limit    int    // rehydrate.limit; 0 for none
	gap      bool   // the model starts with a gap up to the horizon, which holds message 0
	early    bool   // a gap may end at any time before the oldest message that the limit keeps
	stalls   bool   // between finding messages and appending them, too
	edges    bool   // messages are for followers, and the user begins and ceases to follow
	quick    bool   // a login may leave the horizon as it is, or end at once the sweep that it leaves: see quick.go

	// How often a fault, or a request from outside, happens in a run.
	logins, crashes, takeovers, repeats, cuts int8
}

const none = -1 // no such time

const (
	maxMessages = 4
	maxGaps     = 3
)

// system is a state of a rehydration.
type system struct {
	messages [maxMessages]canonical
	inbox    uint8 // the messages that are in a bucket, a bit each
	user     record
	stale    record // what was read of the user earlier, or what a secondary answers (mutations)
	former   edge   // what was read of the edge before the first message was stored (a mutation)
	setting  int8   // 1 after a setting has changed (a mutation)
	edge     edge
	hosts    [2]rehydrator
	cutter   cutter
	ceiling  ceiling

	logins, crashes, takeovers, repeats, cuts int8 // left
}

// canonical is a message.
type canonical struct {
	place   place
	sent    int8
	held    bool // a worker has decided to append it and has not done so yet
	direct  bool // it names the user, whether or not they follow its author
	lagging bool // stored long after it was sent (a mutation)
	counted int8 // the number of its gap, as a worker has counted it (a mutation)
}

// place is where a message is on its way.
type place uint8

const (
	unsent   place = iota
	waiting        // it is stored, its task waits for a worker
	named          // a worker has found the user in its audience, and has yet to read their record
	counting       // a worker has counted its gap (a mutation)
	handled        // a worker has decided what to do with it
)

func (c canonical) stored() bool { return c.place != unsent }

func (m *rehydration) initial() []system {
	var states []system
	for _, horizon := range m.horizons {
		s := system{logins: m.logins, crashes: m.crashes, takeovers: m.takeovers, repeats: m.repeats, cuts: m.cuts}
		s.user = record{horizon: horizon, mark: none, sweep: none, holder: nobody}
		if m.gap {
			s.messages[0] = canonical{place: handled, sent: 1, direct: true}
			s.user.gaps[0] = gap{before: horizon, messages: 1}
			s.ceiling = ceiling{stored: 1, known: 1}
		}
		s.stale = m.secondary(s.user)
		if !m.edges {
			s.edge.place = open
		}
		states = append(states, s)
	}
	return states
}

func (m *rehydration) next(s system, yield func(event, system)) {
	if m.over(s) {
		return
	}
	if m.cuts > 0 {
		to := yield
		yield = func(e event, t system) { to(e, m.refuse(s, t)) }
		m.cut(s, yield)
	}
	m.raiseCeiling(s, yield)
	m.publish(s, yield)
	m.fanOut(s, yield)
	m.login(s, yield)
	for i := range s.hosts {
		m.host(s, int8(i), yield)
	}
	if m.edges {
		m.follow(s, yield)
	}
	m.surroundings(s, yield)
}

// surroundings does what only some mutations need.
func (m *rehydration) surroundings(s system, yield func(event, system)) {
	if m.mutation == staleRead && s.stale != s.user {
		t := s
		t.stale = s.user
		yield(happened("the secondary catches up"), t)
	}
	t := s
	switch m.mutation {
	case stateReadFirst, edgesReadFirst:
		if s.messages[0].stored() {
			return
		}
		t.stale, t.former = s.user, s.edge
		yield(happened("a worker reads the record and the edge"), t)
	case ceilingReadFirst:
		t.ceiling.begun = s.ceiling.stored
		yield(happened("a read of the ceiling begins"), t)
	case ceilingFallsBack:
		t.ceiling.stored = 0
		yield(happened("the ceiling falls back"), t)
	case computedRaised, computedLowered, voidRaised, voidLowered:
		if s.setting == 0 {
			s.setting = 1
			yield(happened("an operator changes the setting"), s)
		}
	default:
	}
}

// over tells that nothing can be wrong with s any more: the only message is in the inbox, where nothing removes it, and
// there are no gaps.
func (m *rehydration) over(s system) bool {
	return m.messages == 1 && m.limit == 0 && s.inbox != 0 && m.mutation != voidRaised
}

// publish stores messages, with any time. Getting an id does not show before the message is stored, so both are one step.
func (m *rehydration) publish(s system, yield func(event, system)) {
	for i, c := range s.messages[:m.messages] {
		if c.stored() {
			continue
		}
		for sent := int8(1); sent <= m.mayStore(&s); sent++ {
			t := s
			t.messages[i] = canonical{place: waiting, sent: sent}
			yield(happened("message %d is stored, sent %d", int8(i), sent), t)
			if m.mutation == voidRaised || m.mutation == voidLowered {
				t.messages[i].lagging = true
				yield(happened("message %d is stored long after it was sent at %d", int8(i), sent), t)
			}
		}
		return
	}
}

// void reports whether a message does not count. The protocol decides that when the message is stored, and such a message is
// as if it had never been. Mutations decide it by a setting that changes.
func (m *rehydration) void(s *system, c canonical) bool {
	return c.lagging && (m.mutation == voidRaised) == (s.setting == 0)
}

// fanOut lets workers handle messages: find the user in the audience, read their record, append later. There may be as many
// workers as messages. If a task is delivered twice, or its worker crashed or stalled beyond its lease, its message waits
// again, whether or not another worker still holds it.
func (m *rehydration) fanOut(s system, yield func(event, system)) {
	for i, c := range s.messages[:m.messages] {
		n := int8(i)
		t := s
		switch c.place {
		case unsent:
		case waiting:
			if !m.edges {
				m.decide(s, n, yield)
			} else if t.messages[i].place = handled; m.addressed(&s, c) {
				t.messages[i].place = named
				yield(happened("a worker finds the user in the audience of message %d", n), t)
			} else {
				yield(happened("a worker finds that message %d is not for the user", n), t)
			}
		case named:
			m.decide(s, n, yield)
		case counting:
			for k, g := range s.user.gaps {
				if g.holds(c.sent) {
					t.user.gaps[k].messages = c.counted
				}
			}
			t.messages[i].place, t.messages[i].counted = handled, 0
			yield(happened("the worker with message %d writes the number %d", n, c.counted), t)
		case handled:
			if s.repeats > 0 {
				t.repeats--
				t.messages[i].place = waiting
				yield(happened("the task of message %d is delivered again", n), t)
			}
		}
		if c.held {
			m.append(s, n, yield)
		}
	}
}

// addressed reports whether a worker finds the user in the audience of a message.
func (m *rehydration) addressed(s *system, c canonical) bool {
	if m.mutation == edgesReadFirst {
		return m.forUser(s.former, s.former.place, c)
	}
	return m.forUser(s.edge, s.edge.place, c)
}

// append lets a worker append a message that it holds, or crash.
func (m *rehydration) append(s system, n int8, yield func(event, system)) {
	s.messages[n].held = false
	if t := s; s.repeats > 0 && t.messages[n].place == handled {
		t.repeats--
		t.messages[n].place = waiting
		yield(happened("the worker with message %d crashes, its task is delivered again", n), t)
	}
	s.inbox |= 1 << n
	yield(happened("a worker appends message %d", n), s)
}

// decide lets a worker read the record. It appends the message, leaves it to the rehydration that the record or a later one
// demands, or owes a sweep because the message is in a gap. That update compares with the record that was read, so
// reading and owing are one step.
func (m *rehydration) decide(t system, n int8, yield func(event, system)) {
	c := &t.messages[n]
	c.place = handled
	user := t.user
	if m.mutation == staleRead || m.mutation == stateReadFirst {
		user = t.stale
	}
	if m.void(&t, *c) {
		yield(happened("a worker passes over message %d, which is void", n), t)
		return
	}
	switch m.deliver(user, m.horizon(&t, user), c.sent) {
	case left:
		yield(happened("a worker reads the record, and leaves message %d to rehydration", n), t)
	case gapped:
		if m.mutation == workersCount {
			c.place, c.counted = counting, m.count(&t, user.gapOf(c.sent), t.edge.place)
			yield(happened("a worker counts the gap of message %d: %d", n, c.counted), t)
			return
		}
		for _, user := range m.owe(t.user, c.sent) {
			t.user = user
			yield(happened("a worker reads the record, leaves message %d in its gap, and owes a sweep", n), m.normal(t))
		}
	case copied:
		if !m.stalls {
			t.inbox |= 1 << n
			yield(happened("a worker reads the record and appends message %d", n), t)
			return
		}
		c.held = true
		yield(happened("a worker reads the record, and will append message %d", n), t)
	}
}

// wrong checks what must hold at any moment. Its last check is that nothing is lost: a message that fan-out has
// finished is in the inbox, in a gap, or ahead of a host that has yet to copy it. At rest no host has to copy, and the
// message is in the inbox or in a gap.
func (m *rehydration) wrong(s system) string {
	if what := m.wrongGaps(&s); what != "" {
		return what
	}
	horizon := m.horizon(&s, s.user)
	for i, c := range s.messages {
		if !c.stored() || m.void(&s, c) {
			continue
		}
		in := s.inbox&(1<<i) != 0
		if in && c.sent > horizon && !m.beyond() {
			return fmt.Sprintf("message %d is beyond the horizon and in the inbox", i)
		}
		if in && m.edges && c.sent < s.edge.since {
			return fmt.Sprintf("message %d is not for the user and in the inbox", i)
		}
		if in || c.sent > horizon || c.sent <= s.user.expired || !m.due(&s, c) || s.user.inGap(c.sent, maxGaps) {
			continue
		}
		switch {
		case !s.user.ahead(c.sent):
			return fmt.Sprintf("message %d is lost", i)
		case m.complete(s.user):
			return fmt.Sprintf("complete is a lie: message %d is missing", i)
		}
	}
	return ""
}

// due reports whether fan-out and the request that began to follow have done all that they will do with a message for the user.
func (m *rehydration) due(s *system, c canonical) bool {
	return c.place == handled && !c.held && s.edge.settled() && m.forUser(s.edge, s.edge.place, c) && !m.void(s, c)
}

// complete is what the user is told about the inbox.
func (m *rehydration) complete(r record) bool {
	return r.mark == none && (r.sweep == none || m.mutation == completeByMark)
}

// wrongGaps checks that no message of a gap is elsewhere, and that the gaps' numbers are right: never more than there are,
// and, when the inbox is complete, no fewer than fan-out has handled.
func (m *rehydration) wrongGaps(s *system) string {
	for i, g := range s.user.gaps {
		if g.after < s.user.expired && g.after < g.before-1 {
			return fmt.Sprintf("the gap %v holds what has expired", g)
		}
		stored, finished := int8(0), int8(0)
		for j, c := range s.messages {
			if !c.stored() || !g.holds(c.sent) || m.void(s, c) || !m.wasForUser(s.edge, c) {
				continue
			}
			if s.inbox&(1<<j) != 0 {
				return fmt.Sprintf("message %d is in the inbox and in a gap", j)
			}
			for _, other := range s.user.gaps[i+1:] {
				if other.holds(c.sent) {
					return fmt.Sprintf("message %d is in two gaps", j)
				}
			}
			stored++
			if m.due(s, c) {
				finished++
			}
		}
		if g.messages > stored || m.complete(s.user) && g.messages < finished {
			return fmt.Sprintf("the gap %v has %d messages", g, stored)
		}
	}
	return ""
}

// beyond tells that a mutation appends beyond the horizon. That is to show what it leads to.
func (m *rehydration) beyond() bool {
	switch m.mutation {
	case beyondHorizon, gapAboveInbox, horizonLowered, computedLowered:
		return true
	default:
		return false
	}
}

func (m *rehydration) stuck(s system) string {
	if m.over(s) {
		return ""
	}
	if s.user.mark != none || s.user.sweep != none {
		return "a rehydration has come to no end"
	}
	return ""
}

func (m *rehydration) show(s system) string {
	var b strings.Builder
	fmt.Fprintf(&b, "horizon %d", m.horizon(&s, s.user))
	if s.user.mark != none {
		fmt.Fprintf(&b, ", mark from %d", s.user.mark)
	}
	if s.user.sweep != none {
		fmt.Fprintf(&b, ", sweep from %d", s.user.sweep)
	}
	for _, gap := range s.user.gaps[:s.user.known()] {
		fmt.Fprintf(&b, ", gap %v", gap)
	}
	if m.edges {
		fmt.Fprintf(&b, ", edge %s", s.edge)
	}
	if m.quick {
		fmt.Fprintf(&b, ", ceiling %d", s.ceiling.stored)
	}
	b.WriteString("; messages")
	for i, c := range s.messages[:m.messages] {
		fmt.Fprintf(&b, " %s", [...]string{"unsent", "waiting", "named", "counting", "handled"}[c.place])
		if c.stored() {
			fmt.Fprintf(&b, "@%d", c.sent)
		}
		if c.held {
			b.WriteString("+held")
		}
		if s.inbox&(1<<i) != 0 {
			b.WriteString("+inbox")
		}
	}
	return b.String()
}
