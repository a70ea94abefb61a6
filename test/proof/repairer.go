package main

// repairer is a pass under way, and what the repairer knows.
type repairer struct {
	phase repairPhase
	void  ids // known to be void when the pass began

	at   int8 // the bucket
	high int8 // the greatest id in earlier buckets, void ids left out

	// The bucket as it was read:
	slots, floor, last int8
	stub               bool
	most               int8 // the greatest id in it that is not void
	live               ids  // void ids that are no tombstones yet
}

// repairPhase is what a repairer does next.
type repairPhase uint8

const (
	noPass repairPhase = iota
	readBucket
	burying  // makes void ids tombstones
	lowering // lowers the bounds
	lowerFloor
)

// weight is a number that is different for different repairers.
func (r *repairer) weight() uint64 {
	weight := uint64(r.void)<<8 | uint64(r.live)
	if r.stub {
		weight |= 1 << 20
	}
	for _, v := range [...]int8{int8(r.phase), r.at, r.high, r.slots, r.floor, r.last, r.most} {
		weight = weight<<4 | uint64(v+1)&15
	}
	return weight
}

// repair is the next operation of a repairer on the store. A repairer may crash before it.
func (m *repairing) repair(s poisoned, n int8, yield func(event, poisoned)) {
	r := &s.repairers[n]
	if r.phase == noPass {
		if s.passes == 0 {
			return
		}
		s.passes--
		m.begin(&s, r)
	} else {
		t := s
		t.repairers[n] = repairer{}
		yield(happened("repairer %d crashes", n), t)
	}
	at := r.at
	switch r.phase {
	case noPass:
	case readBucket:
		m.read(&s, r)
		yield(happened("repairer %d reads bucket %d", n, at), s)
	case burying:
		id := r.live.least()
		m.bury(&s, r, id)
		yield(happened("repairer %d makes %d a tombstone in bucket %d", n, id, at), s)
	case lowering, lowerFloor:
		was := s.buckets[at]
		m.lower(&s, r)
		now := s.buckets[at]
		if was == now {
			yield(happened("repairer %d cannot lower the bounds of bucket %d", n, at), s)
		} else {
			yield(happened("repairer %d sets the floor of bucket %d to %d, and its last to %d", n, at, now.floor, now.last), s)
		}
	}
}

// pass is a pass that nothing interrupts.
func (m *repairing) pass(s *poisoned) {
	var r repairer
	m.begin(s, &r)
	for r.phase != noPass {
		switch r.phase {
		case burying:
			m.bury(s, &r, r.live.least())
		case lowering, lowerFloor:
			m.lower(s, &r)
		default:
			m.read(s, &r)
		}
	}
}

func (m *repairing) begin(s *poisoned, r *repairer) {
	*r = repairer{phase: readBucket, void: s.void, at: s.lowest, high: s.buckets[s.lowest].floor}
	if m.mutation == lowestFromZero {
		r.high = 0
	}
}

func (m *repairing) read(s *poisoned, r *repairer) {
	b := s.buckets[r.at]
	r.slots, r.floor, r.last, r.stub = b.slots, b.floor, b.last, b.stub
	switch {
	case !b.exists:
		m.end(s, r)
		return
	case r.at < s.lowest: // removed meanwhile
		m.begin(s, r)
		return
	case b.stub && m.mutation == stubForgotten:
		r.most = r.high
		m.proceed(s, r)
		return
	case b.stub:
		r.most = b.last
		m.proceed(s, r)
		return
	}
	r.live = b.ids & r.void &^ b.dead
	known := b.ids &^ r.void
	if m.mutation == lastOfLive {
		known &^= b.dead
	}
	r.most = known.most()
	switch {
	case r.live == 0 || m.mutation == boundsFirst:
		m.compare(s, r)
	default:
		r.phase = burying
	}
}

// bury makes a void id a tombstone.
func (m *repairing) bury(s *poisoned, r *repairer, id int8) {
	b := &s.buckets[r.at]
	if m.mutation == futureRemoved {
		b.ids &^= 1 << id
		b.slots--
	} else {
		b.dead |= 1 << id
	}
	r.live &^= 1 << id
	switch {
	case r.live != 0:
	case m.mutation == boundsFirst:
		m.proceed(s, r)
	default:
		m.compare(s, r)
	}
}

// compare decides whether bounds are to be lowered.
func (m *repairing) compare(s *poisoned, r *repairer) {
	if r.floor > r.high || r.last > max(r.high, r.most) {
		r.phase = lowering
		return
	}
	m.lowered(s, r)
}

// lower is one update of the bounds, if the bucket is as it was read.
func (m *repairing) lower(s *poisoned, r *repairer) {
	b := &s.buckets[r.at]
	h := max(r.high, r.most)
	matches := b.slots == r.slots && b.floor == r.floor && b.last == r.last && b.stub == r.stub && r.at >= s.lowest
	switch m.mutation {
	case blindSet:
		matches = true
	case slotsIgnored:
		matches = b.floor == r.floor && b.last == r.last
	default:
	}
	if !matches {
		r.phase = readBucket
		if m.mutation == beyondRefusal {
			m.onward(s, r)
		}
		return
	}
	switch {
	case m.mutation == boundsSet:
		b.floor, b.last = r.high, h
	case m.mutation == lastThenFloor && r.phase == lowering:
		b.last = min(b.last, h)
		r.last, r.phase = b.last, lowerFloor
		return
	default:
		b.floor, b.last = min(b.floor, r.high), min(b.last, h)
	}
	m.lowered(s, r)
}

// lowered goes on after the bounds.
func (m *repairing) lowered(s *poisoned, r *repairer) {
	if m.mutation == boundsFirst && r.live != 0 {
		r.phase = burying
		return
	}
	m.proceed(s, r)
}

// proceed goes on to the next bucket, or ends the pass.
func (m *repairing) proceed(s *poisoned, r *repairer) {
	if r.slots < m.capacity && m.mutation != beyondRoom {
		m.end(s, r)
		return
	}
	m.onward(s, r)
}

func (m *repairing) onward(s *poisoned, r *repairer) {
	high := max(r.high, r.most)
	if m.mutation == bucketBelowAlone {
		high = max(r.most, 0)
	}
	*r = repairer{phase: readBucket, void: r.void, at: r.at + 1, high: high}
	if r.at == maxBuckets {
		m.end(s, r)
	}
}

func (m *repairing) end(s *poisoned, r *repairer) {
	*r = repairer{}
	s.passed = m.mutation == onePass
}
