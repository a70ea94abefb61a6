package storemetrics

import (
	"context"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Index returns an index that measures each call and passes it to the given one.
func (m *Metrics) Index(of bucket.Index) bucket.Index {
	return &index{Index: of, candidates: m.operation("inbox.candidates"), decl: m.operation("inbox.decl")}
}

type index struct {
	bucket.Index

	candidates, decl operation
}

func (x *index) Candidates(
	ctx context.Context, owner message.UserID, ranges []attribute.FacetRange, low, high uint32, limit int,
) (buckets []bucket.Bucket, err error) {
	defer x.candidates.done(ctx, x.candidates.now(), &err)
	return x.Index.Candidates(ctx, owner, ranges, low, high, limit)
}

func (x *index) Decl(ctx context.Context, owner message.UserID, sequence uint32) (decl int, exists bool, err error) {
	defer x.decl.done(ctx, x.decl.now(), &err)
	return x.Index.Decl(ctx, owner, sequence)
}
