package main

import "fmt"

// span is a gap: the messages with ids from low to high are in no bucket. Their number is counted when the gap is made or cut.
type span struct{ low, high, number int8 }

func (g span) ids() ids {
	if g.high == 0 {
		return 0
	}
	return upTo(g.high) &^ upTo(g.low-1)
}

// countedUser is the part of a user's record that counts concern, besides P.
type countedUser struct {
	gaps [maxGaps]span // those that are there come first
	mark readMark
}

// readMark is as bucket.ReadMark.
type readMark struct{ upTo, bucket, slots, read, gaps, inGap int8 }

// newMarking is a read mark that is computed, and not stored yet.
type newMarking struct {
	busy   bool
	to     readMark
	inGaps ids // messages in gaps that it says are read
}

// gapsNow returns how many gaps there are.
func (c *countedUser) gapsNow() (n int8) {
	for _, g := range c.gaps {
		if g.high > 0 {
			n++
		}
	}
	return n
}

// inGaps returns the ids that are in gaps.
func (c *countedUser) inGaps() (all ids) {
	for _, g := range c.gaps {
		all |= g.ids()
	}
	return all
}

// makeGap lets a rehydration record a gap, cut to what is above P.
func (m *retaining) makeGap(s retained, yield func(event, retained)) {
	if int(s.made) == len(m.spans) {
		return
	}
	g := m.spans[s.made]
	s.made++
	if g.low = max(g.low, s.expired+1); g.low > g.high {
		yield(happened("a gap up to %d is not recorded, because all has expired", g.high), s)
		return
	}
	g.number = g.ids().len()
	s.gaps[s.gapsNow()] = g
	s.gapped = s.inGaps()
	yield(happened("a gap from %d to %d is recorded", g.low, g.high), s)
}

// cutGaps cuts the gaps to what is above P, in the update that raises P.
func (m *retaining) cutGaps(s *retained) {
	if m.mutation == gapsUncut {
		return
	}
	s.cut(s.expired, ^ids(0), m.mutation)
	s.gapped = s.inGaps()
}

// cut cuts the gaps. counted are the messages that are in their numbers.
func (c *countedUser) cut(expired int8, counted ids, is mutation) {
	mark := &c.mark
	var left [maxGaps]span
	n, listed := 0, mark.gaps
	for k, g := range c.gaps {
		if g.high == 0 {
			continue
		}
		cut := (g.ids() & counted & upTo(expired)).len()
		known := int8(k) < listed
		holds := g.ids().has(mark.upTo)
		if g.low = max(g.low, expired+1); g.low > g.high {
			if known && is != listedStays {
				mark.gaps--
			}
			if known && holds {
				mark.inGap = 0
			}
			continue
		}
		g.number -= cut // it is counted again
		if known && holds && is != cutStaysRead {
			mark.inGap = max(mark.inGap-cut, 0)
		}
		left[n] = g
		n++
	}
	c.gaps = left
}

// setMark computes a read mark and, in a second step, stores it unless P or the gaps have changed.
func (m *retaining) setMark(s retained, yield func(event, retained)) {
	if s.marking.busy {
		to, inGaps := s.marking.to, s.marking.inGaps
		s.marking = newMarking{}
		if s.mark.upTo <= to.upTo && s.mark.slots <= to.slots && s.mark.gaps <= to.gaps {
			s.mark = to
			s.readInGaps = inGaps
		}
		yield(happened("the read mark up to %d is stored unless it goes back", to.upTo), s)
		return
	}
	if s.markings == 0 {
		return
	}
	s.markings--
	for id := s.mark.upTo + 1; id <= m.messages; id++ {
		t := s
		t.marking = newMarking{true, m.newMark(&s, id), s.inGaps() & upTo(id)}
		yield(happened("a read mark up to %d is computed", id), t)
	}
}

// newMark returns a read mark up to an id.
func (m *retaining) newMark(s *retained, id int8) readMark {
	to := readMark{upTo: id, gaps: s.gapsNow()}
	for _, g := range s.gaps {
		if g.ids().has(id) {
			to.inGap = (g.ids() & upTo(id)).len()
		}
	}
	head := s.head()
	if head < 0 {
		return to
	}
	at := head
	for at > s.lowest && s.buckets[at].floor >= id {
		at--
	}
	to.bucket, to.slots = at, head*m.capacity+s.buckets[head].slots
	to.read += at * m.capacity
	for i := at; i <= head; i++ {
		b := s.buckets[i]
		if i > at && (b.late == 0 || b.late > id) {
			continue
		}
		if b.stub {
			if b.last <= id && m.mutation != stubUnread {
				to.read += b.slots
			}
			continue
		}
		b.each(func(_, in int8) {
			if in <= id {
				to.read++
			}
		})
	}
	return to
}

// begin returns the highest bucket with a floor up to P: all below it has expired.
func (s *retained) begin() int8 {
	at := s.head()
	for at > s.lowest && s.buckets[at].floor > s.expired {
		at--
	}
	return at
}

// counts derives how many messages there are, and how many of them are unread.
func (m *retaining) counts(s *retained) (total, unread int8) {
	mark := s.mark
	if head := s.head(); head >= 0 {
		from := s.begin()
		base := from * m.capacity
		slots := head*m.capacity + s.buckets[head].slots
		total, unread = slots-base, slots-base-(mark.read-min(base, mark.slots))
		for i := from; i <= head; i++ {
			b := s.buckets[i]
			late := i == from || b.late > 0 && b.late <= s.expired && m.mutation != lateForgotten
			b.each(func(slot, id int8) {
				at := i*m.capacity + slot
				switch {
				case b.stub || late && id <= s.expired && !b.dead.has(id):
					if m.mutation == expiredUncounted && !b.stub {
						return
					}
					total--
					if at >= mark.slots {
						unread--
					}
				case b.dead.has(id):
					total--
					if i >= mark.bucket && (id > mark.upTo || at >= mark.slots) {
						unread--
					}
					m.countTombstone(s, id, &total, &unread)
				}
			})
		}
	} else {
		unread = -mark.read
	}
	for k, g := range s.gaps {
		if g.high > 0 {
			total += g.number
			unread += g.number - mark.readIn(int8(k), g)
		}
	}
	if s.expired >= mark.upTo {
		unread = total
	}
	return total, unread
}

// countTombstone counts a tombstone whose id lies in a gap.
func (m *retaining) countTombstone(s *retained, id int8, total, unread *int8) {
	for k, g := range s.gaps {
		if !g.ids().has(id) {
			continue
		}
		*total--
		if id > s.mark.upTo || int8(k) >= s.mark.gaps {
			*unread--
		}
	}
}

// readIn returns how many messages of a gap are read.
func (mark readMark) readIn(place int8, g span) int8 {
	switch {
	case place >= mark.gaps || g.low > mark.upTo:
		return 0
	case g.ids().has(mark.upTo):
		return mark.inGap
	default:
		return g.number
	}
}

// countsWrong compares the counts with what is there.
func (m *retaining) countsWrong(s *retained) string {
	if !m.marks {
		return ""
	}
	dead := ids(0)
	unread := int8(0)
	for i, b := range s.buckets {
		dead |= b.dead
		b.each(func(slot, id int8) {
			if !b.dead.has(id) && id > s.expired && (id > s.mark.upTo || int8(i)*m.capacity+slot >= s.mark.slots) {
				unread++
			}
		})
	}
	inGaps := s.inGaps() &^ dead &^ upTo(s.expired)
	unread += (inGaps &^ s.readInGaps).len()
	total := s.live().len() + inGaps.len()
	switch all, fresh := m.counts(s); {
	case all != total:
		return fmt.Sprintf("%d messages are counted, and there are %d", all, total)
	case fresh != unread:
		return fmt.Sprintf("%d messages count as unread, and %d are", fresh, unread)
	}
	return ""
}
