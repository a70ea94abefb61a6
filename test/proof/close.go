package main

// closure models how topics are created, subscribed to and deleted, where a topic, its children and its subscriptions are records that cannot change
// together. Topic 0 is a root, topic 1 its child. A user subscribes to each of them.
//
// Each creation of a topic has a new number. A child has the number of the parent under which it was created, and is not in force until its
// creator, or any other process, has found after the insert that the parent still has this number. An open subscription has the number of the topic
// that its user has subscribed to. A number that is gone never comes back. So all that has such a number may be removed at any later time.
//
// A deletion marks the topic, looks for a child and an open subscription after that, and removes the topic if it still has the mark. A writer that
// creates a child or subscribes looks at the topic after its write, and removes a mark. If the topic with the number is gone, it undoes the write. A
// mark has a token, and stops only deletions.
//
// A writer that dies may leave a subscription with the number of a topic that is gone. If there is another topic, this is a subscription to it, which
// was late: lists show it, and it prevents a deletion.
//
// A write may come late (close_late.go).
type closure struct {
	mutation mutation

	child bool // there may be one; otherwise a root alone
	hosts int

	creates, deletes, subscribes, unsubscribes int8
	crashes                                    int8
	lates                                      int8
}

// closable is a state of closure.
type closable struct {
	topics [2]topicRecord
	edges  [2]topicEdge // of the user, to each topic
	hosts  [3]closer
	fault  closeFault
	late   lateWrite
	told   [2]bool // a list has shown the user that they are subscribed
	acked  [2]bool // the user's last request for a topic was a subscription, and was answered with 204

	creates, deletes, subscribes, unsubscribes, crashes, lates int8 // left
	crashed                                                    bool
}

// topicRecord is the record of a topic. Without a number it is not there.
type topicRecord struct {
	number  int8
	parent  int8 // the number of its parent
	inForce bool
	mark    int8 // the token of a deletion
}

// topicEdge is a subscription, or one that has ended.
type topicEdge struct {
	open   bool
	number int8
}

// closer is a host with a request.
type closer struct {
	phase   closePhase
	request closeRequest
	topic   int8
	number  int8 // of the topic, as it was read or inserted; for a subscription that is to be ended, the one that it has
	parent  int8 // of a child that is finished
	child   int8 // the number of a child that is finished
	mark    int8
}

type closeRequest uint8

const (
	idleRequest closeRequest = iota
	createTopic
	deleteTopic
	subscribeTopic
)

type closePhase uint8

const (
	closerFree closePhase = iota
	topicReads
	parentReads
	topicInserts
	childReads // the parent
	childUnmarks
	childConfirms
	childDrops
	subscriptionWrites
	subscriptionLooks
	subscriptionUnmarks
	subscriptionEnds
	topicMarks
	childrenSought
	subscriptionsSought
	subscriptionJudged
	topicRemoves
)

// closeFault is what a step has done wrong.
type closeFault uint8

const (
	closeSound closeFault = iota
	notSubscribed
	wronglyKept
	childUndone
	createdAgain
)

var closeFaults = [...]string{
	notSubscribed: "a subscription is answered with 204, and its topic is gone",
	wronglyKept:   "a deletion is answered with 409, and nothing needs the topic",
	childUndone:   "a topic in force is removed without a deletion",
	createdAgain:  "a topic is created again that has been created, and deleted",
}

func (m *closure) initial() []closable {
	s := closable{
		creates: m.creates, deletes: m.deletes, subscribes: m.subscribes, unsubscribes: m.unsubscribes, crashes: m.crashes, lates: m.lates,
	}
	s.topics[0] = topicRecord{number: 1, inForce: true}
	return []closable{s}
}

func (m *closure) next(s closable, yield func(event, closable)) {
	idle := false
	for i := range m.hosts {
		n := int8(i)
		if s.hosts[i].phase == closerFree {
			if !idle { // the others that are free are like this one
				m.begin(s, n, yield)
			}
			idle = true
			continue
		}
		if s.crashes > 0 {
			t := s
			t.crashes--
			t.crashed = true
			t.hosts[i] = closer{}
			if t.late.of != ofNothing && t.late.host == n {
				t.late.host = noHost
			}
			yield(happened("host %d crashes", n), m.normal(t))
		}
		m.send(s, n, yield)
		t := s
		e := m.step(&t, n)
		m.after(&s, &t, n)
		yield(e, m.normal(t))
	}
	m.arrive(s, yield)
}

// begin lets a request begin.
func (m *closure) begin(s closable, n int8, yield func(event, closable)) {
	topics := int8(1)
	if m.child {
		topics = 2
	}
	for topic := range topics {
		ask := func(request closeRequest, left func(*closable) *int8, does string) {
			if *left(&s) > 0 {
				t := s
				*left(&t)--
				t.hosts[n] = closer{phase: topicReads, request: request, topic: topic}
				t.told[topic] = t.told[topic] && request != subscribeTopic
				yield(happened(does, n, topic), m.normal(t))
			}
		}
		ask(createTopic, func(s *closable) *int8 { return &s.creates }, "host %d begins to create topic %d")
		ask(deleteTopic, func(s *closable) *int8 { return &s.deletes }, "host %d begins to delete topic %d")
		ask(subscribeTopic, func(s *closable) *int8 { return &s.subscribes }, "host %d begins to subscribe to topic %d")
		if t := s; s.unsubscribes > 0 && s.edges[topic].open {
			t.unsubscribes--
			t.edges[topic], t.acked[topic], t.told[topic] = topicEdge{}, false, false
			m.after(&s, &t, n)
			yield(happened("the user unsubscribes from topic %d", topic), m.normal(t))
		}
	}
}

// step does the next step of a request.
func (m *closure) step(s *closable, n int8) event {
	h := &s.hosts[n]
	topic := &s.topics[h.topic]
	switch h.phase {
	case topicReads:
		m.read(s, h)
		return happened("host %d reads the topic, with number %d", n, topic.number)
	case parentReads, topicInserts:
		return m.create(s, n)
	case childReads, childUnmarks, childConfirms, childDrops:
		return m.finish(s, n)
	case subscriptionWrites, subscriptionLooks, subscriptionUnmarks, subscriptionEnds:
		return m.subscribe(s, n)
	case topicMarks:
		h.phase = topicReads
		if topic.number == h.number && topic.mark == 0 {
			topic.mark = s.fresh()
			if h.mark, h.phase = topic.mark, childrenSought; m.mutation == soughtFirst {
				h.phase = topicRemoves
			}
		}
		return happened("host %d marks the topic", n)
	case childrenSought:
		m.seekChild(s, h)
		return happened("host %d looks for a child", n)
	case subscriptionsSought:
		m.seekSubscription(s, h)
		return happened("host %d looks for an open subscription", n)
	case subscriptionJudged: // of a mutation
		if h.phase = subscriptionEnds; topic.number == h.number {
			*h = closer{} // 409
		}
		return happened("host %d reads the topic, with number %d, after the subscription", n, topic.number)
	default:
		marked := topic.mark == h.mark
		switch m.mutation {
		case unmarkedRemoved:
			marked = true
		case markWithoutToken:
			marked = topic.mark != 0
		default:
		}
		if h.phase = topicReads; topic.number == h.number && marked {
			*topic, *h = topicRecord{}, closer{}
		}
		return happened("host %d removes the topic if it has the mark", n)
	}
}

// read is the first step of a request, and the one with which it begins again.
func (m *closure) read(s *closable, h *closer) {
	topic := s.topics[h.topic]
	h.number, h.mark = topic.number, topic.mark
	switch {
	case topic.number == 0 && h.request != createTopic:
		*h = closer{} // 422, or 204 of a deletion
	case topic.number == 0 && h.topic == 0:
		h.phase = topicInserts
	case topic.number == 0:
		h.phase = parentReads
	case !topic.inForce:
		h.phase, h.child, h.parent = childReads, topic.number, topic.parent
	case h.request == createTopic:
		*h = closer{} // 204
	case h.request == subscribeTopic:
		h.phase = subscriptionWrites
	case topic.mark != 0 || m.mutation == soughtFirst:
		h.phase = childrenSought
	default:
		h.phase = topicMarks
	}
}

// create does the steps of a creation before a child is finished.
func (m *closure) create(s *closable, n int8) event {
	h := &s.hosts[n]
	if h.phase == parentReads {
		if h.phase, h.parent = topicInserts, s.topics[0].number; h.parent == 0 {
			*h = closer{} // 422
		}
		return happened("host %d reads the parent", n)
	}
	topic := &s.topics[h.topic]
	if topic.number != 0 {
		h.phase = topicReads
		return happened("host %d finds the topic", n)
	}
	*topic = topicRecord{number: s.fresh(), parent: h.parent, inForce: h.topic == 0 || m.mutation == childAtOnce}
	if m.mutation == numberKept {
		topic.number = h.topic + 1
	}
	if h.phase, h.child = childReads, topic.number; h.topic == 0 {
		*h = closer{} // 201
	}
	return happened("host %d inserts the topic", n)
}

// finish puts a child in force, or removes it. Then the request begins again.
func (m *closure) finish(s *closable, n int8) event {
	h := &s.hosts[n]
	parent, child := &s.topics[0], &s.topics[1]
	switch h.phase {
	case childReads:
		h.mark = parent.mark
		switch {
		case parent.number != h.parent && m.mutation != parentUnseen:
			h.phase = childDrops
		case parent.mark != 0 && m.mutation != parentMarkIgnored:
			h.phase = childUnmarks
		default:
			h.phase = childConfirms
		}
		return happened("host %d looks at the parent of child %d, which has number %d", n, h.child, parent.number)
	case childUnmarks:
		if h.phase = childReads; parent.number == h.parent && parent.mark == h.mark {
			parent.mark, h.phase = 0, childConfirms
		}
		return happened("host %d removes the mark of the parent", n)
	case childConfirms:
		if child.number == h.child {
			child.inForce = true
		}
		h.phase = topicReads
		return happened("host %d puts child %d in force", n, h.child)
	default:
		if child.number == h.child && !child.inForce || m.mutation == childUncompared || m.mutation == childAtOnce && child.number == h.child {
			if child.inForce && m.mutation != childAtOnce {
				s.fault = childUndone
			}
			*child = topicRecord{}
		}
		h.phase = topicReads
		return happened("host %d removes child %d", n, h.child)
	}
}

// subscribe does the steps of a subscription, and the last one of a deletion that ends one.
func (m *closure) subscribe(s *closable, n int8) event {
	h := &s.hosts[n]
	topic, edge := &s.topics[h.topic], &s.edges[h.topic]
	switch h.phase {
	case subscriptionWrites:
		h.phase = subscriptionLooks
		switch {
		case !edge.open:
			*edge = topicEdge{true, h.number}
		case m.mutation == olderEnded && edge.number != h.number:
			h.phase, h.number = subscriptionEnds, edge.number
		case m.mutation != olderShared:
			h.number = edge.number
		default:
		}
		if m.mutation == lookBefore {
			m.subscribed(s, h)
		}
		return happened("host %d has the user subscribed, with number %d", n, edge.number)
	case subscriptionLooks:
		h.mark = topic.mark
		switch {
		case topic.number != h.number:
			h.phase = subscriptionEnds
		case topic.mark != 0 && m.mutation != markIgnored:
			h.phase = subscriptionUnmarks
		default:
			m.subscribed(s, h)
		}
		return happened("host %d looks at the topic, which has number %d", n, topic.number)
	case subscriptionUnmarks:
		if h.phase = subscriptionLooks; topic.number == h.number && topic.mark == h.mark {
			topic.mark = 0
			m.subscribed(s, h)
		}
		return happened("host %d removes the mark", n)
	default:
		if edge.number == h.number || m.mutation == endUncompared {
			*edge = topicEdge{}
		}
		h.phase = topicReads
		return happened("host %d ends the subscription with number %d", n, h.number)
	}
}

// subscribed answers a subscription with 204. A user who has unsubscribed meanwhile is owed nothing.
func (m *closure) subscribed(s *closable, h *closer) {
	topic, edge := s.topics[h.topic], s.edges[h.topic]
	if !topic.inForce {
		s.fault = notSubscribed
	}
	if edge.open && (edge.number == topic.number || m.mutation == olderShared) {
		s.acked[h.topic] = true
	}
	*h = closer{}
}

// seekChild looks for a child of a topic that is to be deleted.
func (m *closure) seekChild(s *closable, h *closer) {
	child := s.topics[1]
	switch {
	case h.topic == 1 || child.number == 0:
		h.phase = subscriptionsSought
	case child.inForce:
		*h = closer{} // 409
	case m.mutation == unfinishedKept:
		s.fault = wronglyKept
	default:
		h.phase, h.child, h.parent = childReads, child.number, child.parent
	}
}

// seekSubscription looks for an open subscription to a topic that is to be deleted.
func (m *closure) seekSubscription(s *closable, h *closer) {
	edge := s.edges[h.topic]
	switch {
	case !edge.open && m.mutation == soughtFirst:
		h.phase = topicMarks
	case !edge.open:
		h.phase = topicRemoves
	case m.mutation == leftoverEnded:
		h.phase, h.number = subscriptionJudged, edge.number
	default:
		*h = closer{} // 409
	}
}
