package main

// Late writes. A server may carry out a write after its caller has given it up, and also the next attempt. So a write applies at any later
// time if its filter matches, and once more than its caller knows.
//
// A filter names the revision of its record, which each write raises. The revision stays when the topic is removed. So a late write applies only
// if its record was not written since the caller read it.

// lateWrite is a write that has not come to its server yet. One of nothing is none.
type lateWrite struct {
	of       lateKind
	topic    int8
	host     int8 // that sent it, or noHost if that has crashed
	answered bool // the host has created the topic by another write since

	from, to         topicRecord
	fromEdge, toEdge topicEdge
}

const noHost = int8(-1)

type lateKind uint8

const (
	ofNothing lateKind = iota
	ofTopic
	ofEdge
)

// after forgets a late write whose record a step has written, and notes which creation the step of a host has answered.
func (m *closure) after(was, now *closable, n int8) {
	late := &now.late
	if late.of != ofNothing && late.host == n && now.hosts[n].phase == closerFree && now.topics[late.topic].inForce {
		late.answered = true
	}
	written := now.edges[late.topic] != was.edges[late.topic]
	if late.of == ofTopic {
		written = now.topics[late.topic] != was.topics[late.topic]
	}
	inserts := late.of == ofTopic && late.from.number == 0
	switch {
	case !written:
	case late.of == ofTopic && m.mutation == noRevision:
	case inserts && m.mutation == revisionRemoved:
	default:
		*late = lateWrite{}
	}
}

// sends returns the write that a host does next, if it matches.
func (m *closure) sends(s *closable, n int8) (w lateWrite, matches bool) {
	h := s.hosts[n]
	w = lateWrite{of: ofTopic, topic: h.topic, host: n}
	switch h.phase {
	case childUnmarks:
		w.topic = 0
	case childConfirms, childDrops:
		w.topic = 1
	case subscriptionWrites, subscriptionEnds:
		w.of, w.fromEdge = ofEdge, s.edges[h.topic]
		if h.phase == subscriptionWrites {
			w.toEdge = topicEdge{true, h.number}
			return w, !w.fromEdge.open
		}
		return w, w.fromEdge == topicEdge{true, h.number}
	default:
	}
	w.from = s.topics[w.topic]
	w.to = w.from
	switch h.phase {
	case topicInserts:
		w.to = topicRecord{number: s.fresh(), parent: h.parent, inForce: h.topic == 0}
		matches = w.from.number == 0
	case childUnmarks, subscriptionUnmarks:
		w.to.mark = 0
		number := h.number
		if h.phase == childUnmarks {
			number = h.parent
		}
		matches = w.from.number == number && w.from.mark == h.mark
	case childConfirms:
		w.to.inForce = true
		matches = w.from.number == h.child && !w.from.inForce
	case childDrops:
		w.to = topicRecord{}
		matches = w.from.number == h.child && !w.from.inForce
	case topicMarks:
		w.to.mark = s.fresh()
		matches = w.from.number == h.number && w.from.mark == 0
	case topicRemoves:
		w.to = topicRecord{}
		matches = w.from.number == h.number && w.from.mark == h.mark
	default:
	}
	return w, matches
}

// send lets the next write of a host be late. The host takes it for refused, or another attempt applies at once.
func (m *closure) send(s closable, n int8, yield func(event, closable)) {
	if s.lates == 0 || s.late.of != ofNothing {
		return
	}
	w, matches := m.sends(&s, n)
	if !matches {
		return
	}
	s.lates--
	s.crashed = true // something may be left
	s.late = w
	t := s
	switch h := &t.hosts[n]; h.phase {
	case childUnmarks:
		h.phase = childReads
	case subscriptionWrites:
	case subscriptionUnmarks:
		h.phase = subscriptionLooks
	default:
		h.phase = topicReads
	}
	yield(happened("host %d writes, and the write is late", n), m.normal(t))
	if m.mutation != noRevision && m.mutation != revisionRemoved {
		return // the first attempt is refused
	}
	t = s
	t.late = lateWrite{}
	m.step(&t, n)
	t.late = w
	m.after(&t, &t, n)
	yield(happened("host %d writes, and a first attempt of it is late", n), m.normal(t))
}

// arrive lets the late write come to its server.
func (m *closure) arrive(s closable, yield func(event, closable)) {
	w := s.late
	s.late = lateWrite{}
	switch {
	case w.of == ofNothing:
		return
	case w.of == ofTopic && s.topics[w.topic] == w.from:
		s.topics[w.topic] = w.to
		if w.answered && w.from.number == 0 {
			s.fault = createdAgain
		}
	case w.of == ofEdge && s.edges[w.topic] == w.fromEdge:
		s.edges[w.topic] = w.toEdge
	default:
		return
	}
	yield(happened("the write of host %d to topic %d, or to its subscription, comes late", w.host, w.topic), m.normal(s))
}
