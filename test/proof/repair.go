package main

import (
	"fmt"
	"strings"
)

// repairing models the repair of an inbox that was poisoned by messages from the future. The ids above the messages are from
// the future. The model begins with every inbox of a length that holds such an id, and appends as appending does. Repairers lower
// the bounds, bucket by bucket, while searches, a cursor, a read mark, deletions and the expiry of messages go on.
type repairing struct {
	appending

	length    int8 // slots that are taken at first
	futures   int8 // ids from the future
	apart     bool // of two, one is known to be void only later
	repairers int
	passes    int8 // by all repairers together
	deletions int8
	searches  int8 // by all kinds of searches together
	cursors   bool // a page ends, and another one begins there
	futureIs  bool // a mark may be up to an id from the future
	expiry    bool // messages expire: full buckets become stubs
	embedded  bool // with expiry, buckets are removed, the lowest one first
}

const maxRepairers = 2

// poisoned is a state of repairing.
type poisoned struct {
	inbox
	repairers [maxRepairers]repairer
	void      ids // ids from the future that are known to be void
	search    seeking
	cursor    cursor
	mark      mark

	passes, deletions, searches int8 // left

	// The protocol does not know these:
	passed bool // a pass has ended (a mutation)
	fault  fault
}

// fault is what a step did wrong.
type fault uint8

const (
	noFault fault = iota
	lost
	fullChanged
	notDeleted
	pageLacks
	unreadAgain
	blankShown
	expiredShown
	liveMissing
	beyondExpiry
	expiredEarly
	arrivesLate
)

var faults = [...]string{
	lost:        "a bucket has lost an id",
	fullChanged: "a full bucket has changed",
	notDeleted:  "an entry is there, and Delete does not find it",
	pageLacks:   "a page from a cursor lacks an entry that was there before",
	unreadAgain: "a mended read mark changes what is unread",

	blankShown:   "a page shows an entry that has lost its body",
	expiredShown: "a page shows an entry that had expired before",
	liveMissing:  "a page lacks an entry that was there before, and says that it has not expired",
	beyondExpiry: "a page says that something has expired, and it has not",
	expiredEarly: "a run lets a message expire, and there were not N above it",
	arrivesLate:  "a message has expired when it arrives, and was not on its way for long",
}

// top is the greatest id.
func (m *repairing) top() int8 { return m.messages + m.futures }

// future returns all ids from the future.
func (m *repairing) future() ids { return upTo(m.top()) &^ upTo(m.messages) }

// initial returns every inbox of the length that holds an id from the future, or to which a writer may still append one.
func (m *repairing) initial() []poisoned {
	var all []poisoned
	var add func(s inbox, left int8, held ids)
	add = func(s inbox, left int8, held ids) {
		if left > 0 {
			for id := range m.top() {
				if !held.has(id+1) && !m.gap.has(id+1) {
					add(m.appended(s, id+1), left-1, held|2<<id)
				}
			}
			return
		}
		if held&m.future() == 0 && m.held == 0 {
			return
		}
		known := []ids{m.future()}
		if m.apart {
			known = []ids{1 << (m.messages + 1), 1 << (m.messages + 2)}
		}
		for _, void := range known {
			all = append(all, poisoned{inbox: s, void: void, passes: m.passes, deletions: m.deletions, searches: m.searches})
		}
	}
	add(m.appending.initial()[0], m.length, 0)
	return all
}

// appended returns an inbox with one message more.
func (m *repairing) appended(s inbox, id int8) inbox {
	n := max(s.head(), 0)
	floor := s.buckets[n].floor
	if s.buckets[n].slots == m.capacity {
		floor = s.buckets[n].last
		n++
	}
	b := &s.buckets[n]
	if !b.exists {
		*b = bucket{exists: true, floor: floor, last: floor, sized: m.first(m.capacity, 0)}
	}
	b.note(push{bucket: n, entries: 1 << id, guard: floor < id}, 0, m.marks)
	b.slots++
	b.ids |= 1 << id
	b.last = max(b.last, id)
	return s
}

func (m *repairing) next(s poisoned, yield func(event, poisoned)) {
	after := func(e event, t poisoned) {
		for i, b := range s.buckets {
			if now := t.buckets[i]; b.ids&^now.ids != 0 {
				t.fault = lost
			} else if b.slots == m.capacity && (now.ids != b.ids || now.slots != b.slots) {
				t.fault = fullChanged
			}
		}
		yield(e, m.normal(t))
	}
	m.appending.next(s.inbox, func(e event, to inbox) {
		t := s
		t.inbox = to
		after(e, t)
	})
	for i := range m.repairers {
		m.repair(s, int8(i), after)
	}
	if unknown := m.future() &^ s.void; unknown != 0 {
		t := s
		t.void |= unknown
		after(happened("all processes learn that %d is void", unknown.least()), t)
	}
	m.remove(s, after)
	m.seek(s, after)
	m.mend(s, after)
	m.expire(s, after)
}

// remove lets the owner delete an entry.
func (m *repairing) remove(s poisoned, yield func(event, poisoned)) {
	if s.deletions == 0 {
		return
	}
	s.deletions--
	for i, b := range s.buckets {
		for rest := b.ids &^ b.dead; rest != 0; rest &= rest - 1 {
			t := s
			t.buckets[i].dead |= 1 << rest.least()
			yield(happened("the owner deletes %d", rest.least()), t)
		}
	}
}

// expire raises P, or empties a full bucket whose last is not above P. The embedded store removes the bucket.
func (m *repairing) expire(s poisoned, yield func(event, poisoned)) {
	if !m.expiry {
		return
	}
	if s.expired < m.top() {
		t := s
		t.expired++
		yield(happened("what was sent up to %d expires", t.expired), t)
	}
	for i, b := range s.buckets {
		n := int8(i)
		if !b.exists || b.stub || b.slots < m.capacity || b.last > s.expired {
			continue
		}
		t := s
		if m.embedded {
			if n != s.lowest || n == s.head() || s.buckets[n+1].floor > s.expired {
				continue
			}
			t.lowest++
		}
		t.buckets[i].stub, t.buckets[i].late = true, 0
		yield(happened("bucket %d is emptied", n), t)
	}
}

func (m *repairing) wrong(s poisoned) string {
	if s.fault != noFault {
		return faults[s.fault]
	}
	if w := m.appending.wrong(s.inbox); w != "" {
		return w
	}
	if w := m.bounds(&s); w != "" {
		return w
	}
	if w := m.found(&s); w != "" {
		return w
	}
	if got, is := m.unread(&s), m.reallyUnread(&s); got != is.len() {
		return fmt.Sprintf("%d messages count as unread, and %d are", got, is.len())
	}
	if m.mutation == onePass && (!s.passed || !s.atRest()) {
		return ""
	}
	end := s
	if m.mutation != onePass {
		sound := *m
		sound.mutation = correct
		sound.pass(&end)
	}
	return m.dishonest(&end)
}

// bounds checks that bounds cover the ids that they must, that floors are in order, and that late ids are marked.
func (m *repairing) bounds(s *poisoned) string {
	var below ids
	for i, b := range s.buckets {
		if !b.exists {
			break
		}
		if i > 0 && b.floor < s.buckets[i-1].floor {
			return fmt.Sprintf("the floor of bucket %d is below that of the bucket before", i)
		}
		if n := below.most(); b.floor < n {
			return fmt.Sprintf("the floor of bucket %d is below %d, which is in an earlier bucket", i, n)
		}
		below |= b.ids &^ (b.dead & s.void)
		if n := below.most(); b.last < n {
			return fmt.Sprintf("the last of bucket %d is below %d, which is in it or in an earlier bucket", i, n)
		}
		if late := b.ids & upTo(b.floor); late != 0 && !b.stub && (b.late == 0 || late.least() < b.late) {
			return fmt.Sprintf("%d is in bucket %d, not above its floor, and not marked late", late.least(), i)
		}
	}
	return ""
}

// dishonest says which bounds are above the greatest id that they have to cover.
func (m *repairing) dishonest(s *poisoned) string {
	var below ids
	for i, b := range s.buckets {
		if !b.exists {
			break
		}
		if int8(i) < s.lowest {
			below |= b.ids &^ s.void
			continue
		}
		if b.floor != max(below.most(), 0) && b.floor > s.expired {
			return fmt.Sprintf("after a pass the floor of bucket %d is %d", i, b.floor)
		}
		below |= b.ids &^ s.void
		if b.last != max(below.most(), 0) && b.last > s.expired {
			return fmt.Sprintf("after a pass the last of bucket %d is %d", i, b.last)
		}
	}
	return ""
}

// atRest reports whether neither a writer nor a repairer is under way.
func (s *poisoned) atRest() bool {
	for _, w := range s.writers {
		if w.phase != resting {
			return false
		}
	}
	return s.repairers == [maxRepairers]repairer{}
}

func (m *repairing) stuck(s poisoned) string {
	if s.repairers != [maxRepairers]repairer{} {
		return "a repairer has come to no end"
	}
	if s.search.phase != notSeeking {
		return "a search has come to no end"
	}
	return m.appending.stuck(s.inbox)
}

// normal leaves out what the future does not depend on, and puts writers and repairers into an order: they have no identity.
func (m *repairing) normal(s poisoned) poisoned {
	s.forget()
	for i := range s.buckets {
		s.acknowledged &^= s.holds(int8(i)) // a bucket that loses an id is a fault of its own
	}
	s.inbox = m.appending.normal(s.inbox)
	if m.mutation == correct && s.repairers[0].weight() < s.repairers[1].weight() {
		s.repairers[0], s.repairers[1] = s.repairers[1], s.repairers[0]
	}
	return s
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

func (m *repairing) show(s poisoned) string {
	var text strings.Builder
	text.WriteString(m.appending.show(s.inbox))
	for i, b := range s.buckets {
		if b.exists && (b.late != 0 || b.dead != 0 || b.stub) {
			fmt.Fprintf(&text, "; bucket %d: late %d, tombstones {%v}, stub %t", i, b.late, b.dead, b.stub)
		}
	}
	if s.mark != (mark{}) {
		fmt.Fprintf(&text, "; read %+v", s.mark)
	}
	if s.cursor != (cursor{}) {
		fmt.Fprintf(&text, "; cursor %+v", s.cursor)
	}
	return text.String()
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
