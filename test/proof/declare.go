package main

import "fmt"

// Declared attributes.
//
// A declaration has a number, which is never given again. A bucket is created with the greatest number that was ever given, as far as its creator
// knows (decl). A push names the decl of its bucket, and writes in the same update the facets of its entries for all declarations up to that which
// its process does not know to be deleted. A process that comes to a greater decl than it knows loads the declarations before it pushes. So the
// buckets with a decl below a number come first, and all others have facets for it.
//
// A search finds the first of these by bisection. It uses the index for that bucket and those above, and reads all entries of the buckets below.

const (
	maxDeclared = 3
	maxLoads    = 2 // in an attempt
)

// declarations are those that there are.
type declarations struct {
	given int8 // the greatest number ever given
	live  ids  // numbers that are not deleted

	declares, undeclares, raises int8 // left
}

// knowledge is what a process has loaded of the declarations.
type knowledge struct {
	knows int8 // the greatest number ever given
	live  ids
	loads int8 // in this attempt
}

// load reads the declarations.
func (m *appending) load(s *inbox, w *writer) {
	w.knows, w.live, w.loads = s.given, s.live, w.loads+1
	if m.mutation == declOfLive {
		w.knows = max(s.live.most(), 0)
	}
}

// known yields what a process can know when it begins an attempt: what it has loaded before, and how things are.
func (m *appending) known(s *inbox, n int8) []knowledge {
	all := []knowledge{s.writers[n].knowledge}
	w := s.writers[n]
	if w.old || m.declares == 0 {
		return all
	}
	m.load(s, &w)
	if w.loads = 0; w.knowledge != all[0] {
		all = append(all, w.knowledge)
	}
	return all
}

// mustLoad reports whether a process has to load the declarations before it pushes onto a bucket that it has seen, or after it.
func (m *appending) mustLoad(w *writer, seen extent) bool {
	if seen.decl <= w.knows || w.old {
		return false
	}
	switch m.mutation {
	case declLowered:
		return seen.slots < seen.cap
	case declUnloaded:
		return seen.slots >= seen.cap
	case withoutDecl:
		return false
	default:
		return true
	}
}

// named is the part of a push's condition that concerns declarations.
func (m *appending) named(b bucket, p push) bool {
	switch {
	case p.old: // its condition is the version
		return !b.marked || m.mutation == oldUnversioned
	case m.mutation == declUnnamed, m.mutation == withoutDecl:
		return true
	default:
		return b.decl == p.decl
	}
}

// index writes the facets of the entries of a push.
func (m *appending) index(s *inbox, w *writer, p push) {
	b := &s.buckets[p.bucket]
	numbers := upTo(p.decl) & w.live
	switch {
	case p.old, m.mutation == facetsLater:
		return
	case m.more:
		numbers = w.live
	default:
	}
	for i := range b.facets {
		if numbers.has(int8(i + 1)) {
			b.facets[i] |= p.entries
		}
	}
}

// declare lets an operator declare and delete attributes, and messages expire.
func (m *appending) declare(s inbox, yield func(event, inbox)) {
	if s.declares > 0 {
		t := s
		t.declares--
		number := s.given + 1
		if gone := upTo(s.given) &^ 1 &^ s.live; m.mutation == declaredAgain && gone != 0 {
			number = gone.least()
		}
		t.given = max(s.given, number)
		t.live |= 1 << number
		yield(happened("an attribute is declared, with number %d", number), t)
	}
	for number := int8(1); s.undeclares > 0 && number <= s.given; number++ {
		if s.live.has(number) {
			t := s
			t.undeclares--
			t.live &^= 1 << number
			yield(happened("declaration %d is deleted", number), t)
		}
	}
	for p := s.expired + 1; s.raises > 0 && p <= m.messages; p++ {
		t := s
		t.raises--
		t.expired = p
		yield(happened("P becomes %d", p), t)
	}
	for i, b := range s.buckets {
		t := s
		switch {
		case m.raises > 0 && b.exists && !b.stub && b.slots == b.cap && b.last <= s.expired:
			t.buckets[i].stub, t.buckets[i].facets = true, [maxDeclared]ids{}
			yield(happened("bucket %d becomes a stub", int8(i)), t)
		case m.mutation == facetsLater && b.decl > 0 && b.facets[b.decl-1] != b.ids:
			t.buckets[i].facets[b.decl-1] = b.ids
			yield(happened("a second update writes the facets of bucket %d", int8(i)), t)
		default:
		}
	}
}

// bisect returns the first bucket whose decl is at least a number, or how many buckets there are. It takes the buckets to be in their order.
func (s *inbox) bisect(number int8) int8 {
	from, to := int8(0), s.head()+1
	for from < to {
		if middle := (from + to) / 2; s.buckets[middle].decl >= number {
			to = middle
		} else {
			from = middle + 1
		}
	}
	return from
}

// declarationsWrong finds what a search for a declared attribute would miss if it were carried out at one moment.
func (m *appending) declarationsWrong(s *inbox) string {
	for i := range m.writers {
		if s.writers[i].loads > maxLoads {
			return fmt.Sprintf("writer %d loads the declarations again and again", i)
		}
	}
	for number := int8(1); number <= s.given; number++ {
		if !s.live.has(number) {
			continue
		}
		for at := s.bisect(number); at <= s.head(); at++ {
			b := s.buckets[at]
			if missed := b.ids &^ b.facets[number-1] &^ upTo(s.expired); !b.stub && missed != 0 {
				return fmt.Sprintf("a search for declaration %d misses message %v in bucket %d", number, missed, at)
			}
		}
	}
	return ""
}

// declared is a number that is different for writers that know, or name, different declarations.
func (w *writer) declared() uint64 {
	weight := uint64(w.live)
	for _, v := range [...]int8{w.knows, w.loads, w.next.decl, w.filled.decl, w.seen.decl} {
		weight = weight<<3 | uint64(v)&7
	}
	return weight
}
