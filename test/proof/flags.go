package main

import (
	"fmt"
	"slices"
)

// flagging models the state of single messages: read, unread and archived, besides the read mark, and what is seen. It comes before the code.
// Entries are appended in one step, also late, so an inbox is its slots in their order. Clients change states step by step, and crash between
// any two steps. Readers count piece by piece.
type flagging struct {
	mutation mutation

	messages, capacity int8
	clients            int
	kinds              []flagKind
	operations         int8

	raises, deletions int8
	gap               span // there is a gap at first
	later             ids  // messages in it that become visible later
	away              span // messages that are missing when the user returns
	bound             int8 // the rehydration may make a gap of those up to here

	order []piece // what a reader reads, one after the other
	reads int8
}

const maxSlots = 5 // one more than messages

// flagged is a state of flagging.
type flagged struct {
	user    flagUser
	maps    flagMaps
	at      [maxSlots]int8 // the ids in the slots
	dead    ids            // slots of tombstones
	stubs   ids            // buckets
	visible ids            // messages; others come later
	missed  bool           // those that are away have become visible

	clients [2]flagClient
	reader  flagReader

	operations, raises, deletions, reads int8 // left

	fault flagFault
}

// flagUser is the user's record.
type flagUser struct {
	countedUser
	expired    int8 // P
	counted    ids  // the messages in gaps that are in their numbers; others have become visible later
	flagged    bool // the record of flags may hold something
	seen       int8 // slots
	rebuilding bool
}

// flagMaps are those of the record of flags: by slot and, for messages in gaps, by id. A change is refused if another came first.
type flagMaps struct{ read, unread, archived flagBits }

type flagBits struct{ slots, byID ids }

type flagFault uint8

const (
	noFlagFault flagFault = iota
	turned
	seenUnshown
	stateUndone
	notFound
	impossible
)

var flagFaults = [...]string{
	turned:      "a message changes its state, or arrives with one, and no client asks for that",
	seenUnshown: "a message counts as seen, and was not shown",
	stateUndone: "a client is answered, and a message has another state",
	notFound:    "a client does not find a message that is there",
	impossible:  "a reader returns impossible numbers",
}

func (m *flagging) initial() []flagged {
	s := flagged{
		operations: m.operations, raises: m.raises, deletions: m.deletions, reads: m.reads,
		visible: m.gap.ids() &^ m.later,
	}
	if m.gap.high > 0 {
		s.user.counted, s.user.gaps[0] = s.visible, span{m.gap.low, m.gap.high, s.visible.len()}
	}
	return []flagged{s}
}

func (m *flagging) next(s flagged, yield func(event, flagged)) {
	now := m.states(&s)
	after := func(client int, e event, t flagged) {
		m.judge(&s, &t, client, now)
		was, is := s.user, t.user // without what no update compares
		was.flagged, was.seen, is.flagged, is.seen = false, 0, false, 0
		for i := range t.clients {
			t.clients[i].same = t.clients[i].same && was == is
			t.clients[i].fresh = t.clients[i].fresh && s.maps == t.maps
		}
		yield(e, m.normal(t))
	}
	m.surround(s, func(e event, t flagged) { after(-1, e, t) })
	m.count(s, func(e event, t flagged) { after(-1, e, t) })
	for i := range m.clients {
		m.act(s, i, func(e event, t flagged) { after(i, e, t) })
	}
}

// judge compares the states of messages before and after a step. Only a client may change them, and only those that it is asked to change.
func (m *flagging) judge(s, t *flagged, client int, was messageStates) {
	is := m.states(t)
	var may [markSeen + 1]ids
	slots := int8(0)
	if client >= 0 {
		c := s.clients[client]
		may[c.kind], slots = c.may, c.slots
	}
	wrong := is.read&^was.read&^may[markRead]&^may[markUpTo] | was.read&^is.read&^may[markUnread] |
		is.archived&^was.archived&^may[markArchived] | was.archived&^is.archived&^may[markUnarchived]
	switch {
	case t.fault != noFlagFault:
	case wrong&was.there&is.there != 0, (is.read|is.archived)&^was.there&^t.user.inGaps() != 0:
		t.fault = turned
	case t.user.seen > max(s.user.seen, slots):
		t.fault = seenUnshown
	}
}

// messageStates are the messages that are neither deleted nor expired, and those of them that are read, and archived.
type messageStates struct{ there, read, archived ids }

// states derives the state of each message, as a page does.
func (m *flagging) states(s *flagged) (all messageStates) {
	maps := s.maps
	if !s.user.flagged {
		maps = flagMaps{}
	}
	add := func(id int8, covered, read, unread, archived bool) {
		all.there |= 1 << id
		if read || covered && !unread {
			all.read |= 1 << id
		}
		if archived {
			all.archived |= 1 << id
		}
	}
	for slot, id := range s.at {
		if at := int8(slot); id > s.user.expired && !s.dead.has(at) {
			add(id, s.user.covers(id, at, s.user.mark.slots), maps.read.slots.has(at), maps.unread.slots.has(at), maps.archived.slots.has(at))
		}
	}
	for place, g := range s.user.gaps {
		for rest := g.ids() & s.user.counted &^ s.idsOf(s.dead); rest != 0; rest &= rest - 1 {
			id := rest.least()
			add(id, s.user.covers(id, int8(place), s.user.mark.gaps), maps.read.byID.has(id), maps.unread.byID.has(id), maps.archived.byID.has(id))
		}
	}
	return all
}

// covers reports whether the read mark covers an id in a place: a slot below those of the mark, or one of its gaps.
func (u *flagUser) covers(id, place, places int8) bool {
	return u.mark.upTo > u.expired && id <= u.mark.upTo && place < places
}

// gapOf returns the place of the gap that an id is in, or -1.
func (u *flagUser) gapOf(id int8) int8 {
	return int8(slices.IndexFunc(u.gaps[:], func(g span) bool { return g.ids().has(id) }))
}

// idsOf returns the ids in slots.
func (s *flagged) idsOf(slots ids) (all ids) {
	for at, id := range s.at {
		if id > 0 && slots.has(int8(at)) {
			all |= 1 << id
		}
	}
	return all
}

// slotOf returns the slot of an id, or -1.
func (s *flagged) slotOf(id int8) int8 { return int8(slices.Index(s.at[:], id)) }

// slots returns how many slots there are. There is always room for one more.
func (s *flagged) slots() int8 { return s.slotOf(0) }

// greatest returns the greatest id in the first slots: the floor of a bucket that begins there, and the last of one that ends there.
func (s *flagged) greatest(slots int8) int8 { return max(s.idsOf(1<<slots-1).most(), 0) }

// missing returns the messages that a rehydration has to append.
func (m *flagging) missing(s *flagged) ids {
	return m.away.ids() & s.visible &^ s.idsOf(^ids(0)) &^ s.user.inGaps() &^ upTo(s.user.expired)
}

// surround yields the steps of all others: workers, a rehydration, and the owner's deletions.
func (m *flagging) surround(s flagged, yield func(event, flagged)) {
	missing := m.missing(&s)
	for id := int8(1); id <= m.messages; id++ {
		t := s
		t.visible |= 1 << id
		switch {
		case missing.has(id):
			t.push(id, false)
			yield(happened("the rehydration appends %d", id), t)
		case s.visible.has(id) || m.away.ids().has(id):
		case m.gap.ids().has(id):
			yield(happened("%d becomes visible in its gap, or has expired", id), t)
		default:
			t.push(id, false)
			yield(happened("%d arrives", id), t)
		}
	}
	if t := s; m.away.high > 0 && !s.missed {
		t.missed, t.user.rebuilding = true, true
		t.visible |= m.away.ids()
		yield(happened("the user returns, and messages are missing"), t)
	}
	m.rehydrate(s, missing, yield)
	m.expire(s, yield)
	for id := int8(1); s.deletions > 0 && id <= m.messages; id++ {
		t, at := s, s.slotOf(id)
		t.deletions--
		switch { // Delete has found it before; it may have expired since
		case at >= 0 && !s.dead.has(at) && !s.stubs.has(at/m.capacity):
			t.dead |= 1 << at
		case at < 0 && (s.visible&m.gap.ids()&upTo(s.user.expired) | s.user.inGaps()&s.user.counted).has(id):
			t.push(id, true)
		default:
			continue
		}
		yield(happened("%d is deleted", id), t)
	}
}

func (s *flagged) push(id int8, dead bool) {
	at := s.slots()
	s.at[at] = id
	if dead {
		s.dead |= 1 << at
	}
}

// rehydrate makes a gap, counts one, or ends the rehydration.
func (m *flagging) rehydrate(s flagged, missing ids, yield func(event, flagged)) {
	g := span{low: max(m.away.low, s.user.expired+1), high: m.bound}
	if s.user.rebuilding && g.low <= g.high && g.ids()&^missing == 0 {
		t := s
		g.number = g.ids().len()
		t.user.counted |= g.ids()
		t.user.gaps[s.user.gapsNow()] = g
		yield(happened("the rehydration makes a gap from %d to %d", g.low, g.high), t)
	}
	if t := s; s.user.rebuilding && missing == 0 {
		t.user.rebuilding = false
		yield(happened("the rehydration ends"), t)
	}
	for place, g := range s.user.gaps {
		if t := s; g.ids()&s.visible&^s.user.counted != 0 {
			t.user.recount(int8(place), s.visible)
			yield(happened("gap %d is counted", int8(place)), t)
		}
	}
}

// recount raises the number of a gap. What is new below the end of a read mark that lists the gap counts as read.
func (u *flagUser) recount(place int8, visible ids) {
	g := &u.gaps[place]
	added := visible & g.ids() &^ u.counted
	u.counted |= added
	g.number += added.len()
	if place < u.mark.gaps && g.ids().has(u.mark.upTo) {
		u.mark.inGap += (added & upTo(u.mark.upTo)).len()
	}
}

// expire raises P, in one update that also cuts the gaps, or empties a bucket.
func (m *flagging) expire(s flagged, yield func(event, flagged)) {
	for p := s.user.expired + 1; s.raises > 0 && p <= m.messages; p++ {
		t := s
		t.raises--
		t.user.expired = p
		t.user.cut(p, t.user.counted, correct)
		t.user.counted &^= upTo(p)
		yield(happened("P becomes %d", p), t)
	}
	t := s
	for _, b := range [...]*flagBits{&t.maps.read, &t.maps.unread, &t.maps.archived} {
		b.clear(flagBits{s.slotsUpTo(s.user.expired), upTo(s.user.expired)})
	}
	if t.maps != s.maps {
		yield(happened("flags of what has expired are dropped"), t)
	}
	for b := int8(0); (b+1)*m.capacity <= s.slots(); b++ {
		if !s.stubs.has(b) && s.greatest((b+1)*m.capacity) <= s.user.expired {
			t := s
			t.stubs |= 1 << b
			yield(happened("bucket %d is emptied, and nothing is left of it but its bounds", b), t)
		}
	}
}

func (m *flagging) wrong(s flagged) string {
	if s.fault != noFlagFault {
		return flagFaults[s.fault]
	}
	if is, counted := m.tally(&s), m.derive(&s, m.look(&s)); counted != is {
		return fmt.Sprintf("total, unread, unseen and archived count as %v, and are %v", counted, is)
	}
	return ""
}

func (m *flagging) stuck(s flagged) string {
	if s.clients != [2]flagClient{} || s.reader != (flagReader{}) {
		return "a client or a reader has come to no end"
	}
	return ""
}

// normal puts the clients into an order.
func (m *flagging) normal(s flagged) flagged {
	if m.mutation == correct && m.clients == 2 && s.clients[0].rank() < s.clients[1].rank() {
		s.clients[0], s.clients[1] = s.clients[1], s.clients[0]
	}
	return s
}

func (m *flagging) show(s flagged) string {
	is := m.states(&s)
	return fmt.Sprintf("slots %v, tombstones in {%v}, stubs {%v}; P %d, gaps %v, read %v, seen %d; flags %t %v; there {%v}, read {%v}, archived {%v}",
		s.at, s.dead, s.stubs, s.user.expired, s.user.gaps, s.user.mark, s.user.seen, s.user.flagged, s.maps, is.there, is.read, is.archived)
}
