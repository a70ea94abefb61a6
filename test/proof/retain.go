package main

import (
	"fmt"
	"strings"
)

// retaining models how messages expire. A user's record has P: all messages with an id up to P have expired. P is raised first, and buckets
// are emptied afterwards, by any process, in any order, for any P that was ever there. Appending goes on as in appending, without a look
// at P. The runs that keep the newest messages come before the code.
type retaining struct {
	appending

	raises    int8 // of P
	deletions int8
	pages     int8 // read bucket by bucket
	expiryEnd bool // a page reads P after the buckets
	embedded  bool // the lowest bucket is removed, and there are no stubs
	drops     bool // a writer that knows P may leave out what has expired

	markings int8   // read marks that are set; with marks, counts are compared
	spans    []span // gaps that rehydrations make; they hold m.gap

	newest   int8 // how many messages runs keep
	trimmers int  // runs at a time
	trims    int8 // runs
	anyOrder bool // a run reads the buckets below the head in any order
	pairs    bool // two ids belong to a millisecond
	atOnce   bool // a message arrives in one step
	twoSteps bool // deleting a message in a gap appends an entry, and then makes it a tombstone
	clocks   bool // time passes, and a message arrives when its time has come
	ahead    ids  // from a clock that is ahead
}

// retained is a state of retaining.
type retained struct {
	inbox
	countedUser
	emptied  ids  // entries that have lost their bodies
	deleting int8 // an entry that Delete has found, or 0
	page     paging
	marking  newMarking
	trimmers [maxTrimmers]trimmer
	made     int8 // gaps

	readInGaps ids // messages in gaps that are read; the protocol does not know them

	raises, deletions, pages, markings, trims int8 // left

	fault fault
}

// paging is a page under way.
type paging struct {
	phase       pagePhase
	at          int8 // the bucket that is read next
	expired     int8 // all up to here has expired: E
	before      int8 // P when the page began
	there       ids  // what the page has to show, if it does not expire
	seen, blank ids  // with and without a body
}

type pagePhase uint8

const (
	notPaging pagePhase = iota
	pageHead
	pageBelow
	pageExpiry // reads P last
)

// fault is what a step did wrong.
type fault uint8

const (
	noFault fault = iota
	blankShown
	expiredShown
	liveMissing
	beyondExpiry
	expiredEarly
	arrivesLate
)

var faults = [...]string{
	blankShown:   "a page shows an entry that has lost its body",
	expiredShown: "a page shows an entry that had expired before",
	liveMissing:  "a page lacks an entry that was there before, and says that it has not expired",
	beyondExpiry: "a page says that something has expired, and it has not",
	expiredEarly: "a run lets a message expire, and there were not N above it",
	arrivesLate:  "a message has expired when it arrives, and was not on its way for long",
}

func (m *retaining) initial() []retained {
	s := retained{
		inbox: m.appending.initial()[0], raises: m.raises, deletions: m.deletions, pages: m.pages, markings: m.markings,
		trims: m.trims,
	}
	s.gapped = 0
	if m.clocks {
		s.now = 1
	}
	return []retained{s}
}

func (m *retaining) next(s retained, yield func(event, retained)) {
	after := func(e event, t retained) {
		if t.marking == s.marking && (t.expired != s.expired || t.countedUser != s.countedUser) && m.mutation != markUncompared {
			t.marking = newMarking{} // its update will be refused
		}
		if m.arrivesExpired(&s, &t) {
			t.fault = arrivesLate
		}
		m.witness(&t)
		yield(e, m.normal(t))
	}
	m.appending.next(s.inbox, func(e event, to inbox) {
		t := s
		t.inbox = to
		after(e, t)
	})
	if m.atOnce {
		m.arrive(s, after)
	}
	m.drop(s, after)
	m.raise(s, after)
	m.empty(s, after)
	m.remove(s, after)
	m.readPage(s, after)
	m.makeGap(s, after)
	m.setMark(s, after)
	m.newestAlone(s, after)
}

// drop lets a writer that knows some P leave out what has expired.
func (m *retaining) drop(s retained, yield func(event, retained)) {
	if !m.drops {
		return
	}
	for i, w := range s.writers {
		if left := w.entries &^ upTo(s.expired); w.phase == looking && left != w.entries {
			t := s
			t.writers[i].entries = left
			t.writers[i].all &^= upTo(s.expired)
			if left == 0 {
				m.finish(&t.inbox, &t.writers[i])
			}
			yield(happened("writer %d leaves out what has expired", int8(i)), t)
		}
	}
}

// raise raises P.
func (m *retaining) raise(s retained, yield func(event, retained)) {
	if s.raises == 0 {
		return
	}
	least := s.expired + 1
	if m.mutation == expirySet {
		least = 1
	}
	for p := least; p <= m.messages; p++ {
		t := s
		t.raises--
		t.expired = p
		m.cutGaps(&t)
		yield(happened("P becomes %d", p), t)
	}
}

// empty empties a bucket for a P that was there at any time.
func (m *retaining) empty(s retained, yield func(event, retained)) {
	known := s.expired
	if m.mutation == emptiedFirst && s.raises > 0 {
		known = m.messages // and P is to be raised to it next
	}
	for i, b := range s.buckets {
		if !b.exists || b.stub {
			continue
		}
		for p := int8(1); p <= known; p++ {
			t := s
			if b.slots == m.capacity && b.last <= p {
				if m.emptyWhole(&t, int8(i), p) {
					yield(happened("bucket %d is emptied for P %d, and nothing is left of it but its bounds", int8(i), p), t)
				}
				continue
			}
			if m.newest == 0 && m.emptyPart(&t, int8(i), p) {
				yield(happened("entries of bucket %d lose their bodies for P %d", int8(i), p), t)
			}
		}
	}
}

// emptyWhole makes a stub of a full bucket, or removes it. It reports whether it did.
func (m *retaining) emptyWhole(s *retained, i, p int8) bool {
	b := &s.buckets[i]
	if !m.embedded {
		b.stub, b.late, b.purged = true, 0, max(b.purged, p)
		return true
	}
	if s.head() == i || s.buckets[i+1].floor > p {
		return false
	}
	for lower := range i {
		if s.buckets[lower].exists {
			return false
		}
	}
	s.removed |= b.ids
	*b = bucket{}
	if m.mutation != lowestUnknown {
		s.lowest = i + 1
	}
	return true
}

// emptyPart takes the bodies of the entries up to P, which keep their ids and slots. It reports whether there were any.
func (m *retaining) emptyPart(s *retained, i, p int8) bool {
	b := &s.buckets[i]
	gone := b.ids &^ b.dead &^ s.emptied & upTo(p)
	switch {
	case gone == 0:
		return false
	case m.mutation == entriesDropped && b.slots < m.capacity:
		s.removed |= gone
		b.ids &^= gone
		b.order = 0
		return true
	case m.mutation == entriesPulled && b.slots < m.capacity:
		s.removed |= gone
		b.ids &^= gone
		b.slots -= gone.len()
		b.order = 0
		return true
	}
	s.emptied |= gone
	b.purged = max(b.purged, p)
	return true
}

// remove lets the owner delete an entry, in two steps: find it, and make it a tombstone. In between it may expire. Then it does not matter
// whether it becomes a tombstone, and both are tried.
func (m *retaining) remove(s retained, yield func(event, retained)) {
	if id := s.deleting; id > 0 {
		s.deleting = 0
		i := s.holder(id)
		if i < 0 || s.buckets[i].stub {
			yield(happened("%d has expired before it is deleted", id), s)
			return
		}
		if s.emptied.has(id) {
			yield(happened("%d has expired, and stays as it is", id), s)
		}
		s.buckets[i].dead |= 1 << id
		s.deleted |= 1 << id
		yield(happened("%d becomes a tombstone", id), s)
		return
	}
	if s.deletions == 0 {
		return
	}
	for rest := s.live(); rest != 0; rest &= rest - 1 {
		t := s
		t.deletions--
		t.deleting = rest.least()
		yield(happened("Delete finds %d", t.deleting), t)
	}
}

// holder returns the bucket that holds an id, or -1.
func (s *retained) holder(id int8) int8 {
	for i, b := range s.buckets {
		if b.ids.has(id) {
			return int8(i)
		}
	}
	return -1
}

// live returns the entries that are neither deleted nor expired.
func (s *retained) live() (all ids) {
	for _, b := range s.buckets {
		all |= b.ids &^ b.dead
	}
	return all &^ upTo(s.expired)
}

// readPage begins a page, or is the next read of one: P, the head, and then down, until a floor says that all below has expired.
func (m *retaining) readPage(s retained, yield func(event, retained)) {
	g := &s.page
	switch g.phase {
	case notPaging:
		if s.pages > 0 {
			s.pages--
			*g = paging{phase: pageHead, before: s.expired, there: s.live()}
			if !m.expiryEnd {
				g.expired = s.expired
			}
			yield(happened("a page begins, and P is %d", s.expired), s)
		}
	case pageHead:
		if g.at = s.head(); g.at < 0 {
			m.endPage(&s)
			yield(happened("the page finds no bucket"), s)
			return
		}
		fallthrough
	case pageBelow:
		at := g.at
		m.pageReads(&s, at)
		yield(happened("the page reads bucket %d", at), s)
	case pageExpiry:
		g.expired = s.expired
		m.endPage(&s)
		yield(happened("the page reads that P is %d, and ends", s.expired), s)
	}
}

func (m *retaining) pageReads(s *retained, at int8) {
	g := &s.page
	g.phase = pageBelow
	b := s.buckets[at]
	floor := b.floor
	switch {
	case at < s.lowest:
		m.learn(g, s.buckets[s.lowest].floor)
		floor = 0
	case b.stub:
		m.learn(g, b.last)
	default:
		g.seen |= b.ids &^ b.dead &^ s.emptied
		g.blank |= b.ids &^ b.dead & s.emptied
	}
	m.learn(g, b.purged)
	if g.at--; g.at >= 0 && at >= s.lowest && floor > g.expired {
		return
	}
	if m.expiryEnd {
		g.phase = pageExpiry
		return
	}
	m.endPage(s)
}

// learn notes that all up to an id has expired.
func (m *retaining) learn(g *paging, id int8) {
	if !m.expiryEnd && m.mutation != expiryReadFirst && m.mutation != lowestUnread {
		g.expired = max(g.expired, id)
	}
}

// endPage compares the page with the inbox.
func (m *retaining) endPage(s *retained) {
	g := s.page
	s.page = paging{}
	shown := ^upTo(g.expired)
	if m.mutation == expiredNotLeftOut {
		shown = ^ids(0)
	}
	switch {
	case g.blank&shown != 0 && m.mutation != expiredNotLeftOut:
		s.fault = blankShown
	case g.seen&shown&upTo(g.before) != 0:
		s.fault = expiredShown
	case g.there&^s.deleted&^g.seen&^upTo(g.expired) != 0:
		s.fault = liveMissing
	case g.expired > s.expired:
		s.fault = beyondExpiry
	}
}

func (m *retaining) wrong(s retained) string {
	if s.fault != noFault {
		return faults[s.fault]
	}
	if w := m.appending.wrong(s.inbox); w != "" {
		return w
	}
	gone := s.emptied
	for _, b := range s.buckets {
		if b.stub {
			gone |= b.ids &^ b.dead
		}
	}
	if early := (gone | s.removed) &^ upTo(s.expired) &^ s.deleted; early != 0 {
		return fmt.Sprintf("%v has lost its body, and has not expired", early)
	}
	if m.inexact(&s) {
		return "a run leaves other messages than the newest"
	}
	return m.countsWrong(&s)
}

func (m *retaining) stuck(s retained) string {
	if s.page.phase != notPaging {
		return "a page has come to no end"
	}
	if s.trimmers != [maxTrimmers]trimmer{} {
		return "a run has come to no end"
	}
	return m.appending.stuck(s.inbox)
}

func (m *retaining) normal(s retained) retained {
	if m.pages > 0 || m.marks || m.newest > 0 {
		s.forget()
	}
	if m.marks || m.newest > 0 {
		for _, b := range s.buckets {
			s.acknowledged &^= b.ids // a body that is lost is looked for besides
		}
	}
	s.inbox = m.appending.normal(s.inbox)
	if m.mutation == correct && s.trimmers[0].weight() < s.trimmers[1].weight() {
		s.trimmers[0], s.trimmers[1] = s.trimmers[1], s.trimmers[0]
	}
	return s
}

func (m *retaining) show(s retained) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s; P %d, without body {%v}", m.appending.show(s.inbox), s.expired, s.emptied)
	for i, b := range s.buckets {
		if b.stub {
			fmt.Fprintf(&text, ", bucket %d is a stub", i)
		}
	}
	if m.marks || m.spans != nil {
		fmt.Fprintf(&text, "; gaps %v, read %+v", s.gaps, s.mark)
	}
	return text.String()
}
