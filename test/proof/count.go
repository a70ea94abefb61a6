package main

import (
	"fmt"
	"math/bits"
)

// gapCounting is the protocol by which a gap's number, and the number of its messages that a read mark counts as read, follow messages
// that become visible in the gap late. The gap is as it was made, and the read mark lists it. up_to lies in it.
type gapCounting struct {
	mutation mutation

	messages int8 // ids 1 to messages, which may become visible in any order
	marks    int8 // read marks that are set
	mends    int8 // repairs that lower up_to to a message
	deletes  int8
	crashes  int8
}

// countedGap is a state of gapCounting.
type countedGap struct {
	visible, left, deleted owners // left: a worker has left it to the gap
	gapRecord
	sweeper, marker, deleter gapCounter
	mender                   gapCounter
	furthest                 int8 // up_to of the furthest read mark that was set since a repair

	marks, mends, deletes, crashes int8 // left
}

// gapRecord is the part of a user's record that concerns the gap.
type gapRecord struct {
	number int8 // of messages in the gap
	upTo   int8
	read   int8 // messages at or below upTo in the gap, as the mark counts them
	sweep  sweepOf
}

type sweepOf uint8

const (
	unswept sweepOf = iota
	owed            // no worker holds it
	held
)

// gapCounter is what one that counts the gap does and knows.
type gapCounter struct {
	phase        countPhase
	seen         gapRecord
	upTo         int8
	victim       int8 // to be deleted
	below, above int8
}

type countPhase uint8

const (
	notCounting countPhase = iota
	countBelow             // the messages at or below upTo
	countAbove             // the others
	recordCount
	pushTombstone
)

func (m *gapCounting) initial() []countedGap {
	return []countedGap{{marks: m.marks, mends: m.mends, deletes: m.deletes, crashes: m.crashes}}
}

func (m *gapCounting) next(s countedGap, yield func(event, countedGap)) {
	for id := int8(1); id <= m.messages; id++ {
		t := s
		switch bit := owners(1) << id; {
		case !s.visible.has(id):
			t.visible |= bit
			yield(happened("%d becomes visible", id), t)
		case !s.left.has(id):
			t.left |= bit
			t.sweep = owed
			yield(happened("a worker leaves %d to the gap, and owes a sweep", id), t)
		}
	}
	m.begin(s, yield)
	for name, of := range counters {
		c := of(&s)
		if c.phase == notCounting {
			continue
		}
		if t := s; s.crashes > 0 {
			t.crashes--
			*of(&t) = gapCounter{}
			yield(happened(names[name]+" crashes"), t)
		}
		m.step(s, name, yield)
	}
}

var (
	names    = [4]string{"the sweep", "the read mark", "the deletion", "the repair"}
	counters = [4]func(*countedGap) *gapCounter{
		func(s *countedGap) *gapCounter { return &s.sweeper },
		func(s *countedGap) *gapCounter { return &s.marker },
		func(s *countedGap) *gapCounter { return &s.deleter },
		func(s *countedGap) *gapCounter { return &s.mender },
	}
)

// begin lets the sweep, a read mark, a deletion and a repair begin.
func (m *gapCounting) begin(s countedGap, yield func(event, countedGap)) {
	if t := s; s.sweeper.phase == notCounting && s.sweep != unswept {
		t.sweep = held
		t.sweeper = gapCounter{phase: countBelow, seen: t.gapRecord, upTo: s.upTo}
		yield(happened("a worker takes the sweep"), t)
	}
	if s.marker.phase == notCounting && s.marks > 0 && s.sweep == unswept {
		for upTo := s.upTo + 1; upTo <= m.messages; upTo++ {
			t := s
			t.marks--
			t.marker = gapCounter{phase: countBelow, seen: s.gapRecord, upTo: upTo}
			yield(happened("a read mark up to %d begins", upTo), t)
		}
	}
	for id := int8(1); id <= m.messages && s.deleter.phase == notCounting && s.deletes > 0; id++ {
		if t := s; s.visible.has(id) && !s.deleted.has(id) {
			t.deletes--
			t.deleter = gapCounter{phase: countBelow, seen: s.gapRecord, upTo: s.upTo, victim: id}
			yield(happened("a deletion of %d begins", id), t)
		}
	}
	if t := s; s.mender.phase == notCounting && s.mends > 0 && s.upTo > 0 {
		t.mends--
		t.mender = gapCounter{phase: recordCount, seen: s.gapRecord, upTo: s.visible.upTo(s.upTo).newest()}
		yield(happened("a repair lowers up_to to %d", t.mender.upTo), t)
	}
}

// step takes a step of one that counts.
func (m *gapCounting) step(s countedGap, name int, yield func(event, countedGap)) {
	c := counters[name](&s)
	switch c.phase {
	case notCounting:
	case countBelow:
		c.below, c.phase = s.visible.upTo(c.upTo).len(), countAbove
		if m.mutation == overlappingCounts {
			c.above = s.visible.len()
		}
		yield(happened(names[name]+" counts %d up to up_to", c.below), s)
	case countAbove:
		if c.phase = recordCount; m.mutation == overlappingCounts {
			c.below = s.visible.upTo(c.upTo).len()
		} else {
			c.above = (s.visible &^ s.visible.upTo(c.upTo)).len()
		}
		yield(happened(names[name]+" counts %d above up_to", c.above), s)
	case recordCount:
		m.record(&s, name)
		yield(happened(names[name]+" records; the number is %d, and %d are read", s.number, s.read), s)
	case pushTombstone:
		s.deleted |= 1 << c.victim
		*c = gapCounter{}
		yield(happened(names[name]+" pushes its tombstone"), s)
	}
}

// record compares with the record that was read, and changes it.
func (m *gapCounting) record(s *countedGap, name int) {
	c := counters[name](s)
	again := *c
	*c = gapCounter{}
	now := s.gapRecord
	if m.mutation == markOverwritten && c == &s.deleter {
		now.upTo, now.read = again.seen.upTo, again.seen.read
		s.upTo, s.read = now.upTo, now.read
	}
	switch c {
	case &s.sweeper:
		switch {
		case s.sweep != held:
		case now.upTo == again.upTo:
			m.raise(s, again)
			s.sweep = unswept
		default: // the mark was mended after the count
			s.number = max(s.number, again.below+again.above)
			if m.mutation == mendedUnseen {
				s.sweep = unswept
			}
		}
	case &s.mender:
		if m.mutation == mendedUncompared {
			now = again.seen
		}
		if now == again.seen { // what was read stays read
			s.upTo, s.furthest, s.read = again.upTo, again.upTo, now.read
		}
	case &s.marker:
		if m.mutation == gapsUncompared {
			now.number, now.sweep = again.seen.number, again.seen.sweep
		}
		if now == again.seen {
			s.upTo, s.read, s.furthest = again.upTo, 0, again.upTo
			m.raise(s, again)
		}
	case &s.deleter:
		again.phase = pushTombstone
		if now == again.seen {
			m.raise(s, again)
		} else {
			again.phase, again.seen, again.upTo = countBelow, s.gapRecord, s.upTo
		}
		*c = again
	}
}

// raise raises both numbers to what was counted.
func (m *gapCounting) raise(s *countedGap, c gapCounter) {
	number := c.below + c.above
	if m.mutation == overlappingCounts {
		number = c.above // of the whole gap
	}
	s.number = max(s.number, number)
	if m.mutation != gapRaisedAlone || s.read == 0 {
		s.read = max(s.read, c.below)
	}
}

func (m *gapCounting) wrong(s countedGap) string {
	above := s.deleted &^ s.deleted.upTo(s.upTo)
	switch {
	case s.number < s.deleted.len():
		return "total is below 0"
	case s.number-s.read < above.len():
		return "unread is below 0"
	case s.upTo != s.furthest:
		return "a read mark is lost"
	case s.sweep != unswept || s.visible != s.left:
	case s.number != s.visible.len():
		return "total is wrong, and no sweep is owed"
	case s.read != s.visible.upTo(s.upTo).len():
		return "unread is wrong, and no sweep is owed"
	}
	return ""
}

func (m *gapCounting) stuck(s countedGap) string {
	if s.sweep != unswept || s.visible != s.left {
		return "a sweep never ends"
	}
	return ""
}

func (m *gapCounting) show(s countedGap) string {
	return fmt.Sprintf("visible %03b, left %03b, deleted %03b; number %d, up_to %d, read %d, sweep %d",
		s.visible>>1, s.left>>1, s.deleted>>1, s.number, s.upTo, s.read, s.sweep)
}

// newest returns the greatest id, or 0.
func (o owners) newest() int8 { return int8(bits.Len8(uint8(o >> 1))) }

// upTo returns the ids at or below the given one.
func (o owners) upTo(id int8) owners { return o & (2<<id - 1) }
