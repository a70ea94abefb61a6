package main

import "fmt"

// searching models a search for a declared attribute beside writers. Each read of a bucket is a step. All messages have the attribute.
type searching struct{ appending }

// searched is a state of searching.
type searched struct {
	inbox
	search declaredSearch
}

// declaredSearch is a search under way.
type declaredSearch struct {
	phase    searchPhase
	number   int8 // of the declaration
	from, to int8 // where the first bucket with facets for it is
	at       int8 // the bucket that is read next
	owed     ids  // what was acknowledged when the search began
	found    ids
}

type searchPhase uint8

const (
	notSearching searchPhase = iota
	searchBisects
	searchIndex
	searchScan
	searchDone
)

func (m *searching) initial() []searched { return []searched{{inbox: m.appending.initial()[0]}} }

func (m *searching) next(s searched, yield func(event, searched)) {
	m.appending.next(s.inbox, func(e event, to inbox) { yield(e, searched{to, s.search}) })
	t := s
	h := &t.search
	switch h.phase {
	case notSearching:
		for number := int8(1); number <= s.given; number++ {
			if s.live.has(number) {
				t.search = declaredSearch{phase: searchBisects, number: number, to: s.head() + 1, owed: s.acknowledged}
				yield(happened("a search for declaration %d begins, with %d buckets", number, t.search.to), t)
			}
		}
	case searchBisects:
		middle := (h.from + h.to) / 2
		switch {
		case h.from >= h.to:
			h.phase, h.at = searchIndex, h.from
		case s.buckets[middle].decl >= h.number:
			h.to = middle
		default:
			h.from = middle + 1
		}
		yield(happened("the search reads the decl of bucket %d, which is %d", middle, s.buckets[middle].decl), t)
	case searchIndex:
		b := s.buckets[h.at]
		h.found |= b.facets[h.number-1] & b.ids
		if h.at++; h.at >= maxBuckets || !s.buckets[h.at].exists {
			h.phase, h.at = searchScan, h.from-1
		}
		yield(happened("the search reads bucket %d by its facets", h.at), t)
	case searchScan:
		if h.at < 0 {
			*h = declaredSearch{phase: searchDone, number: h.number, owed: h.owed &^ h.found}
			yield(happened("the search ends"), t)
			return
		}
		if b := s.buckets[h.at]; !b.stub {
			h.found |= b.ids
		}
		h.at--
		yield(happened("the search reads all of bucket %d", h.at+1), t)
	default:
	}
}

func (m *searching) wrong(s searched) string {
	missed := s.search.owed &^ upTo(s.expired)
	if s.search.phase == searchDone && missed != 0 && s.live.has(s.search.number) {
		return fmt.Sprintf("a search for declaration %d has missed message %v", s.search.number, missed)
	}
	return m.appending.wrong(s.inbox)
}

func (m *searching) stuck(s searched) string { return m.appending.stuck(s.inbox) }

func (m *searching) show(s searched) string {
	return fmt.Sprintf("%s, search %+v", m.appending.show(s.inbox), s.search)
}
