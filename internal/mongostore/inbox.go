package mongostore

import (
	"cmp"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/pkg/bucket"
)

// Inbox is the store of buckets, one document for each bucket. inbox_record.go describes the document. Every operation is one
// update of one document, or reads each document as it is at one moment.
//
// No query sorts an owner's buckets without a bound on the sequence, because some servers then read all of them first.
type Inbox struct {
	c    collection
	size bucket.Size
}

var _ bucket.Store = (*Inbox)(nil)

// Size implements bucket.Store.
func (s *Inbox) Size() bucket.Size { return s.size }

// bucketsOf returns the buckets of records that were read with a field, the highest first.
func bucketsOf(records []bucketRecord, field bucket.Field) (buckets []bucket.Bucket, err error) {
	slices.SortFunc(records, func(x, y bucketRecord) int { return cmp.Compare(y.Sequence, x.Sequence) })
	for i := range records {
		b, err := records[i].bucket(field)
		if err != nil {
			return nil, err
		}
		buckets = append(buckets, b)
	}
	return buckets, nil
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
