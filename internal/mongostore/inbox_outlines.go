package mongostore

import (
	"cmp"
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// outlinesAtOnce and deletionsAtOnce are how many owners one query of outlines and of deletions covers. A thousand owners then take 8 and 2
	// queries.
	outlinesAtOnce  = 250
	deletionsAtOnce = 500
	// reply is how many documents of such a query fit into one reply. A server sends fewer if they are too large.
	reply = 10_000
)

// Outlines implements bucket.Store by queries of its two kinds of buckets, at the same time. A query of late buckets is for owners with nearly
// the same bound, and takes the highest one for all, because few buckets are late. So it may find others of these.
func (s *Inbox) Outlines(ctx context.Context, spans []bucket.Span) ([][]bucket.Outline, error) {
	places := make(map[message.UserID]int, len(spans))
	near, late := slices.Clone(spans), make([]bucket.Span, 0, len(spans))
	for i, span := range spans {
		places[span.Owner] = i
		if !span.Late.IsZero() {
			late = append(late, span)
		}
	}
	slices.SortFunc(near, func(x, y bucket.Span) int {
		return cmp.Or(cmp.Compare(x.Low, y.Low), cmp.Compare(x.High, y.High), cmp.Compare(x.Owner, y.Owner))
	})
	slices.SortFunc(late, func(x, y bucket.Span) int { return x.Late.Compare(y.Late) })
	var filters []bson.D
	for some := range slices.Chunk(near, outlinesAtOnce) {
		filters = append(filters, within(some))
	}
	nearby := len(filters)
	for some := range slices.Chunk(late, outlinesAtOnce) {
		filters = append(filters, cameLate(some))
	}
	found := make([][]bucketRecord, len(filters))
	find := options.Find().SetProjection(outlined).SetBatchSize(reply)
	err := s.c.db.each(ctx, len(filters), func(ctx context.Context, i int) (err error) {
		found[i], err = all[bucketRecord](ctx, s.c, "read outlines", filters[i], find)
		return err
	})
	if err != nil {
		return nil, err
	}
	outlines := make([][]bucket.Outline, len(spans))
	for i, records := range found {
		for k := range records {
			at := places[records[k].Owner]
			o, err := records[k].outline()
			if err != nil {
				return nil, err
			}
			if i < nearby || o.Sequence > spans[at].High {
				outlines[at] = append(outlines[at], o)
			}
		}
	}
	for _, of := range outlines {
		slices.SortFunc(of, func(x, y bucket.Outline) int { return cmp.Compare(y.Sequence, x.Sequence) })
	}
	return outlines, nil
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
		alternatives = append(alternatives, bson.D{
			{Key: fieldOwner, Value: in(owners)},
			{Key: fieldSequence, Value: bson.D{{Key: "$gte", Value: int64(first.Low)}, {Key: "$lte", Value: int64(first.High)}}},
		})
	}
	return operator("$or", alternatives)
}

// cameLate returns a filter for the late buckets of spans that ascend by Late.
func cameLate(spans []bucket.Span) bson.D {
	owners := make([]message.UserID, len(spans))
	for i, span := range spans {
		owners[i] = span.Owner
	}
	return bson.D{
		{Key: fieldOwner, Value: in(owners)},
		{Key: fieldLate, Value: append(operator("$lt", uuid(spans[len(spans)-1].Late)), exists...)}, // as the partial index has it
	}
}

// Deletions implements bucket.Store. The queries read only buckets with tombstones, and no entries. A query is for owners with nearly the same bound, and returns the tombstones from the lowest one on.
func (s *Inbox) Deletions(ctx context.Context, refs []bucket.Ref) ([]bucket.Deletions, error) {
	places := make(map[message.UserID]int, len(refs))
	for i, ref := range refs {
		places[ref.Owner] = i
	}
	ordered := slices.SortedFunc(slices.Values(refs), func(x, y bucket.Ref) int { return cmp.Compare(x.Sequence, y.Sequence) })
	chunks := slices.Collect(slices.Chunk(ordered, deletionsAtOnce))
	found := make([][]bucketRecord, len(chunks))
	err := s.c.db.each(ctx, len(chunks), func(ctx context.Context, i int) (err error) {
		owners := make([]message.UserID, len(chunks[i]))
		for k, ref := range chunks[i] {
			owners[k] = ref.Owner
		}
		projection := append(deletionFields(chunks[i][0].Sequence), bson.E{Key: fieldOwner, Value: 1})
		find := options.Find().SetProjection(projection).SetBatchSize(reply)
		found[i], err = all[bucketRecord](ctx, s.c, "read deletions", withDeletions(in(owners)), find)
		return err
	})
	if err != nil {
		return nil, err
	}
	deletions := make([]bucket.Deletions, len(refs))
	for _, records := range found {
		for k := range records {
			r := &records[k]
			at := places[r.Owner]
			if r.Sequence < int64(refs[at].Sequence) {
				r.Tombstones = nil
			}
			if err := r.addTo(&deletions[at]); err != nil {
				return nil, err
			}
		}
	}
	return deletions, nil
}
