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
	caughtUp catchUp = iota
	listing          // query for the author's messages since the span began
	choosing         // read the edge and the user's record, and drop what is not to be delivered
	adding           // append the rest
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
	case !m.edges:
		return true
	case seen < open:
		return false
	default:
		return c.sent >= e.since && (seen < ended || c.sent < e.until)
	}
}

// follow lets the user begin to follow, and cease.
func (m *rehydration) follow(s system, yield func(event, system)) {
	t := s
	e := &t.edge
	switch s.edge.place {
	case absent:
		for clock := m.earliest(s.now); clock <= s.now+apart; clock++ {
			e.place, e.since, e.catchUp = open, clock, listing
			if m.mutation == edgeOnly {
				e.catchUp = caughtUp
			}
			yield(happened("the edge's span is visible, since %d", clock), t)
		}
	case open:
		for clock := max(m.earliest(s.now), s.edge.since); clock <= s.now+apart; clock++ {
			e.place, e.until = ended, clock
			yield(happened("the end of the edge's span is visible, at %d", clock), t)
		}
	case ended:
	}
	m.catchUp(s, yield)
}

func (m *rehydration) catchUp(s system, yield func(event, system)) {
	switch e := &s.edge; e.catchUp {
	case caughtUp:
	case listing:
		e.missed = m.find(s, func(c canonical) bool { return c.sent >= e.since })
		e.catchUp = choosing
		yield(happened("the follow finds messages %03b", int8(e.missed)), s)
	case choosing:
		e.missed &= m.find(s, func(c canonical) bool {
			return m.forUser(*e, e.place, c) && m.deliver(s.user, c.sent, s.now)
		})
		e.catchUp = adding
		if !m.stalls {
			s.inbox |= e.missed
			e.missed, e.catchUp = 0, caughtUp
		}
		yield(happened("the follow reads edge and record, and will append %03b", int8(e.missed)), s)
	case adding:
		s.inbox |= e.missed
		e.missed, e.catchUp = 0, caughtUp
		yield(happened("the follow appends"), s)
	}
}

// find returns the stored messages that are wanted, a bit each.
func (m *rehydration) find(s system, wanted func(canonical) bool) uint8 {
	found := uint8(0)
	for i, c := range s.messages[:m.messages] {
		if c.stored() && wanted(c) {
			found |= 1 << i
		}
	}
	return found
}
