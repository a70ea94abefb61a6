package main

import "fmt"

// streaming models the live stream of an inbox. Writers change the inbox of flagging, each in one atomic step. A server reads it piece by piece,
// from a cursor on, and sends frames. A client has what frames and pages tell, and computes nothing.
type streaming struct {
	mutation mutation
	box      flagging // the inbox, and what happens to it

	newest     int8 // buckets below the cursor of which frames have states
	most       int8 // new messages in a frame
	tombstones int8 // in a frame
	byMark     bool // states may have changed if the read mark or the gaps have, not if only more is seen

	crashes, breaks, pages int8
	look, page             []piece // what is read, one after the other
}

// streamed is a state of streaming.
type streamed struct {
	inbox       flagged
	flags       flagNumbers
	gaps, marks int8 // gaps that were made, and changes of the read mark, of what is seen, and of the numbers of gaps
	epoch       int8

	look, page streamReader
	client     streamClient

	crashes, breaks, pages int8 // left
}

// flagNumbers says which changes of the record of flags were the last ones: of all, of a message in a gap, one after which a bucket or a message
// had no flags any more, and those of each bucket with flags.
type flagNumbers struct {
	last, messages, dropped int8
	at                      [maxSlots]int8
}

func (m *streaming) initial() (all []streamed) {
	for _, inbox := range m.box.initial() {
		all = append(all, streamed{inbox: inbox, epoch: 1, client: streamClient{first: true}, crashes: m.crashes, breaks: m.breaks, pages: m.pages})
	}
	return all
}

func (m *streaming) next(s streamed, yield func(event, streamed)) {
	write := func(e event, inbox flagged) {
		t := s
		t.inbox = inbox
		m.number(&s, &t)
		yield(e, t)
	}
	m.box.surround(s.inbox, func(e event, inbox flagged) {
		if inbox.user.flagged = s.inbox.user.flagged; inbox.maps == s.inbox.maps { // flags of what has expired may stay
			write(e, inbox)
		}
	})
	m.operate(s.inbox, write)
	m.crash(s, yield)
	m.serve(s, yield)
	m.fetch(s, yield)
	if t := s; s.breaks > 0 && !s.client.first {
		t.breaks--
		if t.look, t.client.first = (streamReader{}), true; m.mutation == owedUntilBreak {
			t.client.owes = false
		}
		yield(happened("the stream breaks"), t)
	}
}

// operate yields the steps of requests. They wait for a rehydration.
func (m *streaming) operate(s flagged, yield func(event, flagged)) {
	if s.operations == 0 || s.user.rebuilding {
		return
	}
	s.operations--
	there := m.box.states(&s).there
	for _, kind := range m.box.kinds {
		if t := s; kind == markSeen {
			if t.user.seen = t.slots(); t.user.seen > s.user.seen {
				yield(happened("all is seen"), t)
			}
			continue
		}
		for id := int8(1); id <= m.box.messages; id++ {
			t, c := s, flagClient{kind: kind, id: id, at: s.slotOf(id), slots: noLimit, end: noLimit, fresh: true}
			switch {
			case kind == markUpTo:
				m.box.readUser(&t, &c)
				m.box.readBuckets(&t, &c)
				each := c.each
				if c.phase != clientStore {
					t.user.flagged, c.fresh = true, true
					m.box.write(&t, &c)
				}
				if !each && t.maps == s.maps { // otherwise the mark is another step
					m.box.store(&t, &c)
				}
			case there.has(id):
				t.user.flagged = true
				m.box.write(&t, &c)
			}
			if t.maps != s.maps || t.user.mark != s.user.mark {
				yield(happened("a request does %d to %d", int8(kind), id), t)
			}
		}
	}
}

// number raises the numbers that a step changes.
func (m *streaming) number(s, t *streamed) {
	was, is := &s.inbox, &t.inbox
	made := is.user.gapsNow() > was.user.gapsNow()
	if made {
		t.gaps++
	}
	if is.user.seen != was.user.seen || is.user.expired == was.user.expired && is.user.mark != was.user.mark ||
		is.user.counted&^was.user.counted != 0 && !made && m.mutation != recountUnnumbered {
		t.marks++
	}
	if is.maps == was.maps {
		return
	}
	n := &t.flags
	n.last++
	for b := range int8(maxSlots) {
		bits := ids(1<<m.box.capacity-1) << (b * m.box.capacity)
		switch before, now := was.maps.in(bits), is.maps.in(bits); {
		case before == now:
		case now == flagMaps{}:
			n.at[b], n.dropped = 0, n.last
		default:
			n.at[b] = n.last
		}
	}
	if before, now := was.maps.byID(), is.maps.byID(); before != now {
		if n.messages = n.last; before.any()&^now.any() != 0 {
			n.dropped = n.last
		}
	}
	if m.mutation == emptyFlagsRemoved && is.maps == (flagMaps{}) {
		*n = flagNumbers{}
	}
}

// in returns the flags of slots.
func (f flagMaps) in(slots ids) flagMaps {
	return flagMaps{flagBits{slots: f.read.slots & slots}, flagBits{slots: f.unread.slots & slots}, flagBits{slots: f.archived.slots & slots}}
}

// byID returns the flags of messages in gaps.
func (f flagMaps) byID() flagMaps {
	return flagMaps{flagBits{byID: f.read.byID}, flagBits{byID: f.unread.byID}, flagBits{byID: f.archived.byID}}
}

// any returns the messages in gaps that have a flag.
func (f flagMaps) any() ids { return f.read.byID | f.unread.byID | f.archived.byID }

// crash lets an embedded store lose the newest slot, which may have been shown. Messages then arrive again, in any order.
func (m *streaming) crash(s streamed, yield func(event, streamed)) {
	at := s.inbox.slots() - 1
	u, id := &s.inbox.user, s.inbox.at[max(at, 0)]
	if s.crashes == 0 || at < 0 || max(u.seen, u.mark.slots) > at || s.inbox.dead.has(at) || s.inbox.maps.in(1<<at) != (flagMaps{}) ||
		s.inbox.stubs.has(at/m.box.capacity) || m.box.away.ids().has(id) {
		return
	}
	s.crashes--
	s.inbox.at[at] = 0
	s.inbox.visible &^= 1 << id
	s.client.first = true
	for _, r := range [...]*streamReader{&s.look, &s.page} {
		if r.step != arriving {
			*r = streamReader{}
		}
	}
	if m.mutation != epochStays {
		s.epoch++
	}
	yield(happened("the process crashes, and slot %d is lost", at), s)
}

// wrong lets the server and the client go on alone, if neither is reading, and compares what the client shows then.
func (m *streaming) wrong(s streamed) string {
	if s.look.step != 0 || s.page.step != 0 {
		return ""
	}
	for steps := 0; ; steps++ {
		if s.look = (streamReader{}); steps == 20 {
			return "the client comes to no end"
		}
		if m.lookAtOnce(&s) {
			m.take(&s)
			continue
		}
		if !s.client.owes {
			break
		}
		m.readAtOnce(&s, &s.page, m.page)
		m.sendPage(&s)
		m.takePage(&s)
	}
	is, c := m.box.states(&s.inbox), &s.client
	may := is.there | m.box.missing(&s.inbox) | s.inbox.visible&s.inbox.user.inGaps()&^s.inbox.idsOf(s.inbox.dead)
	switch {
	case is.there&^c.has.there != 0:
		return fmt.Sprintf("the client does not show {%v}", is.there&^c.has.there)
	case c.has.there&^may != 0:
		return fmt.Sprintf("the client shows {%v}", c.has.there&^may)
	case (c.has.read^is.read)&is.there != 0:
		return fmt.Sprintf("the client has another state of {%v}: read", (c.has.read^is.read)&is.there)
	case (c.has.archived^is.archived)&is.there != 0:
		return fmt.Sprintf("the client has another state of {%v}: archived", (c.has.archived^is.archived)&is.there)
	case c.tally != m.box.tally(&s.inbox):
		return "the client has other numbers of messages"
	}
	return ""
}

func (m *streaming) stuck(streamed) string { return "" }

func (m *streaming) show(s streamed) string {
	return fmt.Sprintf("%s; flags %v, marks %d; look %s, page %s; client first %t, owes %t, shows %v, cursor %v",
		m.box.show(s.inbox), s.flags, s.marks, s.look, s.page, s.client.first, s.client.owes, s.client.has, s.client.cursor)
}
