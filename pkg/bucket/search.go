package bucket

import (
	"context"
	"slices"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/message"
)

// Search lets a filtered page leave out buckets that have no entry of the page. The buckets whose Decl is below Number are the lowest ones of the inbox.
// The page reads these in order, and of all others only those WithFacets.
type Search struct {
	Index Index
	// Number is that of the declaration to which the facets belong.
	Number int
	// Facets are ranges for Index.WithFacets. Every entry that Filter.Keep keeps has a facet in one of them.
	Facets []attribute.FacetRange
	// Scan is the number of buckets below those read that are not worth the index, which takes several calls. The page reads so few in order.
	Scan int
	// Purged reads the owner's purge point. A bucket that was left out may have become a stub since the purge point of the request was read. So the page
	// reads it again, after the buckets.
	Purged func(ctx context.Context) (message.ID, error)
}

// found is what a page knows of the buckets that its Search covers.
type found struct {
	used bool // the index was asked
	// located says that first is known: the lowest bucket that the index covers.
	located bool
	first   uint32
	// done says that all buckets of the index were read.
	done bool
}

// searches reports whether the next buckets may be left out. Where messages may be missing in the buckets, the page must read all buckets: to a
// higher one may have come the tombstone of such a message.
func (r *reading) searches() bool {
	if r.Filter == nil || r.Filter.Search == nil || r.search.found.done {
		return false
	}
	if s := r.Filter.Search; r.lowest().Decl < s.Number || int64(r.above()) <= int64(s.Scan) {
		return false
	}
	rest := Stretch{After: r.Above, Before: r.least().Next()}
	for _, s := range r.Absent {
		if !s.Within(rest).Empty() {
			return false
		}
	}
	return true
}

// readIndexed reads the next buckets of the index below those that were read, and reports whether there were any.
func (r *reading) readIndexed(ctx context.Context) (read bool, err error) {
	f, s := &r.search.found, r.Filter.Search
	if !f.located {
		if f.first, err = r.firstCovered(ctx); err != nil {
			return false, err
		}
		f.located = true
	}
	f.used = true
	above := r.lowest().Sequence
	if above <= f.first {
		f.done = true
		return false, nil
	}
	// Nearly each of them has at least one entry of the page.
	limit := min(int(r.more()), max(1, r.Limit+1-len(r.held())), 2*len(r.run))
	buckets, err := s.Index.WithFacets(ctx, r.Owner, s.Facets, f.first, above-1, limit)
	if err != nil {
		return false, err
	}
	for _, b := range buckets {
		r.take(b)
	}
	f.done = len(buckets) < limit
	return len(buckets) > 0, nil
}

// firstCovered returns the lowest bucket with a Decl of at least the number that is searched for, at or above the oldest one that has not expired. The
// lowest bucket that was read has such a Decl. Mostly one of the oldest buckets is the first, so the search steps up from there, with growing steps,
// and then bisects.
func (r *reading) firstCovered(ctx context.Context) (uint32, error) {
	low, high := int64(-1), int64(r.lowest().Sequence) // those up to low are not covered, and high is
	if !r.Purged.IsZero() {
		low = min(int64(r.Oldest), high) - 1
	}
	for step, growing := int64(1), true; low+1 < high; step *= 2 {
		probe := low + step
		if !growing || probe >= high {
			growing = false
			probe = low + (high-low)/2
		}
		o, err := outlineOf(ctx, r.store, r.Owner, uint32(probe))
		switch {
		case err != nil:
			return 0, err
		case o.Decl >= r.Filter.Search.Number:
			high, growing = probe, false
		default:
			low = probe
		}
	}
	return uint32(high), nil
}

// raiseAbove raises Above to the purge point as it is now, if buckets were left out.
func (r *reading) raiseAbove(ctx context.Context) error {
	if !r.search.found.used {
		return nil
	}
	purged, err := r.Filter.Search.Purged(ctx)
	r.Above = greater(r.Above, purged)
	r.absent = slices.DeleteFunc(r.absent, func(e Entry) bool { return !r.Above.Less(e.ID) })
	return err
}

func greater(x, y message.ID) message.ID {
	if x.Less(y) {
		return y
	}
	return x
}
