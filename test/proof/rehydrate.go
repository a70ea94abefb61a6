package main

import (
	"fmt"
	"strings"
)

// rehydration is the protocol by which a user who was away gets what they missed: one user, their messages, a fan-out
// whose workers stall, repeat and crash, logins, and rehydrators that stall, crash and take over from each other.
//
// Time is a small integer. Each reading of a clock may be ahead of it by up to apart. So two readings at one time
// differ by at most apart, which is half of the tolerance. Leases have no times: a host may take one over at any moment,
// because only speed may depend on leases.
type rehydration struct {
	mutation mutation

	messages int
	end      int8 // time stands still at the end
	dormant  int8 // dormant_after
	slack    int8 // publish_slack
	limit    int  // rehydrate.limit; 0 for none

	// late is how long a reading of a clock may take to have its effect: the store's stamp on a message or an edge until
	// that is visible, and a host's until its update of the record. The protocol allows half of the tolerance.
	late int8

	viewed []int8 // when the user last looked before the model starts; 0 for never
	begin  int8   // the time in the beginning
	marked bool   // the model starts with a mark, from the horizon, of a crashed host
	past   int8   // how far back the views that PUT last_viewed records may lie, at most
	stalls bool   // between finding messages and appending them, too
	edges  bool   // messages are for followers, and the user begins and ceases to follow

	// How often what can go wrong, or come from outside, does so in a run.
	logins, crashes, takeovers, repeats int8
}

const (
	tolerance = 2
	apart     = tolerance / 2
	none      = -1 // no such time
)

const (
	maxMessages = 3
	maxGaps     = 3
)

// system is a state of a rehydration.
type system struct {
	now      int8
	messages [maxMessages]canonical
	inbox    uint8 // the messages that are in a bucket, a bit each
	user     record
	stale    record // what a secondary answers, where reads are allowed to be stale
	edge     edge
	hosts    [2]rehydrator

	logins, crashes, takeovers, repeats int8 // left
}

// canonical is a message.
type canonical struct {
	place place
	sent  int8
	held  bool // a worker has decided to append it and has not done so yet
}

// place is where a message is on its way.
type place uint8

const (
	unsent  place = iota
	waiting       // it is stored, its task waits for a worker
	named         // a worker has found the user in its audience, and has yet to read their record
	handled       // a worker has decided what to do with it
)

func (c canonical) stored() bool { return c.place != unsent }

func (m *rehydration) initial() []system {
	var states []system
	for _, viewed := range m.viewed {
		s := system{now: m.begin, logins: m.logins, crashes: m.crashes, takeovers: m.takeovers, repeats: m.repeats}
		s.user = record{viewed: viewed, mark: none, sweep: none, holder: nobody}
		if m.marked {
			s.user.mark, s.user.holder = m.horizon(s.user), dead
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
	m.wait(s, yield)
	m.publish(s, yield)
	m.fanOut(s, yield)
	m.login(s, yield)
	for i := range s.hosts {
		m.host(s, int8(i), yield)
	}
	if m.edges {
		m.follow(s, yield)
	}
	if m.mutation == staleRead && s.stale != s.user {
		t := s
		t.stale = s.user
		yield(happened("the secondary catches up"), t)
	}
}

// over tells that nothing can be wrong with s any more: the only message is in the inbox, where nothing removes it, and
// there are no gaps.
func (m *rehydration) over(s system) bool { return m.messages == 1 && m.limit == 0 && s.inbox != 0 }

// wait lets time pass.
func (m *rehydration) wait(s system, yield func(event, system)) {
	if s.now < m.end {
		s.now++
		yield(happened("time goes on to %d", s.now), s)
	}
}

// publish stores messages. When a message got its id and its time does not show before it is stored, so that both are one
// step, with any time that was possible. What is stored too late is void, which is as if it had never been.
func (m *rehydration) publish(s system, yield func(event, system)) {
	for i, c := range s.messages[:m.messages] {
		if c.stored() {
			continue
		}
		for sent := m.earliest(s.now); sent <= s.now+apart; sent++ {
			t := s
			t.messages[i] = canonical{place: waiting, sent: sent}
			yield(happened("message %d is stored, sent %d", int8(i), sent), t)
		}
		return
	}
}

// earliest returns the earliest time of what may become visible now. Where it has a time of its own and the store stamps
// it, the stamp is at most slack after that time; and the stamp is at most late before it is visible.
func (m *rehydration) earliest(now int8) int8 {
	switch m.mutation {
	case noVoid:
		return m.begin
	case lateStamp:
		now--
	default:
	}
	return max(now-m.late-m.slack, 1)
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
			} else if t.messages[i].place = handled; m.forUser(s.edge, s.edge.place, c) {
				t.messages[i].place = named
				yield(happened("a worker finds the user in the audience of message %d", n), t)
			} else {
				yield(happened("a worker finds that message %d is not for the user", n), t)
			}
		case named:
			m.decide(s, n, yield)
		case handled:
			if s.repeats > 0 {
				t.repeats--
				t.messages[i].place = waiting
				yield(happened("the task of message %d is delivered again", n), t)
			}
		}
		if c.held {
			t := s
			t.messages[i].held = false
			if s.repeats > 0 && c.place == handled {
				t.repeats--
				t.messages[i].place = waiting
				yield(happened("the worker with message %d crashes, its task is delivered again", n), t)
				t = s
				t.messages[i].held = false
			}
			t.inbox |= 1 << i
			yield(happened("a worker appends message %d", n), t)
		}
	}
}

func (m *rehydration) decide(s system, n int8, yield func(event, system)) {
	t := s
	c := &t.messages[n]
	c.place = handled
	user := s.user
	if m.mutation == staleRead {
		user = s.stale
	}
	if !m.deliver(user, c.sent, s.now) {
		yield(happened("a worker reads the record, and leaves message %d to rehydration", n), t)
		return
	}
	if !m.stalls {
		t.inbox |= 1 << n
		yield(happened("a worker reads the record and appends message %d", n), t)
		return
	}
	c.held = true
	yield(happened("a worker reads the record, and will append message %d", n), t)
}

// wrong checks what must hold at any moment. Its last check is that nothing is lost: a message that fan-out has
// finished is in the inbox, in a gap, or ahead of a host that has yet to copy it. At rest no host has to copy, and the
// message is in the inbox or in a gap.
func (m *rehydration) wrong(s system) string {
	for i, gap := range s.user.gaps {
		count := int8(0)
		for j, c := range s.messages {
			in := c.stored() && gap.holds(c.sent) && m.forUser(s.edge, s.edge.place, c)
			switch {
			case !in:
				continue
			case s.inbox&(1<<j) != 0:
				return fmt.Sprintf("message %d is in the inbox and in a gap", j)
			}
			count++
			for _, other := range s.user.gaps[i+1:] {
				if other.holds(c.sent) {
					return fmt.Sprintf("message %d is in two gaps", j)
				}
			}
		}
		if count != gap.messages {
			return fmt.Sprintf("the gap %v has %d messages", gap, count)
		}
	}
	horizon := m.horizon(s.user)
	for i, c := range s.messages {
		if !c.stored() {
			continue
		}
		in := s.inbox&(1<<i) != 0
		if in && c.sent > horizon && !m.beyond() {
			return fmt.Sprintf("message %d is beyond the horizon and in the inbox", i)
		}
		if in && m.edges && c.sent < s.edge.since {
			return fmt.Sprintf("message %d is not for the user and in the inbox", i)
		}
		due := c.place == handled && !c.held && c.sent <= horizon && s.edge.settled() && m.forUser(s.edge, s.edge.place, c)
		if due && !in && !s.user.inGap(c.sent, maxGaps) && !s.user.ahead(c.sent) {
			return fmt.Sprintf("message %d is lost", i)
		}
	}
	return ""
}

// beyond tells that a mutation appends beyond the horizon. That is to show what it leads to.
func (m *rehydration) beyond() bool {
	return m.mutation == workersNow || m.mutation == beyondHorizon || m.mutation == gapAboveInbox
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
	fmt.Fprintf(&b, "now %d, viewed %d, horizon %d", s.now, s.user.viewed, m.horizon(s.user))
	if s.user.mark != none {
		fmt.Fprintf(&b, ", mark from %d", s.user.mark)
	}
	if s.user.sweep != none {
		fmt.Fprintf(&b, ", sweep from %d", s.user.sweep)
	}
	for _, gap := range s.user.gaps {
		if gap.messages > 0 {
			fmt.Fprintf(&b, ", gap %v", gap)
		}
	}
	if m.edges {
		fmt.Fprintf(&b, ", edge %s", s.edge)
	}
	b.WriteString("; messages")
	for i, c := range s.messages[:m.messages] {
		fmt.Fprintf(&b, " %s", [...]string{"unsent", "waiting", "named", "handled"}[c.place])
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
