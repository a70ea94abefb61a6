package main

import (
	"fmt"
	"iter"
)

// Buckets of different sizes.
//
// A bucket's size, and the number of slots in all earlier buckets, which is its base, are fixed when it is created, as its floor is. A push
// names the size that the writer believes, and a bucket of another size refuses it. A bucket is full by its own size as it was read. Whoever
// has seen it full and creates the next one takes the size that its own process is configured with, and derives the base from the bucket
// that it has seen.
//
// A bucket whose size and base are those of the format (the first size, and that times its place) does not say them, whatever is before it.
// Every other bucket is marked as a format that an old release refuses.

// sized is what a bucket says of its size, and what a push names.
type sized struct {
	cap    int8
	base   int8 // slots in all earlier buckets; no push is compared with it
	marked bool // an old release refuses it
	decl   int8 // the greatest number of a declaration that its creator knew (declare.go)
}

func (b *bucket) extent() extent { return extent{b.slots, b.last, b.sized} }

// configuration is what an attempt begins with.
type configuration struct {
	hint, own int8
	knowledge
	sized // what the push onto the hint names
}

// configured yields each hint with each size that a process can be configured with. The size of the hint's bucket may be in the hint.
// If not, the push names the configured one.
func (m *appending) configured(s *inbox, n int8) iter.Seq[configuration] {
	sizes := m.sizes
	if sizes == nil || s.writers[n].old {
		sizes = []int8{m.capacity}
	}
	return func(yield func(configuration) bool) {
		for hint := range m.hints(s) {
			b := s.buckets[hint]
			for _, own := range sizes {
				for _, knows := range m.known(s, n) {
					to := m.first(own, knows.knows)
					same := b.cap == to.cap && b.decl == to.decl
					known := b.exists && !same && !s.writers[n].old && m.mutation != sizeConfigured && b.decl <= knows.knows
					if known && !yield(configuration{hint, own, knows, b.sized}) {
						return
					}
					if !yield(configuration{hint, own, knows, to}) {
						return
					}
				}
			}
		}
	}
}

// first returns what the first bucket says, if a process that is configured with a size, and knows declarations, creates it.
func (m *appending) first(own, knows int8) sized {
	return sized{cap: own, marked: own != m.capacity || knows > 0, decl: knows}
}

// after returns what the bucket after one that was seen full says.
func (m *appending) after(seen sized, own, bucket, knows int8) sized {
	to := sized{cap: own, base: seen.base + seen.cap}
	switch m.mutation {
	case baseOfBelief:
		to.base = own * bucket
	case baseOfCreator:
		to.base = seen.base + own
	default:
	}
	to.marked = own != m.capacity || to.base != m.capacity*bucket && m.mutation != markedBySize
	if !to.marked {
		to.base = m.capacity * bucket
	}
	to.decl, to.marked = knows, to.marked || knows > 0
	return to
}

// fits is the part of a push's condition that concerns sizes.
func (m *appending) fits(b bucket, p push) bool {
	same := b.cap == p.cap && m.named(b, p)
	if !b.exists || m.mutation == sizeConfigured || m.mutation == sizeUnnamed {
		same = true
	}
	return same && b.slots+p.entries.len() <= p.cap
}

// refuses ends the attempt of a writer of an old release that comes to a marked bucket.
func (m *appending) refuses(s *inbox, w *writer, bucket int8, yield func(event, inbox)) bool {
	if !w.old || bucket < 0 || !s.buckets[bucket].marked || m.mutation == sizeUnnamed || m.mutation == oldUnversioned && w.phase == pushing {
		return false
	}
	*w = w.rest()
	yield(happened("a writer of an old release gives up at bucket %d, whose format it does not know", bucket), m.normal(*s))
	return true
}

func (m *appending) sizesWrong(s *inbox) string {
	if m.sizes == nil || m.mutation == sizeConfigured {
		return ""
	}
	before, last := int8(0), int8(0)
	for i, b := range s.buckets {
		switch {
		case !b.exists:
			return ""
		case b.slots > b.cap:
			return fmt.Sprintf("bucket %d has %d slots, and %d are taken", i, b.cap, b.slots)
		case b.base != before:
			return fmt.Sprintf("bucket %d begins at slot %d, and %d slots are before it", i, b.base, before)
		case b.floor != last:
			return fmt.Sprintf("the floor of bucket %d is %d, and the last of the bucket before is %d", i, b.floor, last)
		}
		before, last = before+b.cap, b.last
	}
	return ""
}

// sizes is a number that is different for writers with different beliefs about sizes.
func (w *writer) sizes() uint64 {
	weight := uint64(w.own)
	if w.old {
		weight |= 1 << 4
	}
	for _, z := range [...]sized{w.next.sized, w.filled.sized, w.seen.sized} {
		weight = weight<<9 | uint64(z.cap&7)<<5 | uint64(z.base&15)<<1
		if z.marked {
			weight |= 1
		}
	}
	return weight
}
