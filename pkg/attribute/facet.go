package attribute

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
)

const (
	// MaxFacets is how many facets an entry has at most.
	MaxFacets = 64
	// MaxFacetsOfOne is how many of these are of one attribute at most.
	MaxFacetsOfOne = 16
)

// Facet is what an index of entries keeps of a value of a declared attribute. Several values may have the same facet, so a caller that finds an entry by a
// facet still checks its conditions. Facets are stored: how they are made never changes.
//
// From the highest bit down, a facet has a zero bit, 15 bits of the declaration's number, 2 bits of a kind, and 46 bits of the kind's own:
//
//	bare    nothing. A list that is empty, or has too many elements, has no other facet
//	hashed  a hash of the number and the value, for strings and bools
//	ordered the value, cut. Facets of numbers and times are in the order of their values
type Facet int64

const (
	bare int64 = iota
	hashed
	ordered

	ownBits  = 46
	kindBits = 2
	ownMask  = 1<<ownBits - 1
	numbers  = 1 << 15
)

// FacetRange is all facets from Low to High, both included.
type FacetRange struct{ Low, High Facet }

// Holds reports whether a facet is in the range.
func (r FacetRange) Holds(f Facet) bool { return r.Low <= f && f <= r.High }

// facet returns a facet of the declaration.
func (d Declaration) facet(kind int64, own uint64) Facet {
	return Facet(int64(d.Number%numbers)<<(ownBits+kindBits) | kind<<ownBits | int64(own&ownMask))
}

// all returns the range of all facets of the declaration, and maybe of others.
func (d Declaration) all() FacetRange {
	return FacetRange{Low: d.facet(bare, 0), High: d.facet(3, ownMask)}
}

// point returns the range of one facet.
func point(f Facet) FacetRange { return FacetRange{Low: f, High: f} }

// hash returns the facet of a string, or of the text of a bool.
func (d Declaration) hash(value string) Facet {
	b := binary.BigEndian.AppendUint64(nil, uint64(d.Number)) //nolint:gosec // it counts declarations
	sum := sha256.Sum256(append(append(b, d.Type...), append([]byte{0}, value...)...))
	return d.facet(hashed, binary.BigEndian.Uint64(sum[:]))
}

// hashOfBool is hash for a bool.
func (d Declaration) hashOfBool(value bool) Facet {
	if value {
		return d.hash("true")
	}
	return d.hash("false")
}

// order returns the facet of a number or a time.
func (d Declaration) order(v Value) Facet {
	if d.Type == Time {
		// Times are cut to 8 milliseconds. RFC 3339 knows years from 0 to 9999, which are in the middle of this range.
		const span = 1 << (ownBits + 3)
		return d.facet(ordered, uint64(min(max(v.Time+span/4, 0), span-1))>>3)
	}
	// The bits of positive floats are in their order, and those of negative ones in the opposite order.
	bits := math.Float64bits(v.Number)
	if bits>>63 == 1 {
		bits = ^bits
	} else {
		bits |= 1 << 63
	}
	return d.facet(ordered, bits>>(64-ownBits))
}

// facets returns the facets of a value, ascending, each once.
func (d Declaration) facets(v Value) []Facet {
	switch d.Type {
	case Number, Time:
		return []Facet{d.order(v)}
	case Bool:
		return []Facet{d.hashOfBool(v.Bool)}
	default:
		found := make([]Facet, len(v.Strings))
		for i, s := range v.Strings {
			found[i] = d.hash(s)
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
}

// UpTo returns the declarations of the set with numbers up to the given one.
func (s Set) UpTo(number int) Set {
	if number >= s.greatest {
		return s
	}
	declared := slices.DeleteFunc(s.All(), func(d Declaration) bool { return d.Number > number })
	return NewSet(number, declared)
}

// Facets returns the facets of attrs for all declarations of the set, ascending: at least one for each attribute that Read returns, at most
// MaxFacetsOfOne, and at most MaxFacets together.
func (s Set) Facets(attrs json.RawMessage) []Facet {
	values := s.Read(attrs)
	var all []Facet
	left := len(values) // attributes whose facets are not in all yet
	for _, d := range s.All() {
		value, present := values[d.Name]
		if !present {
			continue
		}
		left--
		own := d.facets(value)
		if len(own) == 0 || len(own) > MaxFacetsOfOne || len(all)+len(own)+left > MaxFacets {
			own = []Facet{d.facet(bare, 0)}
		}
		all = append(all, own...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Selectivity says how few entries have a facet that a condition needs. A greater value usually means fewer entries.
type Selectivity int

// The selectivities.
const (
	// Unindexed says that entries without any facet may meet the condition.
	Unindexed Selectivity = iota
	// Present says that every entry with the attribute has such a facet.
	Present
	// Bounded says that entries with values in a range have one.
	Bounded
	// Exact says that entries with few values have one.
	Exact
)

// Facets returns the ranges of which every entry has a facet that meets the condition. An entry without one does not meet it. Where these are single
// facets, Low is High in all of them. For Unindexed there is no range.
func (c Condition) Facets() ([]FacetRange, Selectivity) {
	d := c.Declaration
	switch {
	case c.Operator == Exists && !c.Values[0].Bool:
		return nil, Unindexed
	case c.Operator == Exists:
		return []FacetRange{d.all()}, Present
	case d.Type == Bool:
		return []FacetRange{point(d.hashOfBool(c.Values[0].Bool == (c.Operator == Equal)))}, Exact
	case c.Operator == Equal || c.Operator == In:
		var ranges []FacetRange
		for _, own := range c.Values {
			for _, f := range d.facets(own) {
				ranges = append(ranges, point(f))
			}
		}
		if d.Type == Strings {
			ranges = append(ranges, point(d.facet(bare, 0)))
		}
		return ranges, Exact
	case d.Type == Number || d.Type == Time:
		least, bound, most := d.facet(ordered, 0), d.order(c.Values[0]), d.facet(ordered, ownMask)
		switch c.Operator {
		case Less, LessOrEqual:
			return []FacetRange{{Low: least, High: bound}}, Bounded
		case Greater, GreaterOrEqual:
			return []FacetRange{{Low: bound, High: most}}, Bounded
		default:
		}
	}
	return []FacetRange{d.all()}, Present
}

// Narrowest chooses the condition that the fewest entries usually meet. It returns the ranges of its facets and the number of its
// declaration. Every entry that meets all conditions has a facet in one of the ranges. Two bounds of one number or time become one range.
// For Unindexed there is no range.
func Narrowest(conditions []Condition) (ranges []FacetRange, number int, selectivity Selectivity) {
	for _, c := range conditions {
		next, s := c.Facets()
		switch {
		case s > selectivity:
			ranges, number, selectivity = next, c.Declaration.Number, s
		case s == Bounded && selectivity == Bounded && c.Declaration.Number == number: // each entry has one facet of it
			both := FacetRange{Low: max(ranges[0].Low, next[0].Low), High: min(ranges[0].High, next[0].High)}
			if both.Low <= both.High { // otherwise no entry meets both
				ranges = []FacetRange{both}
			}
		}
	}
	return ranges, number, selectivity
}
