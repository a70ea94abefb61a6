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

// indexed is what a page knows of the buckets that its Search covers.
type indexed struct {
	used bool // the index was asked
	// located says that first is known: the lowest bucket that the index covers.
	located bool
	first   uint32
	// done says that all buckets of the index were read.
	done bool
}

// searches reports whether the next buckets may be left out. Where messages may be missing in the buckets, the page must read all buckets.
// A higher one may have the tombstone of such a message.
func (r *filtering) searches() bool {
	if r.Filter.Search == nil || r.index.done {
		return false
	}
	if s := r.Filter.Search; r.lowest().Decl < s.Number || int64(r.above()) <= int64(s.Scan) {
		return false
	}
	rest := Stretch{After: r.bottom, Before: r.least().Next()}
	return !slices.ContainsFunc(r.Absent, func(s Stretch) bool { return !s.Within(rest).Empty() })
}

// above returns the bucket above the next one that is read in order.
func (r *filtering) above() uint32 {
	above := r.lowest().Sequence
	if r.index.done {
		above = min(above, r.index.first+1)
	}
	return above
}

// readIndexed reads the next buckets of the index below those that were read, and reports whether there were any.
func (r *filtering) readIndexed(ctx context.Context) (read bool, err error) {
	x, s := &r.index, r.Filter.Search
	if !x.located {
		if x.first, err = r.firstCovered(ctx); err != nil {
			return false, err
		}
		x.located = true
	}
	x.used = true
	above := r.lowest().Sequence
	if above <= x.first {
		x.done = true
		return false, nil
	}
	// Nearly each of them has at least one entry of the page.
	limit := min(int(r.more()), max(1, r.Limit+1-len(r.held())), 2*len(r.run))
	buckets, err := s.Index.WithFacets(ctx, r.Owner, s.Facets, x.first, above-1, limit)
	if err != nil {
		return false, err
	}
	r.whole = true
	for _, b := range buckets {
		r.take(b)
	}
	r.whole = false
	x.done = len(buckets) < limit && Bytes(buckets) < ReadBytes
	return len(buckets) > 0, nil
}

// firstCovered returns the lowest bucket whose Decl is at least the number that is searched for. It is at or above the oldest one that has
// not expired. The lowest bucket that was read has such a Decl. Mostly one of the oldest buckets is the first, so the search steps up from
// there, with growing steps, and then bisects.
func (r *filtering) firstCovered(ctx context.Context) (uint32, error) {
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

// raiseBottom raises bottom to the purge point as it is now, if buckets were left out.
func (r *filtering) raiseBottom(ctx context.Context) error {
	if !r.index.used {
		return nil
	}
	purged, err := r.Filter.Search.Purged(ctx)
	r.bottom = greater(r.bottom, purged)
	r.absent = slices.DeleteFunc(r.absent, func(f Found) bool { return !r.bottom.Less(f.ID) })
	return err
}
