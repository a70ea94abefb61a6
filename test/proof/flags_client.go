package main

// flagKind is what a client is to do.
type flagKind uint8

const (
	noKind flagKind = iota
	markRead
	markUnread
	markArchived
	markUnarchived
	markUpTo  // all up to an id is read or, with a cursor, all that its page knew
	markKnown // such a mark with a cursor, in the list of kinds
	markSeen
)

// flagClient is an operation under way. A mark is for ids up to id, slots below slots, and gaps that end up to end. A cursor holds the slots of
// its page, and the end of the newest gap there.
type flagClient struct {
	kind  flagKind
	phase flagPhase
	id    int8
	slots int8
	end   int8

	at    int8 // the slot of an entry, or -1
	inGap bool // as the user's record was read
	waits bool

	flagged bool     // also as it was read
	same    bool     // the record is as it was read
	mark    readMark // to be stored
	visible ids      // the messages in the mark's gap that were visible when it was computed
	stored  bool

	each    bool     // the entries are marked one by one:
	targets flagBits // these
	fresh   bool     // the flags are as they were read
	old     flagMaps // as they were read, where nothing compares (a mutation)

	// The protocol does not know these:
	must ids // messages that have to be as asked when the client is answered
	may  ids // messages that the client may change
}

type flagPhase uint8

const (
	clientIdle flagPhase = iota
	clientPage
	clientCursor
	clientUser
	clientBuckets
	clientGap
	clientFlagged
	clientLoad
	clientWrite
	clientStore
)

var clientSteps = [...]string{
	clientPage:    "client %d reads the slots of a page",
	clientCursor:  "client %d uses its cursor",
	clientUser:    "client %d reads the user's record",
	clientBuckets: "client %d reads the buckets",
	clientGap:     "client %d counts the gap",
	clientFlagged: "client %d notes that there are flags",
	clientLoad:    "client %d reads the flags",
	clientWrite:   "client %d writes the flags, unless they have changed",
	clientStore:   "client %d stores the read mark, unless the record has changed",
}

const noLimit = 7 // above all ids and slots

// act takes a step of a client.
func (m *flagging) act(s flagged, i int, yield func(event, flagged)) {
	c := &s.clients[i]
	if c.phase == clientIdle {
		m.ask(s, i, yield)
		return
	}
	t, step := s, clientSteps[c.phase]
	t.clients[i] = flagClient{}
	yield(happened("client %d crashes", int8(i)), t)
	switch c.phase {
	case clientIdle:
	case clientPage:
		c.phase, c.slots = clientCursor, s.slots()
		c.may |= s.idsOf(1<<c.slots - 1)
		c.must |= s.idsOf(1<<c.slots - 1)
	case clientCursor:
		m.useCursor(&s, c)
	case clientUser:
		m.readUser(&s, c)
	case clientBuckets:
		m.readBuckets(&s, c)
	case clientGap:
		if place := s.user.gapOf(c.id); place >= 0 {
			s.user.recount(place, s.visible)
			c.phase = clientFlagged
		} else {
			*c = flagClient{} // it has expired
		}
	case clientFlagged:
		s.user.flagged = true
		if c.phase = clientLoad; m.mutation == flagsBeforeFlagged {
			m.answer(&s, c)
		}
	case clientLoad:
		if c.phase, c.fresh = clientWrite, true; m.mutation == flagsUncompared {
			c.old = s.maps
		}
	case clientWrite:
		m.write(&s, c)
	case clientStore:
		m.store(&s, c)
	}
	yield(happened(step, int8(i)), s)
}

func (m *flagging) first() flagPhase {
	if m.mutation == bucketsBeforeUser {
		return clientBuckets
	}
	return clientUser
}

// ask lets a client begin an operation.
func (m *flagging) ask(s flagged, i int, yield func(event, flagged)) {
	if s.operations == 0 {
		return
	}
	s.operations--
	c := &s.clients[i]
	there := m.states(&s).there | m.missing(&s)
	for _, kind := range m.kinds {
		switch kind {
		case markSeen:
			*c = flagClient{kind: kind, phase: clientCursor, slots: s.slots()}
			yield(happened("client %d has a page of %d slots", int8(i), c.slots), s)
		case markKnown:
			*c = flagClient{kind: markUpTo, phase: clientPage, id: noLimit, may: s.user.inGaps(), must: s.user.counted}
			if c.end = max(s.user.inGaps().most(), 0); m.mutation == gapsByNumber {
				c.end = s.user.gapsNow()
			}
			yield(happened("client %d begins to read a page", int8(i)), s)
		default:
			for id := int8(1); id <= m.messages; id++ {
				*c = flagClient{kind: kind, phase: m.first(), id: id, must: 1 << id, may: 1 << id}
				if kind == markUpTo {
					*c = flagClient{kind: kind, phase: clientUser, id: id, slots: noLimit, end: noLimit, must: there & upTo(id), may: upTo(id)}
				} else if !(there | s.visible&s.user.inGaps()).has(id) {
					continue
				}
				yield(happened("client %d is to do %d to %d", int8(i), int8(kind), id), s)
			}
		}
	}
}

func (m *flagging) useCursor(s *flagged, c *flagClient) {
	c.phase = clientUser
	switch {
	case c.kind == markSeen && m.mutation == seenNow:
		s.user.seen = s.slots()
		*c = flagClient{}
	case c.kind == markSeen:
		s.user.seen = max(s.user.seen, c.slots)
		*c = flagClient{}
	case m.mutation == cursorIgnored:
		c.slots = noLimit
	case m.mutation == gapsByNumber && c.end > 0:
		c.end = s.user.gaps[c.end-1].high
	}
}

// readUser notes what counts of the user's record. A mark waits for a rehydration.
func (m *flagging) readUser(s *flagged, c *flagClient) {
	u := &s.user
	if c.kind < markUpTo {
		c.inGap, c.waits = u.gapOf(c.id) >= 0 && s.visible.has(c.id), u.rebuilding
		if c.phase = clientBuckets; m.mutation == bucketsBeforeUser {
			m.found(s, c)
		}
		return
	}
	if u.rebuilding {
		return
	}
	c.phase, c.flagged, c.same = clientBuckets, u.flagged, true
	for _, g := range u.gaps {
		if g.high <= c.end && m.mutation != gapsNotByID {
			c.targets.byID |= g.ids() & u.counted & upTo(c.id)
		}
	}
}

// readBuckets finds an entry, or what a mark needs.
func (m *flagging) readBuckets(s *flagged, c *flagClient) {
	if c.kind == markUpTo {
		m.compute(s, c)
		return
	}
	switch c.at = s.slotOf(c.id); {
	case c.at >= 0 && (s.dead.has(c.at) || c.id <= s.user.expired):
		*c = flagClient{}
	case c.at < 0 && m.mutation == bucketsBeforeUser:
		c.phase = clientUser
	default:
		m.found(s, c)
	}
}

// found decides how an entry is named: by its slot or, if it is in a gap, by its id.
func (m *flagging) found(s *flagged, c *flagClient) {
	switch {
	case c.at >= 0, m.mutation == byIDEarly && c.waits, m.mutation == gapUncounted && c.inGap:
		c.phase = m.toFlags()
	case c.inGap:
		c.phase = clientGap
	case c.waits:
		c.phase = m.first()
	case (m.states(s).there | m.missing(s)).has(c.id):
		s.fault = notFound
	default:
		*c = flagClient{}
	}
	c.inGap, c.waits = false, false
}

func (m *flagging) toFlags() flagPhase {
	if m.mutation == flagsBeforeFlagged {
		return clientLoad
	}
	return clientFlagged
}

// compute computes a read mark, as bucket.NewReadMark does. It is not above all that is there, and not below what the stored mark covers; where
// that is impossible, the entries are marked one by one.
func (m *flagging) compute(s *flagged, c *flagClient) {
	u := &s.user
	slots, gaps := min(c.slots, s.slots()), int8(0)
	greatest := s.greatest(slots)
	for _, g := range u.gaps {
		if g.high > 0 && g.high <= c.end {
			gaps++
			greatest = max(greatest, g.high)
		}
	}
	if m.mutation == gapsKept {
		gaps = max(gaps, u.mark.gaps)
	}
	to := readMark{upTo: min(c.id, greatest), slots: slots, gaps: gaps}
	if to.upTo < u.mark.upTo || slots < u.mark.slots && m.mutation != cursorLowers || gaps < u.mark.gaps {
		if m.mutation == furtherIgnored {
			m.answer(s, c)
			return
		}
		c.each, c.phase, c.same, c.flagged = true, m.toFlags(), false, false
		for at := range slots {
			if id := s.at[at]; id <= c.id && id > u.expired && !s.dead.has(at) {
				c.targets.slots |= 1 << at
			}
		}
		return
	}
	c.targets = flagBits{}
	if to.bucket = max(slots-1, 0) / m.capacity; m.mutation == sequenceBeyond {
		to.bucket = max(s.slots()-1, 0) / m.capacity
	}
	for to.bucket > 0 && s.greatest(to.bucket*m.capacity) >= to.upTo {
		to.bucket--
	}
	below := to.bucket * m.capacity
	to.read = below + (s.slotsUpTo(to.upTo) & (1<<slots - 1) &^ (1<<below - 1)).len()
	if place := u.gapOf(to.upTo); place >= 0 && place < gaps {
		c.visible = s.visible & u.gaps[place].ids()
		to.inGap = ((c.visible | u.gaps[place].ids()&u.counted) & upTo(to.upTo)).len()
	}
	c.mark = to
	if c.phase = clientStore; c.flagged && m.mutation != unreadStays && m.mutation != clearedLast {
		c.phase = clientLoad
	}
}

// write writes the flags if they are as they were read, or reads them again.
func (m *flagging) write(s *flagged, c *flagClient) {
	to, targets := s.maps, c.targets
	switch {
	case !c.fresh && m.mutation == flagsUncompared:
		to = c.old
	case !c.fresh:
		c.phase = clientLoad
		return
	case c.kind == markUpTo && !c.each:
		targets = flagBits{s.slotsUpTo(c.id) & (1<<c.slots - 1), upTo(min(c.id, c.end))}
	}
	switch {
	case c.kind == markUpTo:
	case c.at >= 0:
		targets.slots = 1 << c.at
	default:
		targets.byID = 1 << c.id
	}
	switch c.kind {
	case markUnread:
		to.read.clear(targets)
		to.unread.set(targets)
		m.excuse(s, c.id)
	case markArchived:
		to.archived.set(targets)
	case markUnarchived:
		to.archived.clear(targets)
	default:
		to.unread.clear(targets)
		if c.kind == markRead || c.each {
			to.read.set(targets)
		}
	}
	s.maps, c.old = to, flagMaps{}
	switch {
	case c.kind == markUpTo && !c.each && !c.stored:
		c.phase = clientStore
	case m.mutation == flagsBeforeFlagged:
		c.phase = clientFlagged
	default:
		m.answer(s, c)
	}
}

func (b *flagBits) set(o flagBits)   { *b = flagBits{b.slots | o.slots, b.byID | o.byID} }
func (b *flagBits) clear(o flagBits) { *b = flagBits{b.slots &^ o.slots, b.byID &^ o.byID} }

func (s *flagged) slotsUpTo(id int8) (slots ids) {
	for at, in := range s.at {
		if in <= id {
			slots |= 1 << at
		}
	}
	return slots
}

// excuse notes that a message becomes unread. A mark that is not stored yet may come before this or after it; one that is stored came before.
func (m *flagging) excuse(s *flagged, id int8) {
	for i := range s.clients {
		if c := &s.clients[i]; c.kind == markUpTo && c.phase > clientCursor {
			c.must &^= 1 << id
			if c.stored {
				c.may &^= 1 << id
			}
		}
	}
}

// store stores a read mark if the user's record is as it was read, or begins again.
func (m *flagging) store(s *flagged, c *flagClient) {
	if !c.same {
		*c = flagClient{kind: c.kind, phase: clientUser, id: c.id, slots: c.slots, end: c.end, must: c.must, may: c.may}
		return
	}
	clears := m.mutation == clearedLast && c.flagged
	if place := s.user.gapOf(c.mark.upTo); place >= 0 {
		s.user.recount(place, c.visible)
	}
	s.user.mark = c.mark
	if c.stored, c.phase = true, clientLoad; !clears {
		m.answer(s, c)
	}
}

// answer ends an operation, and compares the states of messages with what the client was to do.
func (m *flagging) answer(s *flagged, c *flagClient) {
	is := m.states(s)
	wrong := c.must & (is.there | m.missing(s))
	switch c.kind {
	case markUnread:
		wrong &= is.read
	case markArchived:
		wrong &^= is.archived
	case markUnarchived:
		wrong &= is.archived
	default:
		wrong &^= is.read
	}
	if wrong != 0 {
		s.fault = stateUndone
	}
	*c = flagClient{}
}

// rank is a number that is different for many clients that differ.
func (c *flagClient) rank() int {
	return (((int(c.phase)<<3|int(c.kind))<<3|int(c.id))<<3|int(c.slots))<<8 | int(c.must)
}
