package main

import "fmt"

// fresh returns a number or a token that nothing has.
func (s *closable) fresh() int8 {
	number := int8(2) // the shortcut has 1 and 2 for the topics
	s.numbers(func(n *int8) { number = max(number, *n) })
	return number + 1
}

// numbers visits each number and token of a state, in an order that depends only on what has it.
func (s *closable) numbers(visit func(*int8)) {
	for i := range s.topics {
		t := &s.topics[i]
		visit(&t.number)
		visit(&t.parent)
		visit(&t.mark)
		visit(&s.edges[i].number)
	}
	for i := range s.hosts {
		h := &s.hosts[i]
		visit(&h.number)
		visit(&h.parent)
		visit(&h.child)
		visit(&h.mark)
	}
	for _, t := range []*topicRecord{&s.late.from, &s.late.to} {
		visit(&t.number)
		visit(&t.parent)
		visit(&t.mark)
	}
	visit(&s.late.fromEdge.number)
	visit(&s.late.toEdge.number)
}

// normal forgets what a host does not use any more, and gives each number and token the place of its first occurrence.
func (m *closure) normal(s closable) closable {
	for i := range s.hosts {
		h := &s.hosts[i]
		was := *h
		switch h.phase {
		case topicReads, parentReads:
			*h = closer{}
		case topicInserts:
			*h = closer{parent: was.parent}
		case childReads, childConfirms, childDrops:
			*h = closer{parent: was.parent, child: was.child}
		case childUnmarks:
			*h = closer{parent: was.parent, child: was.child, mark: was.mark}
		case subscriptionWrites, subscriptionLooks, subscriptionEnds, subscriptionJudged:
			*h = closer{number: was.number}
		case topicMarks:
			*h = closer{number: was.number}
		default:
			*h = closer{number: was.number, mark: was.mark}
		}
		h.phase, h.request, h.topic = was.phase, was.request, was.topic
	}
	if s.late.of == ofNothing && s.resting() {
		for i, e := range s.edges {
			s.told[i] = s.told[i] || e.open && s.topics[i].inForce
		}
	}
	var names [64]int8
	next := int8(0)
	if m.mutation == numberKept {
		names[1], names[2], next = 1, 2, 2
	}
	s.numbers(func(n *int8) {
		if *n == 0 {
			return
		}
		if names[*n] == 0 {
			next++
			names[*n] = next
		}
		*n = names[*n]
	})
	return s
}

func (m *closure) wrong(s closable) string {
	if s.fault != closeSound {
		return closeFaults[s.fault]
	}
	if problem := m.unfounded(&s); problem != "" {
		return problem
	}
	if !s.resting() {
		return ""
	}
	if !s.crashed {
		return m.leftOver(&s)
	}
	m.finishAll(&s)
	return m.unfounded(&s)
}

// resting reports whether no request is under way.
func (s *closable) resting() bool {
	for i := range s.hosts {
		if s.hosts[i].phase != closerFree {
			return false
		}
	}
	return true
}

// unfounded finds what must not be in any state.
func (m *closure) unfounded(s *closable) string {
	if s.topics[1].inForce && (s.topics[0].number == 0 || s.topics[0].number != s.topics[1].parent) {
		return "a topic is in force, and its parent is gone"
	}
	for i, acked := range s.acked {
		switch {
		case acked && !s.topics[i].inForce:
			return fmt.Sprintf("the user is subscribed to topic %d, which is gone", i)
		case acked && !s.edges[i].open:
			return fmt.Sprintf("a subscription to topic %d is undone that was answered with 204", i)
		case s.told[i] && (!s.topics[i].inForce || !s.edges[i].open):
			return fmt.Sprintf("a subscription to topic %d was listed, and is gone", i)
		}
	}
	return ""
}

// leftOver finds what must not be left when no request is under way.
func (m *closure) leftOver(s *closable) string {
	if c := s.topics[1]; c.number != 0 && !c.inForce {
		return "a child is left that is not in force"
	}
	for i, e := range s.edges {
		if e.open && e.number != s.topics[i].number {
			return fmt.Sprintf("a subscription to topic %d is left, and the topic is not the one that it was for", i)
		}
	}
	return ""
}

// finishAll finishes what crashes have left, as a process does that finds it.
func (m *closure) finishAll(s *closable) {
	if child := &s.topics[1]; child.number != 0 && !child.inForce {
		if child.inForce = s.topics[0].number == child.parent; !child.inForce {
			*child = topicRecord{}
		}
	}
}

// stuck finds nothing: every state without a next step is at rest.
func (m *closure) stuck(closable) string { return "" }

func (m *closure) show(s closable) string {
	return fmt.Sprintf("topics %v, subscriptions %v, acknowledged %v, hosts %v", s.topics, s.edges, s.acked, s.hosts[:m.hosts])
}

func closeInstances() []instance {
	return []instance{
		{
			"close", "a topic; 2 deletions, a creation, 2 subscriptions, an end of one, a crash; 2 hosts", false,
			searchToTheEnd(&closure{hosts: 2, creates: 1, deletes: 2, subscribes: 2, unsubscribes: 1, crashes: 1}),
		},
		{
			"close-child", "a topic and its child; 3 creations, 2 deletions, a crash; 2 hosts", false,
			searchToTheEnd(&closure{child: true, hosts: 2, creates: 3, deletes: 2, crashes: 1}),
		},
		{
			"close-late", "as close, a late write", false,
			searchToTheEnd(&closure{hosts: 2, creates: 1, deletes: 2, subscribes: 2, unsubscribes: 1, crashes: 1, lates: 1}),
		},
		{
			"close-child-late", "as close-child, a late write", false,
			searchToTheEnd(&closure{child: true, hosts: 2, creates: 3, deletes: 2, crashes: 1, lates: 1}),
		},
		{
			"close-3-long", "as close, 3 hosts", true,
			search(&closure{hosts: 3, creates: 2, deletes: 2, subscribes: 3, unsubscribes: 1, crashes: 1}),
		},
		{
			"close-child-long", "as close-child, with subscriptions, 3 hosts", true,
			search(&closure{child: true, hosts: 3, creates: 3, deletes: 3, subscribes: 1, crashes: 1}),
		},
	}
}

func closeShortcuts() []shortcut {
	var all []shortcut
	closes := func(is mutation, name string, m closure) {
		m.mutation = is
		all = append(all, shortcut{is, name, search(&m)})
	}
	one := closure{hosts: 2, creates: 1, deletes: 2, subscribes: 2, unsubscribes: 1, crashes: 1}
	three := closure{hosts: 3, creates: 2, deletes: 2, subscribes: 3, unsubscribes: 1, crashes: 1}
	two := closure{child: true, hosts: 2, creates: 3, deletes: 2, crashes: 1}
	closes(lookBefore, "a subscriber looks at the topic before the write only", one)
	closes(markIgnored, "a subscriber does not look at the mark", one)
	closes(unmarkedRemoved, "remove a topic whether it is marked or not", one)
	closes(markWithoutToken, "a mark without a token", three)
	closes(soughtFirst, "look for subscriptions, and then mark", one)
	closes(endUncompared, "undo a subscription without comparing its number", three)
	closes(olderEnded, "end a subscription with another number at once", three)
	closes(olderShared, "take an open subscription with another number for one's own", three)
	closes(numberKept, "create a topic again with its number", three)
	closes(leftoverEnded, "delete a topic, and end a subscription with another number", three)
	closes(childAtOnce, "a child that is in force at once", two)
	closes(parentUnseen, "put a child in force without a look at the parent", two)
	closes(parentMarkIgnored, "put a child in force whose parent is marked", two)
	closes(childUncompared, "undo a child without comparing its number", two)
	closes(unfinishedKept, "keep a topic because of a child that is not in force", two)
	late := one
	late.lates, late.crashes = 1, 0
	closes(noRevision, "records without a revision, and a write that comes late", late)
	closes(revisionRemoved, "a revision that goes with the topic, and an insert that comes late", late)
	return all
}
