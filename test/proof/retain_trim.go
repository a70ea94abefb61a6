package main

// A run keeps the newest N messages: it raises P so that all below them expire. It reads the record, the head, and the buckets below, and
// counts what is not deleted from the greatest id down. The gaps count with what is not deleted in them.

const maxTrimmers = 2

// trimmer is a run under way, and what it knows.
type trimmer struct {
	phase  trimPhase
	before int8 // P as it was read
	inGaps ids  // as the gaps were read

	head   int8 // and the lowest bucket of those that were read without a hole
	low    int8
	read   uint8 // the buckets that were read, as bits
	stubs  uint8 // those of them that were stubs
	live   ids   // entries that are no tombstones
	dead   ids   // tombstones
	floor  int8  // of the lowest bucket, or 0 if all below has expired
	bottom bool  // there is nothing to read any more

	to int8 // P is to be raised to this

	limit int8 // N messages were above each one up to here when the head was read; the protocol does not know it
}

type trimPhase uint8

const (
	notTrimming trimPhase = iota
	trimHead
	trimBelow
	trimRaise
)

// slack is how long a message from an honest clock may take.
const slack = 1

// arrive lets a message arrive in one step. A message in a gap arrives as a tombstone when it is deleted.
func (m *retaining) arrive(s retained, yield func(event, retained)) {
	held := s.removed
	for _, b := range s.buckets {
		held |= b.ids
	}
	for id := int8(1); id <= m.messages; id++ {
		deleted := m.gap.has(id)
		if held.has(id) || deleted && (!s.gapped.has(id) || s.deletions == 0) || id > s.now && !m.ahead.has(id) {
			continue
		}
		t := s
		if deleted {
			t.deletions--
		}
		if !m.arrived(&t, id) {
			continue // it has expired
		}
		yield(happened("%d arrives", id), t)
	}
}

func (m *retaining) arrived(s *retained, id int8) bool {
	n := max(s.head(), 0)
	for i := n; ; i-- {
		if s.holds(i).has(id) {
			return false
		}
		if i <= s.lowest-1 || i == 0 || s.buckets[i].floor < id {
			break
		}
	}
	p := push{bucket: n, entries: 1 << id, guard: s.buckets[n].floor < id}
	if b := s.buckets[n]; b.exists && b.slots == m.capacity {
		p = push{bucket: n + 1, entries: 1 << id, create: true, floor: b.last}
	}
	b := &s.buckets[p.bucket]
	if !b.exists {
		*b = bucket{exists: true, floor: p.floor, last: p.floor}
	}
	b.slots++
	b.ids |= p.entries
	b.last = max(b.last, id)
	if !m.twoSteps {
		b.dead |= p.entries & m.gap
	}
	return true
}

// present returns the messages that are neither deleted nor expired, those in gaps too.
func (s *retained) present() ids {
	dead := ids(0)
	for _, b := range s.buckets {
		dead |= b.dead
	}
	return s.live() | s.inGaps()&^dead
}

// witness notes for the runs of a shortcut how far N messages are above, at any moment of the run: so what it does wrong is not only that the
// moment is another one than the read of the head.
func (m *retaining) witness(s *retained) {
	for i := range s.trimmers {
		if k := &s.trimmers[i]; k.phase != notTrimming && m.mutation != correct {
			k.limit = max(k.limit, m.nth(s.present())-1)
		}
	}
}

// earlier returns the last id of the millisecond before that of an id.
func (m *retaining) earlier(id int8) int8 {
	if m.pairs {
		return (id - 1) / 2 * 2
	}
	return id - 1
}

// nth returns the N-th greatest id, or 0.
func (m *retaining) nth(all ids) int8 {
	for n := m.newest; n > 1 && all != 0; n-- {
		all &^= 1 << all.most()
	}
	return max(all.most(), 0)
}

// newestAlone takes a step of a run.
func (m *retaining) newestAlone(s retained, yield func(event, retained)) {
	if m.newest == 0 {
		return
	}
	if m.twoSteps {
		m.finishDeletion(s, yield)
	}
	for i := range m.trimmers {
		n := int8(i)
		switch k := &s.trimmers[i]; k.phase {
		case notTrimming:
			if t := s; s.trims > 0 {
				t.trims--
				t.trimmers[i] = trimmer{phase: trimHead, before: s.expired, inGaps: s.inGaps()}
				yield(happened("run %d reads P %d and the gaps", n, s.expired), t)
			}
		case trimHead:
			m.readHead(s, n, yield)
		case trimBelow:
			m.readBelow(s, n, yield)
		case trimRaise:
			t := s
			m.trim(&t, &t.trimmers[i])
			yield(happened("run %d raises P to %d, unless it is above", n, k.to), t)
		}
	}
}

// finishDeletion makes a tombstone of the entry that deletes a message in a gap.
func (m *retaining) finishDeletion(s retained, yield func(event, retained)) {
	for i, b := range s.buckets {
		for rest := b.ids & m.gap &^ b.dead; rest != 0; rest &= rest - 1 {
			t := s
			t.buckets[i].dead |= 1 << rest.least()
			yield(happened("%d, which was in a gap, becomes a tombstone", rest.least()), t)
		}
	}
}

// readHead reads the head, or what a shortcut takes for it.
func (m *retaining) readHead(s retained, n int8, yield func(event, retained)) {
	head := s.head()
	from := []int8{head}
	switch m.mutation {
	case staleHead:
		from = from[:0]
		for at := range head + 1 {
			from = append(from, at)
		}
	case lowFirst:
		from[0] = min(head, 0)
	case trimByLast:
		m.byLast(s, n, yield)
		return
	default:
	}
	for _, at := range from {
		t := s
		k := &t.trimmers[n]
		k.phase, k.head, k.low = trimBelow, head, at+1
		k.limit = max(m.nth(s.present())-1, 0)
		if at < 0 {
			k.bottom = true
		} else {
			m.readAt(&t, k, at)
		}
		m.decide(t, n, happened("run %d reads bucket %d as the head", n, at), yield)
	}
}

// readBelow reads the next bucket below, or any that was not read yet.
func (m *retaining) readBelow(s retained, n int8, yield func(event, retained)) {
	known := s.trimmers[n]
	for at := range known.head + 1 {
		next := at == known.low-1
		if m.mutation == lowFirst {
			next = known.read&(1<<at) == 0 && (at == 0 || known.read&(1<<(at-1)) != 0)
		}
		if known.read&(1<<at) != 0 || !next && !m.anyOrder {
			continue
		}
		t := s
		m.readAt(&t, &t.trimmers[n], at)
		m.decide(t, n, happened("run %d reads bucket %d", n, at), yield)
	}
}

func (m *retaining) readAt(s *retained, k *trimmer, at int8) {
	b := s.buckets[at]
	k.read |= 1 << at
	switch {
	case at < s.lowest || b.stub:
		k.stubs |= 1 << at
	default:
		k.live |= b.ids &^ b.dead
		k.dead |= b.dead
	}
	for k.low > 0 && k.read&(1<<(k.low-1)) != 0 && !k.bottom {
		k.low--
		k.floor = s.buckets[k.low].floor
		k.bottom = k.low == 0 || k.floor <= k.before || k.stubs&(1<<k.low) != 0
	}
	if m.mutation == lowFirst { // it goes on to the head
		k.bottom = at == k.head
		k.low, k.floor = k.head+1, 0
	}
	if k.bottom {
		k.floor = 0
	}
}

// decide counts what was read. A run that asks a gap which reaches below the floor may find enough in it, or it reads on.
func (m *retaining) decide(s retained, n int8, e event, yield func(event, retained)) {
	k := &s.trimmers[n]
	if m.mutation == stubEnds && k.stubs != 0 || m.mutation == lowFirst && !k.bottom {
		if k.bottom {
			*k = trimmer{}
		}
		yield(e, s)
		return
	}
	if m.mutation == gapsReadLast {
		k.inGaps = s.inGaps()
	}
	enough, whole := m.found(k)
	if !whole && !k.bottom {
		yield(e, s)
	}
	switch {
	case enough > 0:
		k.to = m.earlier(enough)
		*k = trimmer{phase: trimRaise, to: k.to, limit: k.limit}
		yield(e, s)
	case k.bottom:
		*k = trimmer{}
		yield(e, s)
	default:
	}
}

// found returns the N-th message of those that a run has read, or 0, and whether the run knows it without asking a gap that reaches below
// the floor.
func (m *retaining) found(k *trimmer) (id int8, whole bool) {
	live, inGaps := k.live&^k.inGaps, k.inGaps&^k.dead
	above := ^upTo(k.floor)
	all := (live | inGaps) & above
	switch m.mutation {
	case tombstonesCount:
		all |= k.dead &^ k.inGaps & above
	case gapCountsWhole:
		all = (live | k.inGaps) & above
	case gapBelowFloor:
		all = live&above | inGaps
	case gapByNumber:
		return m.byNumber(all, k)
	case gapEntriesCount:
		if twice := k.live & k.inGaps; twice != 0 { // each of these counts as one more
			sound := *m
			sound.newest, sound.mutation = max(m.newest-twice.len(), 1), correct
			return sound.found(k)
		}
	default:
	}
	id = m.nth(all)
	for _, g := range m.spans {
		if in := k.inGaps & g.ids(); in&upTo(k.floor) != 0 && id <= g.high {
			return id, false
		}
	}
	return id, id > 0
}

// byNumber takes the N-th message in a gap by its place among all messages of the gap.
func (m *retaining) byNumber(all ids, k *trimmer) (int8, bool) {
	id := m.nth(all)
	if !k.inGaps.has(id) {
		return id, id > 0
	}
	above := all &^ k.inGaps & ^upTo(id)
	newest := *m
	newest.newest = m.newest - above.len()
	return newest.nth(k.inGaps), true
}

// byLast derives P from the last of an older bucket.
func (m *retaining) byLast(s retained, n int8, yield func(event, retained)) {
	k := &s.trimmers[n]
	k.limit = max(m.nth(s.present())-1, 0)
	at := s.head() - 1 - m.newest/m.capacity
	if at < 0 {
		*k = trimmer{}
	} else {
		*k = trimmer{phase: trimRaise, to: s.buckets[at].last, limit: k.limit}
	}
	yield(happened("run %d looks for the last of bucket %d", n, at), s)
}

// trim raises P, with the gaps as they are now.
func (m *retaining) trim(s *retained, k *trimmer) {
	to := k.to
	if m.clocks && m.mutation != beyondSlack {
		to = min(to, s.now-slack)
	}
	if to > s.expired {
		if to > k.limit {
			s.fault = expiredEarly
		}
		s.expired = to
		m.cutGaps(s)
	}
	*k = trimmer{}
}

// arrivesExpired reports whether a message that was on its way for no longer than it may be arrives below P.
func (m *retaining) arrivesExpired(s, t *retained) bool {
	if !m.clocks {
		return false
	}
	for i, b := range t.buckets {
		if fresh := b.ids &^ s.buckets[i].ids &^ m.ahead; (fresh&^upTo(s.now-slack))&upTo(s.expired) != 0 {
			return true
		}
	}
	return false
}

// inexact reports whether a run that nothing interrupts would leave other messages than the newest N, and those of the N-th one's
// millisecond.
func (m *retaining) inexact(s *retained) bool {
	if m.newest == 0 || m.clocks || m.mutation != correct && m.mutation != stubEnds {
		return false
	}
	there := s.present()
	t := *s
	k := &t.trimmers[0]
	*k = trimmer{before: s.expired, inGaps: s.inGaps(), head: s.head(), low: s.head() + 1, bottom: s.head() < 0}
	for {
		if !k.bottom {
			m.readAt(&t, k, k.low-1)
		}
		if k.stubs != 0 && m.mutation == stubEnds {
			break
		}
		if id, _ := m.found(k); id > 0 {
			t.expired = max(t.expired, m.earlier(id))
			break
		}
		if k.bottom {
			break
		}
	}
	wanted := there
	if id := m.nth(there); id > 0 {
		wanted &^= upTo(m.earlier(id))
	}
	return there&^upTo(t.expired) != wanted
}

// weight is a number that is different for different runs.
func (k *trimmer) weight() uint64 {
	weight := uint64(k.phase)<<8 | uint64(k.inGaps)
	weight = weight<<8 | uint64(k.live)
	weight = weight<<8 | uint64(k.dead)
	weight = weight<<5 | uint64(k.read)
	weight = weight<<5 | uint64(k.stubs)
	for _, v := range [...]int8{k.before, k.head + 1, k.low, k.floor, k.to, k.limit} {
		weight = weight<<3 | uint64(v)
	}
	return weight
}
