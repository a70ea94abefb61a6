package mongostore

import (
	"cmp"
	"context"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Inbox is the store of buckets, one document for each bucket. inbox_record.go describes the document. Every operation is one
// update of one document, or reads each document as it is at one moment.
//
// No query sorts an owner's buckets without a bound on the sequence, because some servers then read all of them first.
type Inbox struct{ c collection }

var _ bucket.Store = (*Inbox)(nil)

func newInbox(c collection) *Inbox { return &Inbox{c: c} }

// only is a projection onto a bucket of which each entry has one field of its contents.
func only(field bucket.Field) bson.D {
	name := map[bucket.Field]string{bucket.FieldFrom: fieldEntryFrom, bucket.FieldAttrs: fieldEntryAttrs}[field]
	projection := append(slices.Clip(outlined), bson.E{Key: fieldPurged, Value: 1})
	for _, kept := range []string{fieldDeleted, fieldExpired, name} {
		projection = append(projection, bson.E{Key: path(fieldEntries, kept), Value: 1})
	}
	return projection
}

// Range implements bucket.Store.
func (s *Inbox) Range(ctx context.Context, owner message.UserID, low, high uint32, limit int, field bucket.Field) ([]bucket.Bucket, error) {
	if low > high || limit <= 0 {
		return nil, nil
	}
	find := options.Find()
	if field != bucket.AllFields {
		find.SetProjection(only(field))
	}
	filter := bson.D{
		{Key: fieldOwner, Value: owner},
		{Key: fieldSequence, Value: bson.D{{Key: "$gte", Value: int64(low)}, {Key: "$lte", Value: int64(high)}}},
	}
	if int64(limit) <= int64(high)-int64(low) { // there may be more than limit: sort, so that the server leaves out the right ones
		find.SetSort(bson.D{{Key: fieldSequence, Value: -1}}).SetLimit(int64(limit))
	}
	records, err := all[bucketRecord](ctx, s.c, "read buckets", filter, find)
	if err != nil {
		return nil, err
	}
	return bucketsOf(records)
}

// bucketsOf returns the buckets of records, the highest first.
func bucketsOf(records []bucketRecord) (buckets []bucket.Bucket, err error) {
	slices.SortFunc(records, func(x, y bucketRecord) int { return cmp.Compare(y.Sequence, x.Sequence) })
	for i := range records {
		b, err := records[i].bucket()
		if err != nil {
			return nil, err
		}
		buckets = append(buckets, b)
	}
	return buckets, nil
}

// Overlapping implements bucket.Store. The mark alone decides: a repair may have lowered the floor since the push. See bucketRecord.
func (s *Inbox) Overlapping(ctx context.Context, owner message.UserID, above uint32, id message.ID) ([]bucket.Bucket, error) {
	if above == math.MaxUint32 {
		return nil, nil
	}
	records, err := all[bucketRecord](ctx, s.c, "read late buckets", bson.D{
		{Key: fieldOwner, Value: owner},
		{Key: fieldLate, Value: append(operator("$lt", uuid(id)), exists...)}, // as the partial index has it
		{Key: fieldSequence, Value: operator("$gt", int64(above))},
	}, options.Find())
	if err != nil {
		return nil, err
	}
	return bucketsOf(records)
}

// inboxSchema returns how buckets are sharded and indexed. The buckets of an owner lie side by side in the order of sequences.
// The unique key makes a push fail if the bucket is full or holds the message already. Few buckets have late entries or
// tombstones, so those two indexes are small and hardly slow down other pushes.
func inboxSchema() schema {
	return schema{
		name: inboxName, key: ascending(fieldOwner, fieldSequence), unique: true,
		indexes: []index{
			{keys: ascending(fieldOwner, fieldSequence), unique: true},
			{keys: ascending(fieldOwner, fieldLate), partial: bson.D{{Key: fieldLate, Value: exists}}},
			{keys: ascending(fieldOwner, fieldDeleted), partial: bson.D{{Key: fieldDeleted, Value: exists}}},
			// Only buckets with facets are in it: none as long as no attribute is declared.
			{keys: ascending(fieldOwner, fieldFacets, fieldSequence), partial: bson.D{{Key: fieldFacets, Value: exists}}},
		},
	}
}
