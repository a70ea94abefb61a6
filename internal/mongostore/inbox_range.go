package mongostore

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// spansAtOnce and deletionsAtOnce are how many owners one query of buckets and of deletions covers. A thousand owners then take 8 and 2
	// queries.
	spansAtOnce     = 250
	deletionsAtOnce = 500
	// reply is how many documents of such a query fit into one reply. A server sends fewer if they are too large.
	reply = 10_000
)

// whole is a projection onto the parts of a bucket that are read with a field; nil is all of them.
func whole(field bucket.Field) bson.D {
	if field == bucket.AllFields {
		return nil
	}
	projection := fields(fieldOwner, fieldSequence, fieldSlots, fieldDecl, fieldFloor, fieldLast, fieldLate, fieldStub)
	if field == bucket.NoEntries {
		return projection
	}
	projection = append(projection, bson.E{Key: fieldPurged, Value: 1})
	names := []string{fieldEntryID, fieldDeleted, fieldExpired}
	switch field {
	case bucket.FieldFrom:
		names = append(names, fieldEntryFrom)
	case bucket.FieldAttrs:
		names = append(names, fieldEntryAttrs)
	}
	for _, name := range names {
		projection = append(projection, bson.E{Key: path(fieldEntries, name), Value: 1})
	}
	return projection
}

// withoutContents is a projection onto a bucket whose entries have no contents.
var withoutContents = whole(bucket.NoFields)

// Range implements bucket.Store by queries at the same time. One covers many spans, unless they have a limit. Late buckets have queries of their
// own. Such a query is for owners with nearly the same bound, and takes the highest one for all, because few buckets are late.
func (s *Inbox) Range(ctx context.Context, spans []bucket.Span, field bucket.Field) ([][]bucket.Bucket, error) {
	places := make(map[message.UserID]int, len(spans))
	var near, late []bucket.Span
	var filters []bson.D
	var limits []int64 // of the first filters
	for i, span := range spans {
		places[span.Owner] = i
		switch {
		case span.Low > span.High:
		case span.Limit > 0 && int64(span.Limit) <= int64(span.High)-int64(span.Low): // there may be more than the limit
			filters, limits = append(filters, within([]bucket.Span{span})), append(limits, int64(span.Limit))
		default:
			near = append(near, span)
		}
		if !span.Late.IsZero() {
			late = append(late, span)
		}
	}
	slices.SortFunc(near, func(x, y bucket.Span) int {
		return cmp.Or(cmp.Compare(x.Low, y.Low), cmp.Compare(x.High, y.High), cmp.Compare(x.Owner, y.Owner))
	})
	slices.SortFunc(late, func(x, y bucket.Span) int { return x.Late.Compare(y.Late) })
	for some := range slices.Chunk(near, spansAtOnce) {
		filters = append(filters, within(some))
	}
	nearby := len(filters)
	for some := range slices.Chunk(late, spansAtOnce) {
		filters = append(filters, cameLate(some))
	}
	found := make([][]bucketRecord, len(filters))
	err := s.c.db.each(ctx, len(filters), func(ctx context.Context, i int) (err error) {
		find := options.Find().SetBatchSize(reply)
		if projection := whole(field); projection != nil {
			find.SetProjection(projection)
		}
		if i < len(limits) { // sort, so that the server leaves out the right ones
			find.SetSort(bson.D{{Key: fieldSequence, Value: -1}}).SetLimit(limits[i])
		}
		found[i], err = all[bucketRecord](ctx, s.c, "read buckets", filters[i], find)
		return err
	})
	if err != nil {
		return nil, err
	}
	records := make([][]bucketRecord, len(spans))
	for i, some := range found {
		for k := range some {
			at := places[some[k].Owner]
			if i < nearby || some[k].lateIn(spans[at]) {
				records[at] = append(records[at], some[k])
			}
		}
	}
	buckets := make([][]bucket.Bucket, len(spans))
	for i := range records {
		if buckets[i], err = bucketsOf(records[i], field); err != nil {
			return nil, err
		}
	}
	return buckets, nil
}

// within returns a filter for the buckets of spans, without the late ones. Neighbours with the same bounds share one condition, as in anyOf.
func within(spans []bucket.Span) bson.D {
	var alternatives bson.A
	for len(spans) > 0 {
		first, owners := spans[0], []message.UserID(nil)
		for len(spans) > 0 && spans[0].Low == first.Low && spans[0].High == first.High {
			owners = append(owners, spans[0].Owner)
			spans = spans[1:]
		}
		one := bson.D{
			{Key: fieldOwner, Value: in(owners)},
			{Key: fieldSequence, Value: bson.D{{Key: "$gte", Value: int64(first.Low)}, {Key: "$lte", Value: int64(first.High)}}},
		}
		if len(spans) == 0 && alternatives == nil {
			return one
		}
		alternatives = append(alternatives, one)
	}
	return operator("$or", alternatives)
}

// cameLate returns a filter for the late buckets of spans that ascend by Late.
func cameLate(spans []bucket.Span) bson.D {
	owners, above := make([]message.UserID, len(spans)), spans[0].High
	for i, span := range spans {
		owners[i], above = span.Owner, min(above, span.High)
	}
	return bson.D{
		{Key: fieldOwner, Value: in(owners)},
		{Key: fieldLate, Value: append(operator("$lt", uuid(spans[len(spans)-1].Late)), exists...)}, // as the partial index has it
		{Key: fieldSequence, Value: operator("$gt", int64(above))},
	}
}

// lateIn reports whether a bucket with a late entry is one of a span.
func (r *bucketRecord) lateIn(span bucket.Span) bool {
	return r.Late != nil && bytes.Compare(r.Late.Data, span.Late[:]) < 0 && r.Sequence > int64(span.High)
}

// Deletions implements bucket.Store. The queries read only buckets with tombstones, and no entries. A query is for owners with nearly the same
// bound, and returns the tombstones from the lowest one on.
func (s *Inbox) Deletions(ctx context.Context, from []bucket.Head) ([]bucket.Deletions, error) {
	places := make(map[message.UserID]int, len(from))
	for i, f := range from {
		places[f.Owner] = i
	}
	ordered := slices.SortedFunc(slices.Values(from), func(x, y bucket.Head) int { return cmp.Compare(x.Hint.Sequence, y.Hint.Sequence) })
	chunks := slices.Collect(slices.Chunk(ordered, deletionsAtOnce))
	found := make([][]bucketRecord, len(chunks))
	err := s.c.db.each(ctx, len(chunks), func(ctx context.Context, i int) (err error) {
		owners := make([]message.UserID, len(chunks[i]))
		for k, f := range chunks[i] {
			owners[k] = f.Owner
		}
		projection := append(deletionFields(chunks[i][0].Hint.Sequence), bson.E{Key: fieldOwner, Value: 1})
		find := options.Find().SetProjection(projection).SetBatchSize(reply)
		found[i], err = all[bucketRecord](ctx, s.c, "read deletions", withDeletions(in(owners)), find)
		return err
	})
	if err != nil {
		return nil, err
	}
	deletions := make([]bucket.Deletions, len(from))
	for _, records := range found {
		for k := range records {
			r := &records[k]
			at := places[r.Owner]
			if r.Sequence < int64(from[at].Hint.Sequence) {
				r.Tombstones = nil
			}
			if err := r.addTo(&deletions[at], s.size); err != nil {
				return nil, err
			}
		}
	}
	return deletions, nil
}
