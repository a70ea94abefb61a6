package main

import (
	"fmt"
	"strings"
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

const maxSlots = 5

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
	expired    int8 // P
	gaps       [maxGaps]flagGap
	mark       readMark
	flagged    bool // the record of flags may hold something
	seen       int8 // slots
	rebuilding bool
}

// flagGap is a gap. Of its messages, those that were visible when it was last counted are in its number.
type flagGap struct {
	low, high int8
	counted   ids
}

func (g flagGap) ids() ids { return span{low: g.low, high: g.high}.ids() }

// flagMaps are those of the record of flags: by slot and, for messages in gaps, by id. A change is refused if another came first.
type flagMaps struct{ read, unread, archived flagBits }

type flagBits struct{ slots, byID ids }

type flagFault uint8

const (
	noFlagFault flagFault = iota
	turned
	newlyTurned
	seenUnshown
	stateUndone
	notFound
	impossible
)

var flagFaults = [...]string{
	turned:      "a message changes its state, and nobody asks for that",
	newlyTurned: "a message arrives, and has a state",
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
		s.user.gaps[0] = flagGap{m.gap.low, m.gap.high, s.visible}
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
	stay, fresh := was.there&is.there, is.there&^was.there
	var may flagClient
	if client >= 0 {
		may = s.clients[client]
	}
	up, down := ids(0), ids(0)
	var archive, unarchive ids
	switch may.kind {
	case markRead:
		up = 1 << may.id
	case markUnread:
		down = 1 << may.id
	case markArchived:
		archive = 1 << may.id
	case markUnarchived:
		unarchive = 1 << may.id
	case markUpTo, markKnown:
		up = may.may
	default:
	}
	switch {
	case t.fault != noFlagFault:
	case stay&(is.read&^was.read&^up|was.read&^is.read&^down|is.archived&^was.archived&^archive|was.archived&^is.archived&^unarchive) != 0:
		t.fault = turned
	case fresh&(is.read|is.archived)&^t.inGaps() != 0:
		t.fault = newlyTurned
	case t.user.seen > s.user.seen && (may.kind != markSeen || t.user.seen > may.slots):
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
			add(id, s.user.covers(at, id), maps.read.slots.has(at), maps.unread.slots.has(at), maps.archived.slots.has(at))
		}
	}
	for place, g := range s.user.gaps {
		for rest := g.counted &^ s.idsOf(s.dead); rest != 0; rest &= rest - 1 {
			id := rest.least()
			add(id, s.user.coversIn(int8(place), id), maps.read.byID.has(id), maps.unread.byID.has(id), maps.archived.byID.has(id))
		}
	}
	return all
}

// covers reports whether the read mark covers an entry, and coversIn, a message in a gap.
func (u *flagUser) covers(at, id int8) bool {
	return u.mark.upTo > u.expired && id <= u.mark.upTo && at < u.mark.slots
}

func (u *flagUser) coversIn(place, id int8) bool {
	return u.mark.upTo > u.expired && id <= u.mark.upTo && place < u.mark.gaps
}

func (u *flagUser) gapsNow() (n int8) {
	for _, g := range u.gaps {
		if g.high > 0 {
			n++
		}
	}
	return n
}

// gapOf returns the place of the gap that an id is in, or -1.
func (u *flagUser) gapOf(id int8) int8 {
	for place, g := range u.gaps {
		if g.ids().has(id) {
			return int8(place)
		}
	}
	return -1
}

func (s *flagged) inGaps() (all ids) {
	for _, g := range s.user.gaps {
		all |= g.ids()
	}
	return all
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

func (s *flagged) slots() (n int8) {
	for int(n) < len(s.at) && s.at[n] > 0 {
		n++
	}
	return n
}

// slotOf returns the slot of an id, or -1.
func (s *flagged) slotOf(id int8) int8 {
	for at, in := range s.at {
		if in == id {
			return int8(at)
		}
	}
	return -1
}

// greatest returns the greatest id in the first slots: the floor of a bucket that begins there, and the last of one that ends there.
func (s *flagged) greatest(slots int8) (id int8) {
	for _, in := range s.at[:slots] {
		id = max(id, in)
	}
	return id
}

// missing returns the messages that a rehydration has to append.
func (m *flagging) missing(s *flagged) ids {
	return m.away.ids() & s.visible &^ s.idsOf(^ids(0)) &^ s.inGaps() &^ upTo(s.user.expired)
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
	if s.deletions == 0 {
		return
	}
	for rest := m.states(&s).there; rest != 0; rest &= rest - 1 {
		t, id := s, rest.least()
		t.deletions--
		if at := s.slotOf(id); at >= 0 {
			t.dead |= 1 << at
		} else {
			t.push(id, true)
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
	g := flagGap{low: max(m.away.low, s.user.expired+1), high: m.bound}
	if s.user.rebuilding && g.low <= g.high && g.ids()&^missing == 0 {
		t := s
		g.counted = g.ids()
		t.user.gaps[s.user.gapsNow()] = g
		yield(happened("the rehydration makes a gap from %d to %d", g.low, g.high), t)
	}
	if t := s; s.user.rebuilding && missing == 0 {
		t.user.rebuilding = false
		yield(happened("the rehydration ends"), t)
	}
	for place := range s.user.gaps {
		t := s
		if t.user.recount(int8(place), s.visible); t.user != s.user {
			yield(happened("gap %d is counted", int8(place)), t)
		}
	}
}

// recount raises the number of a gap. What is new below the end of a read mark that lists the gap counts as read.
func (u *flagUser) recount(place int8, visible ids) {
	g := &u.gaps[place]
	added := visible & g.ids() &^ g.counted
	g.counted |= added
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
		t.user.cut()
		yield(happened("P becomes %d", p), t)
	}
	for b := int8(0); (b+1)*m.capacity <= s.slots(); b++ {
		if !s.stubs.has(b) && s.greatest((b+1)*m.capacity) <= s.user.expired {
			t := s
			t.stubs |= 1 << b
			yield(happened("bucket %d is emptied, and nothing is left of it but its bounds", b), t)
		}
	}
}

// cut cuts the gaps to what is above P: see retaining.cutGaps.
func (u *flagUser) cut() {
	var left [maxGaps]flagGap
	n, listed := 0, u.mark.gaps
	for place, g := range u.gaps {
		if g.high == 0 {
			continue
		}
		if gone := g.counted & upTo(u.expired); int8(place) < listed && g.ids().has(u.mark.upTo) {
			u.mark.inGap = max(u.mark.inGap-gone.len(), 0)
		}
		if g.low, g.counted = max(g.low, u.expired+1), g.counted&^upTo(u.expired); g.low <= g.high {
			left[n] = g
			n++
		} else if int8(place) < listed {
			u.mark.gaps--
		}
	}
	u.gaps = left
}

func (m *flagging) wrong(s flagged) string {
	if s.fault != noFlagFault {
		return flagFaults[s.fault]
	}
	is, counted := m.tally(&s), m.derive(&s, m.look(&s))
	if counted != is {
		return fmt.Sprintf("total, unread, unseen and archived count as %v, and are %v", counted, is)
	}
	return ""
}

func (m *flagging) stuck(s flagged) string {
	if s.clients != [2]flagClient{} {
		return "a client has come to no end"
	}
	if s.reader != (flagReader{}) {
		return "a reader has come to no end"
	}
	return ""
}

// normal puts the clients into an order, and forgets bits that nothing reads.
func (m *flagging) normal(s flagged) flagged {
	if m.mutation == correct && s.clients[0].weight() < s.clients[1].weight() {
		s.clients[0], s.clients[1] = s.clients[1], s.clients[0]
	}
	return s
}

func (m *flagging) show(s flagged) string {
	var text strings.Builder
	fmt.Fprintf(&text, "slots %v, tombstones in {%v}, stubs {%v}; P %d, gaps %v, read %+v, seen %d, rebuilding %t; ",
		s.at, s.dead, s.stubs, s.user.expired, s.user.gaps, s.user.mark, s.user.seen, s.user.rebuilding)
	is := m.states(&s)
	fmt.Fprintf(&text, "flags %t %v; there {%v}, read {%v}, archived {%v}", s.user.flagged, s.maps, is.there, is.read, is.archived)
	return text.String()
}
