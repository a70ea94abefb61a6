package bucket

import (
	"context"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/message"
)

// Index finds buckets by the facets of their entries. A Store may have one. All methods are safe for concurrent use, and see what a read of the
// Store sees.
type Index interface {
	// WithFacets returns the owner's buckets from low to high, both included, that have a facet in one of the ranges. It returns at most
	// limit, the highest first, and ends with the one with which the contents reach ReadBytes. Either there is one range, or each range is a single facet. A bucket has the facets of all pushes that were
	// applied to it, also those of entries that have gone since. A stub has none. The caller owns the buckets, but shares the entries: see
	// Entry.
	WithFacets(ctx context.Context, owner message.UserID, ranges []attribute.FacetRange, low, high uint32, limit int) ([]Bucket, error)
}
