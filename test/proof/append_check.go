package main

import (
	"fmt"
	"strings"
)

func (m *appending) wrong(s inbox) string {
	var seen ids
	for i, b := range s.buckets {
		if twice := seen & b.ids; twice != 0 {
			return fmt.Sprintf("message %v is in the inbox twice", twice)
		}
		seen |= b.ids
		if b.exists && i > 0 && s.buckets[i-1].slots < m.capacity && s.removed == 0 {
			return fmt.Sprintf("bucket %d is there, and bucket %d is not full", i, i-1)
		}
	}
	if back := seen & s.removed; back != 0 {
		return fmt.Sprintf("message %v was there before and is appended again", back)
	}
	if m.mutation == noTombstone && seen&s.deleted != 0 {
		return fmt.Sprintf("message %v was deleted and is back", seen&s.deleted)
	}
	if lost := s.acknowledged &^ seen &^ s.deleted &^ s.removed &^ upTo(s.expired); lost != 0 {
		return fmt.Sprintf("message %v was acknowledged and is not there", lost)
	}
	for i, w := range s.writers {
		if w.refusals > maxRefusals {
			return fmt.Sprintf("writer %d is refused over and over", i)
		}
	}
	return ""
}

// stuck has nothing to find: a writer can always go on.
func (m *appending) stuck(s inbox) string {
	for i, w := range s.writers {
		if w.phase != resting {
			return fmt.Sprintf("writer %d has come to no end", i)
		}
	}
	return ""
}

// normal puts the writers into an order: they have no identity.
func (m *appending) normal(s inbox) inbox {
	if m.mutation != correct {
		return s // so that each writer keeps its name in a trace
	}
	for i := 1; i < m.writers; i++ {
		for j := i; j > 0 && s.writers[j].weight() > s.writers[j-1].weight(); j-- {
			s.writers[j], s.writers[j-1] = s.writers[j-1], s.writers[j]
		}
	}
	return s
}

// weight is a number that is different for different writers.
func (w *writer) weight() uint64 {
	weight := uint64(w.all)<<6 | uint64(w.entries)
	flags := uint8(0)
	if w.next.guard {
		flags |= 1
	}
	if w.next.create {
		flags |= 2
	}
	weight = weight<<6 | uint64(w.next.entries)
	for _, v := range [...]int8{
		int8(w.phase), w.attempts, w.hint, w.next.bucket, int8(flags), w.next.floor,
		w.filled.slots, w.filled.last, w.refusals, w.head, w.seen.slots, w.seen.last, w.below, w.now,
	} {
		weight = weight<<3 | uint64(v+1)&7
	}
	return weight
}

func (m *appending) show(s inbox) string {
	var b strings.Builder
	for i, bucket := range s.buckets {
		if bucket.exists {
			fmt.Fprintf(&b, "bucket %d {%v}, floor %d, last %d; ", i, bucket.ids, bucket.floor, bucket.last)
		}
	}
	fmt.Fprintf(&b, "acknowledged {%v}", s.acknowledged)
	if s.deleted != 0 {
		fmt.Fprintf(&b, ", deleted {%v}", s.deleted)
	}
	return b.String()
}
