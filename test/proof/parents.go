package main

import "slices"

// parents holds, for each state that was reached, the fingerprint of the one it was reached from first; 0 for those in
// which a protocol begins. It is a hash table with open addressing, 16 bytes a place and at most three quarters full.
type parents struct {
	places []parent
	taken  int
}

type parent struct{ of, is uint64 }

func newParents() *parents { return &parents{places: make([]parent, 1<<12)} }

// add records the parent of a state, and reports whether the state is new. Fingerprints are not 0.
func (p *parents) add(of, is uint64) bool {
	place := p.find(of)
	if place.of == of {
		return false
	}
	*place = parent{of, is}
	if p.taken++; p.taken > len(p.places)/4*3 {
		p.grow()
	}
	return true
}

// path returns the fingerprints on the way to a state, the first one first.
func (p *parents) path(to uint64) []uint64 {
	var path []uint64
	for ; to != 0; to = p.find(to).is {
		path = append(path, to)
	}
	slices.Reverse(path)
	return path
}

// find returns the place of a fingerprint, or the empty one where it belongs.
func (p *parents) find(of uint64) *parent {
	mask := uint64(len(p.places) - 1)
	for i := of & mask; ; i = (i + 1) & mask {
		if place := &p.places[i]; place.of == of || place.of == 0 {
			return place
		}
	}
}

func (p *parents) grow() {
	old := p.places
	p.places = make([]parent, 2*len(old))
	for _, place := range old {
		if place.of != 0 {
			*p.find(place.of) = place
		}
	}
}
