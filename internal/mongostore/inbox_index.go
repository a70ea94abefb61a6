package mongostore

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

var _ bucket.Index = (*Inbox)(nil)

const (
	// indexedNear is how many sequences the first query of the index covers, and indexedMore by what factor each further one covers more.
	// Some servers read all buckets that a query finds before they sort them. So where many buckets have a facet, a query covers few.
	indexedNear = 256
	indexedMore = 4
)

// WithFacets implements bucket.Index by queries of ranges of sequences, from above, until it has found enough.
func (s *Inbox) WithFacets(
	ctx context.Context, owner message.UserID, ranges []attribute.FacetRange, low, high uint32, limit int,
) (found []bucket.Bucket, err error) {
	next := int64(high) // the sequences above it were searched
	for span := int64(indexedNear); next >= int64(low) && len(found) < limit; span *= indexedMore {
		from := max(int64(low), next-span+1)
		filter := bson.D{
			{Key: fieldOwner, Value: owner},
			{Key: fieldFacets, Value: anyIn(ranges)},
			{Key: fieldSequence, Value: bson.D{{Key: "$gte", Value: from}, {Key: "$lte", Value: next}}},
		}
		find := options.Find().SetProjection(operator(fieldFacets, 0)).
			SetSort(bson.D{{Key: fieldSequence, Value: -1}}).SetLimit(int64(limit - len(found)))
		before := len(found)
		err := s.c.scan(ctx, "read buckets with facets", filter, find, func() { found = found[:before] }, func(raw bson.Raw) error {
			var r bucketRecord
			if err := decode(s.c.Name(), raw, &r); err != nil {
				return err
			}
			b, err := r.bucket(bucket.AllFields)
			if err != nil {
				return err
			}
			if found = append(found, b); bucket.Bytes(found) >= bucket.ReadBytes {
				return errEnough
			}
			return nil
		})
		if err != nil || bucket.Bytes(found) >= bucket.ReadBytes {
			return found, err
		}
		next = from - 1
	}
	return found, nil
}

// anyIn is a condition on facets: one of them is in one of the ranges. Single facets are found by the index on facets. So are ranges on MongoDB. On
// DocumentDB, a condition on a range must not say that facets exist: the server would take the index for it, and crash. Without that it takes the index
// of sequences, and reads the buckets that the query covers.
func anyIn(ranges []attribute.FacetRange) bson.D {
	if len(ranges) == 1 && ranges[0].Low < ranges[0].High {
		return operator("$elemMatch", bson.D{{Key: "$gte", Value: int64(ranges[0].Low)}, {Key: "$lte", Value: int64(ranges[0].High)}})
	}
	facets := make([]int64, len(ranges))
	for i, r := range ranges {
		facets[i] = int64(r.Low)
	}
	return append(in(facets), exists...) // as the partial index has it
}
