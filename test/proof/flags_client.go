package main

// flagKind is what a client is to do.
type flagKind uint8

const (
	noKind flagKind = iota
	markRead
	markUnread
	markArchived
	markUnarchived
	markUpTo  // all up to an id is read
	markKnown // all that a cursor knows is read
	markSeen
)

// flagClient is an operation under way. A cursor knows the slots, and the end of the newest gap, of the page that it comes from.
type flagClient struct {
	kind  flagKind
	phase flagPhase
	id    int8 // the entry, or the end of the mark
	slots int8 // of the cursor
	end   int8

	at      int8 // the slot of the entry, or -1
	inGap   bool // as the user's record was read
	waits   bool
	flagged bool
	same    bool // the record is as it was read
	fresh   bool // the flags are as they were read

	mark    readMark // to be stored
	counted ids      // messages that were visible when it was computed
	stored  bool
	each    bool     // the entries are marked one by one:
	targets flagBits // these
	old     flagMaps // as the flags were read, where nothing compares (a mutation)

	// The protocol does not know these:
	must ids // messages that have to be read when the client is answered
	may  ids // and those that it may read
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

// act takes a step of a client.
func (m *flagging) act(s flagged, i int, yield func(event, flagged)) {
	n := int8(i)
	c := &s.clients[i]
	if c.phase == clientIdle {
		m.ask(s, i, yield)
		return
	}
	t := s
	t.clients[i] = flagClient{}
	yield(happened("client %d crashes", n), t)
	switch c.phase {
	case clientIdle:
	case clientPage:
		c.phase, c.slots = clientCursor, s.slots()
		c.may |= s.idsOf(1<<c.slots - 1)
		c.must |= s.idsOf(1<<c.slots - 1)
		yield(happened("client %d has a page of %d slots", n, c.slots), s)
	case clientCursor:
		c.phase = clientUser
		if c.kind == markSeen {
			if m.mutation == seenNow {
				c.slots = s.slots()
			}
			s.user.seen = max(s.user.seen, c.slots)
			s.clients[i] = flagClient{}
		}
		yield(happened("client %d uses its cursor", n), s)
	case clientUser:
		m.readUser(&s, c)
		yield(happened("client %d reads the user's record", n), s)
	case clientBuckets:
		m.readBuckets(&s, c)
		yield(happened("client %d reads the buckets", n), s)
	case clientGap:
		if place := s.user.gapOf(c.id); place >= 0 {
			s.user.recount(place, s.visible)
			c.phase = clientFlagged
		} else {
			*c = flagClient{} // it has expired
		}
		yield(happened("client %d counts the gap of %d", n, c.id), s)
	case clientFlagged:
		s.user.flagged = true
		if c.phase = clientLoad; m.mutation == flagsBeforeFlagged {
			m.answer(&s, c)
		}
		yield(happened("client %d notes that there are flags", n), s)
	case clientLoad:
		if c.phase, c.fresh = clientWrite, true; m.mutation == flagsUncompared {
			c.old = s.maps
		}
		yield(happened("client %d reads the flags", n), s)
	case clientWrite:
		m.write(&s, c)
		yield(happened("client %d writes the flags, unless they have changed", n), s)
	case clientStore:
		m.store(&s, c)
		yield(happened("client %d stores the read mark, unless the record has changed", n), s)
	}
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
	is := m.states(&s)
	there := is.there | m.missing(&s)
	for _, kind := range m.kinds {
		t := s
		c := &t.clients[i]
		switch kind {
		case markSeen:
			*c = flagClient{kind: kind, phase: clientCursor, slots: s.slots()}
			yield(happened("client %d has a page of %d slots", int8(i), c.slots), t)
		case markKnown:
			*c = flagClient{kind: kind, phase: clientPage}
			for _, g := range s.user.gaps {
				c.end = max(c.end, g.high)
				c.may |= g.ids()
				c.must |= g.counted
			}
			if m.mutation == gapsByNumber {
				c.end = s.user.gapsNow()
			}
			yield(happened("client %d begins to read a page", int8(i)), t)
		default:
			for id := int8(1); id <= m.messages; id++ {
				*c = flagClient{kind: kind, phase: m.first(), id: id}
				if kind == markUpTo {
					c.must, c.may, c.phase = there&upTo(id), upTo(id), clientUser
				} else if !there.has(id) && !(s.visible & s.inGaps()).has(id) {
					continue
				}
				yield(happened("client %d is to do %d to %d", int8(i), int8(kind), id), t)
			}
		}
	}
}

// readUser notes what counts of the user's record. What cannot be decided yet waits for the rehydration.
func (m *flagging) readUser(s *flagged, c *flagClient) {
	one := c.kind < markUpTo
	if !one && s.user.rebuilding {
		return
	}
	place := s.user.gapOf(c.id)
	c.inGap = place >= 0 && s.visible.has(c.id)
	c.waits, c.flagged, c.same = s.user.rebuilding, s.user.flagged, true
	if c.phase = clientBuckets; one && m.mutation == bucketsBeforeUser {
		m.found(s, c)
	}
	if one {
		c.flagged = false
		return
	}
	c.inGap = false
	for k, g := range s.user.gaps { // those in which messages are marked by their ids
		if known := m.knowsGap(c, int8(k), g); known && m.mutation != gapsNotByID {
			c.targets.byID |= g.counted
		}
	}
	if c.kind == markUpTo {
		c.targets.byID &= upTo(c.id)
	}
}

// knowsGap reports whether a cursor knows a gap.
func (m *flagging) knowsGap(c *flagClient, place int8, g flagGap) bool {
	switch {
	case c.kind == markUpTo:
		return true
	case m.mutation == gapsByNumber:
		return place < c.end
	default:
		return g.high <= c.end
	}
}

// readBuckets finds one entry, or what a mark needs.
func (m *flagging) readBuckets(s *flagged, c *flagClient) {
	if c.kind >= markUpTo {
		m.compute(s, c)
		return
	}
	if c.at = s.slotOf(c.id); c.at >= 0 && (s.dead.has(c.at) || c.id <= s.user.expired) {
		*c = flagClient{}
		return
	}
	if m.mutation == bucketsBeforeUser && c.at < 0 {
		c.phase = clientUser
		return
	}
	m.found(s, c)
}

// found decides how an entry is named: by its slot or, if it is in a gap, by its id.
func (m *flagging) found(s *flagged, c *flagClient) {
	there := m.states(s).there | m.missing(s)
	switch {
	case c.at >= 0 && m.mutation == flagsBeforeFlagged:
		c.phase = clientLoad
	case c.at >= 0, m.mutation == byIDEarly && c.waits, c.inGap && m.mutation == gapUncounted:
		c.phase = clientFlagged
	case c.inGap:
		c.phase = clientGap
	case c.waits:
		c.phase = m.first()
	default:
		if there.has(c.id) {
			s.fault = notFound
		}
		*c = flagClient{}
		return
	}
	c.inGap, c.waits, c.same = false, false, false
}

// compute computes a read mark, as bucket.NewReadMark does, or the entries to mark one by one.
func (m *flagging) compute(s *flagged, c *flagClient) {
	u := &s.user
	slots, end, bucketEnd := s.slots(), c.id, s.slots()
	known := u.gapsNow()
	if c.kind == markKnown {
		known = 0
		if slots = c.slots; m.mutation == cursorIgnored {
			slots = s.slots()
		}
		end = s.greatest(slots)
		for place, g := range u.gaps {
			if g.high > 0 && m.knowsGap(c, int8(place), g) {
				known++
			}
		}
		if end = max(end, c.end); m.mutation == gapsByNumber {
			end = s.greatest(slots)
			for _, g := range u.gaps[:known] {
				end = max(end, g.high)
			}
		}
		c.id, bucketEnd = end, slots
	}
	greatest := s.greatest(s.slots())
	for _, g := range u.gaps {
		greatest = max(greatest, g.high)
	}
	to := readMark{upTo: max(min(end, greatest), u.mark.upTo), slots: slots, gaps: known}
	further := end < u.mark.upTo
	if c.kind == markKnown {
		further = further || slots < u.mark.slots && m.mutation != cursorLowers || known < u.mark.gaps
	}
	if further {
		if m.mutation == furtherIgnored {
			m.answer(s, c)
			return
		}
		if c.each, c.phase = true, clientFlagged; m.mutation == flagsBeforeFlagged {
			c.phase = clientLoad
		}
		for at := range slots {
			if id := s.at[at]; id <= end && id > u.expired && !s.dead.has(at) {
				c.targets.slots |= 1 << at
			}
		}
		c.same, c.flagged = false, false
		return
	}
	c.targets = flagBits{}
	if m.mutation == sequenceBeyond {
		bucketEnd = s.slots()
	}
	for at := max(bucketEnd-1, 0) / m.capacity; ; at-- {
		if at == 0 || s.greatest(at*m.capacity) < to.upTo {
			to.bucket = at
			break
		}
	}
	to.read = to.bucket * m.capacity
	for at := to.read; at < slots; at++ {
		if s.at[at] <= to.upTo {
			to.read++
		}
	}
	if place := u.gapOf(to.upTo); place >= 0 && place < known {
		c.counted = s.visible & u.gaps[place].ids()
		to.inGap = ((c.counted | u.gaps[place].counted) & upTo(to.upTo)).len()
	}
	c.mark = to
	if c.phase = clientStore; c.flagged && m.mutation != unreadStays && m.mutation != clearedLast {
		c.phase = clientLoad
	}
}

// write writes the flags if they are as they were read, or reads them again.
func (m *flagging) write(s *flagged, c *flagClient) {
	to := s.maps
	if !c.fresh {
		if m.mutation != flagsUncompared {
			c.phase = clientLoad
			return
		}
		to = c.old
	}
	c.old = flagMaps{}
	targets := c.targets
	if c.kind < markUpTo {
		if targets = (flagBits{slots: 1 << max(c.at, 0)}); c.at < 0 {
			targets = flagBits{byID: 1 << c.id}
		}
	}
	switch {
	case c.kind == markRead, c.each:
		to.read.set(targets)
		to.unread.clear(targets)
	case c.kind == markUnread:
		to.read.clear(targets)
		to.unread.set(targets)
		m.excuse(s, c.id)
	case c.kind == markArchived:
		to.archived.set(targets)
	case c.kind == markUnarchived:
		to.archived.clear(targets)
	case c.kind == markKnown:
		known := c.end
		if m.mutation == gapsByNumber {
			known = c.id
		}
		to.unread.clear(flagBits{1<<c.slots - 1, upTo(known)})
	default:
		to.unread.clear(flagBits{slotsUpTo(s, c.id), upTo(c.id)})
	}
	s.maps = to
	switch {
	case c.kind >= markUpTo && !c.each && !c.stored:
		c.phase = clientStore
	case m.mutation == flagsBeforeFlagged:
		c.phase = clientFlagged
	default:
		m.answer(s, c)
	}
}

func (b *flagBits) set(o flagBits) { *b = flagBits{b.slots | o.slots, b.byID | o.byID} }

func (b *flagBits) clear(o flagBits) { *b = flagBits{b.slots &^ o.slots, b.byID &^ o.byID} }

func slotsUpTo(s *flagged, id int8) (slots ids) {
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
		if c := &s.clients[i]; c.phase > clientCursor {
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
	flagged := c.flagged
	if place := s.user.gapOf(c.mark.upTo); place >= 0 && place < c.mark.gaps {
		s.user.gaps[place].counted |= c.counted
	}
	s.user.mark = c.mark
	if c.stored, c.phase = true, clientLoad; m.mutation == clearedLast && flagged {
		return
	}
	m.answer(s, c)
}

// answer ends an operation, and compares the states of messages with what the client was to do.
func (m *flagging) answer(s *flagged, c *flagClient) {
	is, one := m.states(s), ids(0)
	if c.kind < markUpTo {
		one = 1 << c.id & (is.there | m.missing(s))
	}
	wrong := false
	switch c.kind {
	case markRead:
		wrong = one&^is.read != 0
	case markUnread:
		wrong = one&is.read != 0
	case markArchived:
		wrong = one&^is.archived != 0
	case markUnarchived:
		wrong = one&is.archived != 0
	default:
		wrong = c.must&is.there&^is.read != 0
	}
	if wrong {
		s.fault = stateUndone
	}
	*c = flagClient{}
}

// weight is a number that is different for most clients that differ.
func (c *flagClient) weight() (w uint64) {
	bit := func(b bool) int8 {
		if b {
			return 1
		}
		return 0
	}
	for _, v := range [...]int8{
		int8(c.kind), int8(c.phase), c.id, c.slots, c.end, c.at, bit(c.inGap), bit(c.waits), bit(c.flagged), bit(c.same), bit(c.fresh), bit(c.each),
		c.mark.upTo, c.mark.slots, c.mark.read, c.mark.gaps, c.mark.inGap, int8(c.targets.slots), int8(c.targets.byID), int8(c.must), int8(c.may),
	} {
		w = w*67 + uint64(v+1)
	}
	return w
}
