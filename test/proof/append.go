package main

// appending models the protocol that puts a message into an inbox exactly once, for any number of writers, repeats and
// times. It has one owner. Its writers append any of the messages from any hint that is not ahead. They stall between any
// two operations on the store, and crash. The model follows bucket.Appender step by step; the package comment of pkg/bucket has the protocol.
//
// Ids are 1 to 3, and 0 is below all of them. Sets of ids are bits.
type appending struct {
	mutation mutation

	messages int8
	capacity int8
	writers  int
	attempts int8 // by each writer
	batches  bool // several messages at once
	deletes  int8

	marks    bool // the order of slots matters, because a read mark may be set
	gap      ids  // messages in a gap: writers append their tombstones
	expiring bool // messages expire (retain.go)
}

const (
	maxWriters = 3
	maxBuckets = 5
)

// inbox is a state of appending.
type inbox struct {
	buckets [maxBuckets]bucket
	writers [maxWriters]writer
	deletes int8
	// The protocol does not know these:
	acknowledged, deleted, removed ids

	expired int8 // P: all messages up to it have expired
	lowest  int8 // the lowest bucket of the embedded store, where messages expire
	gapped  ids  // messages in a gap that the user may delete

	now     int8 // the greatest id that there is yet, where times are compared (a mutation)
	counter int8 // the next slot (a mutation)
}

type bucket struct {
	exists      bool
	slots       int8
	ids         ids // tombstones included
	floor, last int8
	created     int8 // a reading of the creator's clock (a mutation)

	// Where messages expire:
	late  int8   // the least id that was pushed without proof that it is above the floor, or 0
	dead  ids    // tombstones
	order uint16 // the ids in the order of their slots, four bits for each
	stub  bool   // emptied, because all has expired; ids are what it held

	purged int8 // the greatest P for which it was emptied (retain.go)
}

// writer is an Append under way, and what the writer knows: see pending in pkg/bucket.
type writer struct {
	phase    doing
	attempts int8 // left
	all      ids
	entries  ids // neither pushed nor found yet

	hint     int8
	next     push
	filled   extent
	refusals int8

	head  int8   // the bucket that was seen as the head
	seen  extent // as it was then
	below int8   // the bucket to look at next
	now   int8   // the clock when the attempt began (a mutation)
}

type push struct {
	bucket        int8
	entries       ids
	guard, create bool
	floor         int8
}

type extent struct{ slots, last int8 }

func (b *bucket) extent() extent { return extent{b.slots, b.last} }

// doing is what a writer does next.
type doing uint8

const (
	resting doing = iota
	looking       // at the head
	lower         // at a bucket below it
	upward        // at one bucket after the other (a mutation)
	pushing
	counted // push onto the slot that the counter gave (a mutation)
)

// maxRefusals is more than can be refused: a hint that is behind, twice, and once for each message that others push.
const maxRefusals = 6

func (m *appending) initial() []inbox {
	s := inbox{deletes: m.deletes, now: m.messages, gapped: m.gap}
	if m.mutation == onceForBatch {
		s.now = 1
	}
	for i := range m.writers {
		s.writers[i].attempts = m.attempts
	}
	return []inbox{s}
}

func (m *appending) next(s inbox, yield func(event, inbox)) {
	for i := range m.writers {
		n := int8(i)
		w := s.writers[i]
		if w.phase == resting {
			if w.attempts > 0 {
				m.start(s, n, yield)
			}
			continue
		}
		t := s
		t.writers[i] = w.rest()
		yield(happened("writer %d crashes", n), m.normal(t))
		m.work(s, n, yield)
	}
	m.delete(s, yield)
	m.surroundings(s, yield)
}

// start begins an attempt with any messages and any hint.
func (m *appending) start(s inbox, n int8, yield func(event, inbox)) {
	for all := ids(2); all < 2<<m.messages; all += 2 {
		if all.len() > 1 && (!m.batches || all&m.gap != 0) || all&m.gap&^s.gapped != 0 || all.most() > s.now {
			continue
		}
		for hint := range m.hints(&s) {
			t := s
			w := &t.writers[n]
			*w = writer{phase: looking, attempts: w.attempts - 1, all: all, entries: all, hint: hint}
			if m.mutation == onceForBatch {
				w.now = s.now
			}
			switch {
			case m.mutation == counterAndPush:
				w.phase = counted
				w.head = t.counter
				t.counter++
			case all.len() <= m.capacity && m.floor(s.buckets[hint]) < all.least() || m.mutation == newestGuards:
				w.plan(push{bucket: hint, entries: all, guard: true})
			}
			yield(happened("writer %d is to append "+all.String()+", with bucket %d for a hint", n, hint), m.normal(t))
		}
	}
}

// hints returns how many hints there can be: one for each bucket, at least that of bucket 0.
func (m *appending) hints(s *inbox) int8 {
	head := s.head()
	if m.mutation == hintAhead && head >= 0 && s.buckets[head].slots == m.capacity {
		head++
	}
	return min(max(head, 0)+1, maxBuckets)
}

func (s *inbox) head() int8 {
	head := int8(-1)
	for i, b := range s.buckets {
		if b.exists {
			head = int8(i)
		}
	}
	return head
}

// work is the next operation of a writer on the store, with what follows from it.
func (m *appending) work(s inbox, n int8, yield func(event, inbox)) {
	w := &s.writers[n]
	switch w.phase {
	case resting:
	case looking:
		m.look(&s, w)
		yield(happened("writer %d looks at the head", n), m.normal(s))
	case lower:
		b := s.buckets[w.below]
		at := w.below
		w.entries &^= m.holds(&s, at)
		w.below--
		m.goDown(&s, w, m.floor(b))
		yield(happened("writer %d looks at bucket %d", n, at), m.normal(s))
	case upward:
		m.lookUp(s, n, yield)
	case pushing:
		m.push(s, n, yield)
	case counted:
		if b := &s.buckets[min(w.head/m.capacity, maxBuckets-1)]; b.ids&w.all != 0 {
			s.removed |= b.ids & w.all // twice in one bucket
		} else {
			b.exists, b.slots, b.ids = true, b.slots+1, b.ids|w.all
		}
		w.entries = 0
		m.finish(&s, w)
		yield(happened("writer %d pushes onto its slot", n), m.normal(s))
	}
}

func (m *appending) look(s *inbox, w *writer) {
	head := s.head()
	if m.mutation == oneQuery && head >= 0 {
		w.phase, w.below = upward, 0
		return
	}
	if head < w.hint {
		if w.hint > 0 {
			w.hint = 0
			return
		}
		w.plan(push{bucket: 0, entries: w.entries.oldest(m.capacity), guard: true})
		m.fill(w, extent{})
		return
	}
	b := s.buckets[head]
	w.saw(head)
	w.head, w.seen = head, b.extent()
	w.entries &^= m.holds(s, head)
	w.below = head - 1
	if m.mutation == fullHeadOnly && b.slots == m.capacity {
		w.below = -1
	}
	m.goDown(s, w, m.floor(b))
}

// goDown looks further below unless the floor of the bucket above proves that nothing of the rest is there.
func (m *appending) goDown(s *inbox, w *writer, floor int8) {
	switch {
	case w.entries == 0:
		m.finish(s, w)
	case w.below >= 0 && floor >= w.entries.least():
		w.phase = lower
	default:
		m.planOnto(w, w.head, w.seen)
	}
}

// lookUp is one query over all buckets, which reads each as it comes to it.
func (m *appending) lookUp(s inbox, n int8, yield func(event, inbox)) {
	w := &s.writers[n]
	at := w.below
	if at < maxBuckets && s.buckets[at].exists {
		b := s.buckets[at]
		w.entries &^= b.ids
		w.saw(at)
		w.head, w.seen = at, b.extent()
		w.below++
		yield(happened("writer %d reads bucket %d in its query", n, at), m.normal(s))
		return
	}
	w.below = -1
	m.goDown(&s, w, 0)
	yield(happened("writer %d comes to the end of its query", n), m.normal(s))
}

// holds returns the ids that a writer takes as delivered when it reads a bucket.
func (m *appending) holds(s *inbox, bucket int8) ids {
	if s.buckets[bucket].stub && m.mutation == stubUnseen {
		return 0 // it reads the entries, and there are none
	}
	if bucket < s.lowest && m.mutation == lowestUnseen {
		return 0
	}
	return s.holds(bucket)
}

func (s *inbox) holds(bucket int8) ids {
	switch b := s.buckets[bucket]; {
	case bucket < s.lowest:
		return upTo(s.buckets[s.lowest].floor)
	case b.stub:
		return upTo(b.last)
	default:
		return b.ids
	}
}

func (w *writer) saw(bucket int8) { w.hint = max(w.hint, bucket) }

func (w *writer) plan(p push) {
	w.phase, w.next, w.filled = pushing, p, extent{}
}

// fill notes the extent of the bucket after next, if next fills it.
func (m *appending) fill(w *writer, onto extent) {
	if onto.slots+w.next.entries.len() == m.capacity {
		w.filled = extent{m.capacity, max(onto.last, w.next.entries.most())}
	}
}

// planOnto plans a push onto a bucket that was seen or, if it was full, onto the one after it.
func (m *appending) planOnto(w *writer, bucket int8, seen extent) {
	p := push{bucket: bucket, entries: w.entries.oldest(m.capacity - seen.slots)}
	if seen.slots >= m.capacity {
		p = push{bucket: bucket + 1, entries: w.entries.oldest(m.capacity), create: true, floor: seen.last}
		seen = extent{last: seen.last}
	}
	if m.mutation == allOrNothing {
		p.entries = w.entries
	}
	w.plan(p)
	m.fill(w, seen)
}

// push lets the store apply or refuse a push. A refusal may return the extent that the store saw.
func (m *appending) push(s inbox, n int8, yield func(event, inbox)) {
	w := &s.writers[n]
	p := w.next
	b := &s.buckets[p.bucket]
	if !m.applies(*b, p) || p.bucket < s.lowest && m.mutation != lowestElsewhere {
		seen := b.extent()
		w.next, w.filled = push{}, extent{}
		w.phase = looking
		w.refusals++
		yield(happened("writer %d is refused by bucket %d", n, p.bucket), m.normal(s))
		if w.refusals == 1 && seen.slots > 0 && (seen.last < w.entries.least() || m.mutation == refusalIsLook) {
			m.planOnto(w, p.bucket, seen)
			yield(happened("writer %d is refused by bucket %d, whose last is below", n, p.bucket), m.normal(s))
		}
		return
	}
	if !b.exists {
		*b = bucket{exists: true, floor: p.floor, last: p.floor}
		if m.mutation == lastForgotten {
			b.last = 0
		}
		if m.mutation == onceForBatch && p.bucket > 0 {
			b.created = w.now // with timeForFloor, the host's clock is behind by more than there are messages
		}
	}
	if m.expiring {
		b.note(p, m.gap, m.marks)
	}
	b.slots += p.entries.len()
	b.ids |= p.entries
	b.last = max(b.last, p.entries.most())
	w.entries &^= p.entries
	if p.create {
		w.saw(p.bucket)
	}
	filled := w.filled
	w.next, w.filled = push{}, extent{}
	w.phase = looking
	switch {
	case w.entries == 0:
		m.finish(&s, w)
	case filled.slots > 0:
		m.planOnto(w, p.bucket, filled)
	}
	yield(happened("writer %d pushes "+p.entries.String()+" onto bucket %d", n, p.bucket), m.normal(s))
}

// floor returns the floor of a bucket, or what takes its place.
func (m *appending) floor(b bucket) int8 {
	if m.mutation == timeForFloor || m.mutation == onceForBatch {
		return b.created
	}
	return b.floor
}

// applies is the condition of a push.
func (m *appending) applies(b bucket, p push) bool {
	if !b.exists && p.bucket > 0 && !p.create && m.mutation != hintAhead {
		return false
	}
	guarded := b.floor < p.entries.least()
	switch m.mutation {
	case timeForFloor, onceForBatch:
		guarded = m.floor(b) < p.entries.least()
	case newestGuards:
		guarded = b.floor < p.entries.most()
	default:
	}
	return b.slots+p.entries.len() <= m.capacity && b.ids&p.entries == 0 && (!p.guard || guarded)
}

// finish ends an attempt: all its messages are pushed or found.
func (m *appending) finish(s *inbox, w *writer) {
	s.acknowledged |= w.all
	*w = w.rest()
}

// rest is the writer between two attempts.
func (w *writer) rest() writer { return writer{attempts: w.attempts} }

// delete lets the owner delete an entry.
func (m *appending) delete(s inbox, yield func(event, inbox)) {
	if s.deletes == 0 {
		return
	}
	for i, b := range s.buckets {
		for id := range m.messages + 1 {
			if !b.ids.has(id) || s.deleted.has(id) {
				continue
			}
			t := s
			t.deletes--
			t.deleted |= 1 << id
			if m.mutation == noTombstone {
				t.buckets[i].ids &^= 1 << id
			}
			yield(happened("the owner deletes %d", id), t)
		}
	}
}

// surroundings are what happens besides, with some mutations.
func (m *appending) surroundings(s inbox, yield func(event, inbox)) {
	if s.now < m.messages {
		t := s
		t.now++
		yield(happened("message %d is published", t.now), t)
	}
	if b := s.buckets[0]; m.mutation == bucketRemoved && s.head() > 0 && b.exists {
		t := s
		t.buckets[0] = bucket{}
		t.removed = b.ids
		yield(happened("bucket 0 is old and is removed"), t)
	}
}

// note keeps what reading needs of a push: see placed.mayBeLate in internal/mongostore.
func (b *bucket) note(p push, gap ids, ordered bool) {
	least := p.entries.least()
	proved := p.bucket == 0 || p.guard || p.create && p.floor < least
	if !proved && (b.late == 0 || least < b.late) {
		b.late = least
	}
	slot := b.slots
	b.dead |= p.entries & gap
	if !ordered {
		return
	}
	for rest := p.entries; rest != 0; rest &= rest - 1 {
		b.order |= uint16(rest.least()) << (4 * slot)
		slot++
	}
}

// each yields the slots of a bucket with their ids.
func (b *bucket) each(yield func(slot, id int8)) {
	for slot := range b.slots {
		yield(slot, int8(b.order>>(4*slot)&15))
	}
}

// forget leaves out what writers know and do not use any more. How often more than twice one was refused is not kept.
func (s *inbox) forget() {
	for i := range s.writers {
		w := &s.writers[i]
		w.hint = 0 // never ahead, so a look does not depend on it
		w.refusals = min(w.refusals, 2)
		if w.phase == pushing {
			w.head, w.seen, w.below = 0, extent{}, 0
		}
	}
}
