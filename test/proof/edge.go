package main

import "fmt"

// edge is the user's edge to the author of the messages. It has one span.
type edge struct {
	place        stage
	since, until int8
	catchUp      catchUp
	missed       uint8 // the messages that catching up has found, a bit each
}

// stage is how far the edge's span is.
type stage uint8

const (
	absent stage = iota
	open         // its beginning is visible
	ended        // its end is visible too
)

// catchUp is what the host that began the span does next.
type catchUp uint8

const (
	caughtUp  catchUp = iota
	listing           // query for the author's messages since the span began
	choosing          // read the edge and the user's record, and drop what is not to be delivered
	adding            // append the rest
	abandoned         // nothing: it has crashed, and the user has yet to repeat the request
	again             // as listing, in the repeated request
)

// settled tells that the request that began the span has come to its end.
func (e edge) settled() bool { return e.place >= open && e.catchUp == caughtUp }

func (e edge) String() string {
	switch e.place {
	case absent:
		return "absent"
	case open:
		return fmt.Sprintf("open since %d", e.since)
	default:
		return fmt.Sprintf("held from %d until %d", e.since, e.until)
	}
}

// forUser reports whether a message is for the user, according to a reader that read the edge at a stage.
func (m *rehydration) forUser(e edge, seen stage, c canonical) bool {
	switch {
	case !m.edges || c.direct:
		return true
	case seen < open:
		return false
	default:
		return c.sent >= e.since && (seen < ended || c.sent < e.until)
	}
}

// wasForUser reports whether a message was for the user at some time. An end of the span may lie before it.
func (m *rehydration) wasForUser(e edge, c canonical) bool {
	return m.forUser(e, min(e.place, open), c)
}

// follow lets the user begin to follow, and cease, at any time.
func (m *rehydration) follow(s system, yield func(event, system)) {
	t := s
	e := &t.edge
	switch s.edge.place {
	case absent:
		for clock := int8(1); clock <= m.top; clock++ {
			e.place, e.since, e.catchUp = open, clock, listing
			if m.mutation == edgeOnly {
				e.catchUp = caughtUp
			}
			yield(happened("the edge's span is visible, since %d", clock), t)
		}
	case open:
		for clock := s.edge.since; clock <= m.top; clock++ {
			e.place, e.until = ended, clock
			yield(happened("the end of the edge's span is visible, at %d", clock), t)
		}
	case ended:
	}
	m.catchUp(s, yield)
}

func (m *rehydration) catchUp(s system, yield func(event, system)) {
	e := &s.edge
	if s.crashes > 0 && e.catchUp != caughtUp && e.catchUp != abandoned {
		t := s
		t.crashes--
		t.edge.missed, t.edge.catchUp = 0, abandoned
		yield(happened("the host of the follow crashes"), t)
	}
	switch e.catchUp {
	case caughtUp:
	case abandoned:
		e.catchUp = again
		yield(happened("the user repeats the follow"), s)
	case listing, again:
		soon := m.mutation == repeatedBriefly && e.catchUp == again
		e.missed = m.find(s, func(c canonical) bool { return c.sent >= e.since && (!soon || c.sent == e.since) })
		e.catchUp = choosing
		yield(happened("the follow finds messages %03b", int8(e.missed)), s)
	case choosing:
		m.choose(s, yield)
	case adding:
		s.inbox |= e.missed
		e.missed, e.catchUp = 0, caughtUp
		yield(happened("the follow appends"), s)
	}
}

// choose lets the follow do with its messages as fan-out does. One update adds the debt of all that are in gaps.
func (m *rehydration) choose(s system, yield func(event, system)) {
	e := &s.edge
	var into [gapped + 1]uint8
	for i, c := range s.messages {
		if e.missed&(1<<i) != 0 && m.forUser(*e, e.place, c) {
			into[m.deliver(s.user, m.horizon(&s, s.user), c.sent)] |= 1 << i
		}
	}
	e.missed, e.catchUp = into[copied], adding
	if !m.stalls || e.missed == 0 {
		s.inbox |= e.missed
		e.missed, e.catchUp = 0, caughtUp
	}
	if into[gapped] == 0 || m.mutation == noDebtByFollow {
		yield(happened("the follow reads edge and record, and will append %03b", int8(into[copied])), s)
		return
	}
	lowest := s.messages[m.oldest(&s, into[gapped])] // its gap is the lowest
	for _, owing := range m.owe(s.user, lowest.sent) {
		s.user = owing
		yield(happened("the follow owes a sweep, and will append %03b", int8(into[copied])), m.normal(s))
	}
}

// find returns the stored messages that are wanted, a bit each.
func (m *rehydration) find(s system, wanted func(canonical) bool) uint8 {
	found := uint8(0)
	for i, c := range s.messages[:m.messages] {
		if c.stored() && !m.void(&s, c) && wanted(c) {
			found |= 1 << i
		}
	}
	return found
}
