package main

// flagTally is how many messages there are that are not archived, how many of them are unread, and unseen, and how many are archived.
type flagTally struct{ total, unread, unseen, archived int8 }

// flagView is what a reader knows. It has read the parts one after the other.
type flagView struct {
	user       flagUser
	maps       flagMaps
	slots      int8
	dead       ids // slots of tombstones that buckets list
	tombstones int8
	stubs      ids // buckets
	buried     ids // slots of tombstones in the buckets that were read whole
}

// piece is what a reader reads in one step. In the end it reads buckets, one after the other, downward.
type piece uint8

const (
	pieceUser piece = iota
	pieceFlags
	pieceHead
	pieceTombstones
	pieceEntries  // for the live stream: all buckets at once
	pieceRevision // the revision of the flags again (a mutation)
)

type flagReader struct {
	step int8 // how many pieces and buckets it has read
	view flagView
}

// look reads all at one moment.
func (m *flagging) look(s *flagged) (v flagView) {
	for _, p := range [...]piece{pieceUser, pieceFlags, pieceHead, pieceTombstones, pieceEntries} {
		m.read(s, &v, p)
	}
	return v
}

func (m *flagging) read(s *flagged, v *flagView, p piece) {
	switch p {
	case pieceUser:
		v.user = s.user
	case pieceFlags:
		v.maps = s.maps
	case pieceHead:
		v.slots = s.slots()
	case pieceTombstones:
		v.tombstones = s.dead.len()
		for at := range s.slots() {
			if s.dead.has(at) && !s.stubs.has(at/m.capacity) {
				v.dead |= 1 << at
			}
		}
	case pieceEntries:
		v.stubs, v.buried = s.stubs, s.dead
	case pieceRevision:
	}
}

// count lets a reader read the next piece. In the end it begins again if the numbers cannot be right.
func (m *flagging) count(s flagged, yield func(event, flagged)) {
	r := &s.reader
	if r.step == 0 {
		if s.reads == 0 {
			return
		}
		s.reads--
	}
	if below := r.step - int8(len(m.order)); below < 0 {
		m.read(&s, &r.view, m.order[r.step])
	} else {
		bucket := (r.view.slots-1)/m.capacity - below
		r.view.stubs |= s.stubs & (1 << bucket)
		r.view.buried |= s.dead &^ (1<<(bucket*m.capacity) - 1) & (1<<((bucket+1)*m.capacity) - 1)
	}
	all := int8(len(m.order))
	if r.view.slots > 0 && (r.view.user.expired > 0 || r.view.user.flagged && r.view.maps != flagMaps{}) {
		all += (r.view.slots-1)/m.capacity + 1 // otherwise it does not need the buckets
	}
	if r.step++; r.step < all {
		yield(happened("a reader reads part %d", r.step), s)
		return
	}
	counted := m.derive(&s, r.view)
	if *r = (flagReader{}); counted.impossible() {
		switch m.mutation {
		case beyondCounted, staleExpiry, recordReadLast, staleGap:
			s.fault = impossible
		default:
			s.reads++
		}
	}
	yield(happened("a reader counts %d, unread %d, unseen %d, archived %d", counted.total, counted.unread, counted.unseen, counted.archived), s)
}

func (c flagTally) impossible() bool {
	return min(c.total, c.unread, c.unseen, c.archived) < 0 || max(c.unread, c.unseen) > c.total
}

// tally counts what is there.
func (m *flagging) tally(s *flagged) (c flagTally) {
	is := m.states(s)
	shown := is.there &^ is.archived
	return flagTally{
		total: shown.len(), unread: (shown &^ is.read).len(), archived: is.archived.len(),
		unseen: (shown & s.idsOf(^ids(0)) &^ s.idsOf(1<<s.user.seen-1)).len(),
	}
}

// derive counts as bucket.Counts does, and then corrects what it counts by the flags. The ids in slots do not change, so a view has none.
func (m *flagging) derive(s *flagged, v flagView) (c flagTally) {
	u, mark := &v.user, v.user.mark
	var from, base int8
	var gone ids // the expired slots from base up
	if u.expired > 0 && v.slots > 0 {
		from = (v.slots - 1) / m.capacity
		for from > 0 && s.greatest(from*m.capacity) > u.expired {
			from--
		}
		if base = from * m.capacity; v.stubs.has(from) {
			base += m.capacity
		}
		for at := base; at < v.slots; at++ {
			if s.at[at] <= u.expired && !v.stubs.has(at/m.capacity) && !v.buried.has(at) {
				gone |= 1 << at
			}
		}
	}
	if m.mutation != beyondCounted {
		beyond := v.dead &^ (1<<v.slots - 1)
		v.dead &^= beyond
		v.tombstones -= beyond.len()
	}
	c.total = v.slots - base - gone.len()
	c.unread = c.total - (mark.read - min(base, mark.slots)) + (gone & (1<<mark.slots - 1)).len()
	c.unseen = v.slots - max(base, u.seen) - (gone &^ (1<<u.seen - 1)).len()
	for place, g := range u.gaps {
		c.total += g.number
		c.unread += g.number - mark.readIn(int8(place), g)
	}
	if u.expired == 0 {
		c.total -= v.tombstones
	}
	for rest := v.dead &^ gone &^ (1<<base - 1); rest != 0; rest &= rest - 1 {
		at := rest.least()
		id := s.at[at]
		if u.expired > 0 {
			c.total--
		}
		if at/m.capacity >= mark.bucket && (id > mark.upTo || at >= mark.slots) {
			c.unread--
		}
		if at >= u.seen {
			c.unseen--
		}
		if place := u.gapOf(id); place >= 0 {
			c.total--
			if id > mark.upTo || place >= mark.gaps {
				c.unread--
			}
		}
	}
	if u.expired > 0 && u.expired >= mark.upTo {
		c.unread = c.total
	}
	if u.flagged {
		m.correct(s, &v, base, gone, &c)
	}
	return c
}

// correct counts the messages with flags as these say.
func (m *flagging) correct(s *flagged, v *flagView, base int8, gone ids, c *flagTally) {
	u := &v.user
	add := func(covered, read, unread, archived bool) {
		switch {
		case !covered && (read || archived):
			c.unread--
		case covered && unread && !archived:
			c.unread++
		}
		if archived {
			c.total--
			c.archived++
		}
	}
	dead := v.dead
	if m.mutation == deadFlagsCount {
		dead = 0
	}
	for at := base; at < v.slots; at++ {
		if gone.has(at) || dead.has(at) || s.at[at] <= u.expired || v.stubs.has(at/m.capacity) {
			continue
		}
		archived := v.maps.archived.slots.has(at)
		add(u.covers(s.at[at], at, u.mark.slots), v.maps.read.slots.has(at), v.maps.unread.slots.has(at), archived)
		if archived && at >= u.seen {
			c.unseen--
		}
	}
	for id := int8(1); id <= m.messages; id++ {
		place := u.gapOf(id)
		if place < 0 && m.mutation != cutFlagsCount || s.idsOf(dead).has(id) {
			continue
		}
		add(place >= 0 && u.covers(id, place, u.mark.gaps), v.maps.read.byID.has(id), v.maps.unread.byID.has(id), v.maps.archived.byID.has(id))
	}
}
