package main

import "fmt"

// seeking is a read of an inbox in several steps: for the entry with an id or, from a cursor, for a page.
type seeking struct {
	phase seekPhase
	page  bool // of the ids below the cursor's
	id    int8 // the entry's, or the cursor's
	at    int8 // the bucket
	// What the search knows, or is to know:
	slots       int8 // of the inbox, at the beginning
	read        int8 // of these, with ids that are not above id
	there, seen ids  // at the beginning, and found
}

// seekPhase is what a search does next.
type seekPhase uint8

const (
	notSeeking seekPhase = iota
	seekHead             // at the head, after a cursor's bucket was found to be out of date
	probing              // the floor of a bucket
	ranging              // over the buckets that have no late entries
	overlapping
	storing // stores the read mark
)

// cursor is the place where a page ended.
type cursor struct{ id, bucket int8 }

// mark is a read mark: see bucket.ReadMark. The gap is older than the mark.
type mark struct{ upTo, bucket, slots, read int8 }

// highestBelow returns the highest bucket with a floor below an id, at one moment.
func (s *poisoned) highestBelow(id int8) int8 {
	at := max(s.head(), 0)
	for at > s.lowest && s.buckets[at].floor >= id {
		at--
	}
	return at
}

// overlap returns the buckets above one to which a message below an id came late.
func (m *repairing) overlap(s *poisoned, above, id int8, yield func(int8, bucket)) {
	for i := above + 1; i < maxBuckets; i++ {
		b := s.buckets[i]
		switch {
		case b.late == 0 || b.late >= id:
		case m.overlapsAsToday() && b.ids&upTo(b.floor)&upTo(id-1)&^1 == 0:
		default:
			yield(i, b)
		}
	}
}

func (m *repairing) overlapsAsToday() bool {
	return m.mutation == overlapForDelete || m.mutation == overlapForCursor || m.mutation == overlapForMark
}

// found checks that searches at one moment find what they are to find.
func (m *repairing) found(s *poisoned) string {
	for i, b := range s.buckets {
		for rest := b.ids &^ (b.dead & m.future()) &^ upTo(s.expired); rest != 0; rest &= rest - 1 {
			id := rest.least()
			at := s.highestBelow(id)
			there := int8(i) == at
			m.overlap(s, at, id+1, func(n int8, _ bucket) { there = there || int8(i) == n })
			if !there {
				return fmt.Sprintf("%d is in bucket %d, and Delete does not find it", id, i)
			}
		}
	}
	if c := s.cursor; c.id > 0 {
		if seen := m.page(s, m.located(s, c), c.id); s.belowCursor(c.id)&^seen != 0 {
			return faults[pageLacks]
		}
	}
	return ""
}

// located returns the bucket from which a page from a cursor reads.
func (m *repairing) located(s *poisoned, c cursor) int8 {
	if m.outOfDate(s, c) {
		return s.highestBelow(c.id)
	}
	return c.bucket
}

// outOfDate reports whether a cursor's bucket is not the highest with a floor below the cursor's id.
func (m *repairing) outOfDate(s *poisoned, c cursor) bool {
	if m.mutation == cursorTrusted || m.mutation == overlapForCursor || c.bucket+1 == maxBuckets {
		return false
	}
	above := s.buckets[c.bucket+1]
	return above.exists && above.floor < c.id
}

// page returns what a page below an id finds from a bucket down.
func (m *repairing) page(s *poisoned, at, id int8) ids {
	seen := s.downFrom(at)
	m.overlap(s, at, id, func(_ int8, b bucket) { seen |= b.ids })
	return seen
}

func (s *poisoned) downFrom(at int8) (all ids) {
	for _, b := range s.buckets[:at+1] {
		all |= b.ids
	}
	return all
}

// belowCursor returns the entries that a page below an id has to show.
func (s *poisoned) belowCursor(id int8) (all ids) {
	for _, b := range s.buckets {
		all |= b.ids &^ b.dead & upTo(id-1) &^ upTo(s.expired)
	}
	return all
}

// seek makes a cursor, begins a search, or is the next operation of one.
func (m *repairing) seek(s poisoned, yield func(event, poisoned)) {
	q := &s.search
	switch q.phase {
	case notSeeking:
		m.seekAny(s, yield)
	case seekHead:
		m.fromHead(&s, q)
		yield(happened("the search for a page below %d begins at the head", q.id), s)
	case probing:
		at := q.at
		q.probe(&s)
		yield(happened("the search probes the floor of bucket %d", at), s)
	case ranging:
		m.scanRange(&s, q)
		yield(happened("the search reads bucket %d", q.at), s)
	case overlapping:
		m.scanLate(s, yield)
	case storing:
		to := mark{upTo: q.id, bucket: q.at, slots: q.slots, read: q.read}
		*q = seeking{}
		if s.mark.upTo <= to.upTo && s.mark.slots <= to.slots {
			s.mark = to
		}
		yield(happened("the mark up to %d, with %d read, is stored unless it goes back", to.upTo, to.read), s)
	}
}

func (m *repairing) seekAny(s poisoned, yield func(event, poisoned)) {
	if m.cursors && s.cursor.id == 0 {
		for id := range m.top() {
			t := s
			t.cursor = cursor{id + 1, s.highestBelow(id + 1)}
			yield(happened("a page ends at %d: its cursor names bucket %d", id+1, t.cursor.bucket), t)
		}
	}
	if s.searches == 0 || s.head() < 0 {
		return
	}
	s.searches--
	if c := s.cursor; c.id > 0 && m.mutation != overlapForMark && m.mutation != overlapForDelete {
		t := s
		t.search = seeking{phase: ranging, page: true, id: c.id, at: c.bucket, there: s.belowCursor(c.id)}
		if m.outOfDate(&s, c) {
			t.search.phase = seekHead
		}
		yield(happened("a page begins below %d", c.id), t)
	}
	for id := range m.top() {
		if m.future().has(id+1) && !m.futureIs {
			continue
		}
		t := s
		t.search = seeking{id: id + 1}
		m.fromHead(&t, &t.search)
		for _, b := range s.buckets {
			t.search.there |= b.ids &^ (b.dead & m.future()) & (2 << id)
		}
		yield(happened("a search for %d begins at the head", id+1), t)
	}
}

// fromHead reads the head.
func (m *repairing) fromHead(s *poisoned, q *seeking) {
	q.at = s.head()
	if !q.page && m.marks {
		q.slots = s.slots(m.capacity)
	}
	q.probe(s)
}

// probe looks at the floor of a bucket: it is the one, or the search goes further down.
func (q *seeking) probe(s *poisoned) {
	q.phase = ranging
	if q.at > 0 && s.buckets[q.at].floor >= q.id {
		q.at--
		if q.phase = probing; q.at == 0 {
			q.phase = ranging
		}
	}
}

func (m *repairing) scanRange(s *poisoned, q *seeking) {
	q.phase = overlapping
	switch {
	case q.page:
		q.seen = s.downFrom(q.at)
	case m.marks:
		q.read = q.at * m.capacity // all below
		fallthrough
	default:
		m.add(q, q.at, s.buckets[q.at])
	}
}

// add counts what a bucket holds for a search.
func (m *repairing) add(q *seeking, n int8, b bucket) {
	q.seen |= b.ids & (1 << q.id)
	if m.marks {
		b.each(func(slot, id int8) {
			if id <= q.id && n*m.capacity+slot < q.slots {
				q.read++
			}
		})
	}
}

// scanLate reads the late buckets, which ends a search.
func (m *repairing) scanLate(s poisoned, yield func(event, poisoned)) {
	q := s.search
	lacking := pageLacks
	if q.page {
		m.overlap(&s, q.at, q.id, func(_ int8, b bucket) { q.seen |= b.ids })
	} else {
		lacking = notDeleted
		m.overlap(&s, q.at, q.id+1, func(n int8, b bucket) { m.add(&q, n, b) })
	}
	s.search = seeking{}
	for _, b := range s.buckets {
		q.there &^= b.dead & m.future() // a repairer was faster
	}
	if q.there&^q.seen != 0 && m.mutation != overlapForMark {
		s.fault = lacking
	}
	yield(happened("the search reads the late buckets, and ends"), s)
	if m.marks && !q.page {
		q.read += (m.gap & upTo(q.id)).len()
		q.phase, q.there, q.seen = storing, 0, 0
		s.search = q
		yield(happened("the search reads the late buckets, to set a mark"), s)
	}
}

// slots returns the number of slots of an inbox.
func (s *inbox) slots(capacity int8) int8 {
	head := s.head()
	if head < 0 {
		return 0
	}
	return head*capacity + s.buckets[head].slots
}

// each yields the slots of a bucket with their ids.
func (b *bucket) each(yield func(slot, id int8)) {
	for slot := range b.slots {
		yield(slot, int8(b.order>>(4*slot)&15))
	}
}

// unread counts the unread messages as bucket.Counts does.
func (m *repairing) unread(s *poisoned) int8 {
	if !m.marks {
		return 0
	}
	unread := s.slots(m.capacity) - s.mark.read + m.gap.len()
	for i, b := range s.buckets {
		b.each(func(slot, id int8) {
			if !b.dead.has(id) {
				return
			}
			above := id > s.mark.upTo
			at := int8(i)*m.capacity + slot
			if (above || at >= s.mark.slots) && (int8(i) >= s.mark.bucket || m.mutation == deletionsFromZero) {
				unread--
			}
			if above && m.gap.has(id) {
				unread--
			}
		})
	}
	return unread
}

// reallyUnread returns the messages that are unread. A void id may be there twice, and then as two messages.
func (m *repairing) reallyUnread(s *poisoned) (all bag) {
	if !m.marks {
		return all
	}
	dead := ids(0)
	for i, b := range s.buckets {
		dead |= b.dead
		b.each(func(slot, id int8) {
			if !b.dead.has(id) && (id > s.mark.upTo || int8(i)*m.capacity+slot >= s.mark.slots) {
				all[id]++
			}
		})
	}
	for rest := m.gap &^ dead &^ upTo(s.mark.upTo); rest != 0; rest &= rest - 1 {
		all[rest.least()]++
	}
	return all
}

// bag is how often each id is there.
type bag [8]int8

func (b bag) len() (n int8) {
	for _, times := range b {
		n += times
	}
	return n
}

// mend lowers a read mark that is up to a void id, in one compare-and-swap: what it counts does not change.
func (m *repairing) mend(s poisoned, yield func(event, poisoned)) {
	if !s.void.has(s.mark.upTo) {
		return
	}
	before := m.reallyUnread(&s)
	to, read := int8(0), s.mark.bucket*m.capacity
	if m.mutation != gapForgottenByMend {
		to = max(to, (m.gap & upTo(s.mark.upTo)).most())
	}
	live := false
	m.counted(&s, func(_, id int8, dead bool) {
		live = live || s.void.has(id) && !dead
		if !s.void.has(id) {
			to = max(to, id)
		}
	})
	if live && m.mutation != mendedEarly {
		return
	}
	m.counted(&s, func(n, id int8, _ bool) {
		if n >= s.mark.bucket && id <= to {
			read++
		}
	})
	s.mark.upTo, s.mark.read = to, read+(m.gap&upTo(to)).len()
	if m.reallyUnread(&s) != before {
		s.fault = unreadAgain
	}
	yield(happened("the read mark is mended, up to %d", to), s)
}

// counted yields the slots that the read mark counts.
func (m *repairing) counted(s *poisoned, yield func(n, id int8, dead bool)) {
	for i, b := range s.buckets {
		b.each(func(slot, id int8) {
			if int8(i)*m.capacity+slot < s.mark.slots {
				yield(int8(i), id, b.dead.has(id))
			}
		})
	}
}
