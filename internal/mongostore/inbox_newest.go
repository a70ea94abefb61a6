package mongostore

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// fieldBuried marks a document that the first query returns for its tombstones. The others are returned for their entries.
const fieldBuried = "buried"

// Newest implements bucket.Store by one command with two queries. If nothing was deleted, the first query finds nothing. It may find many stubs, so
// the batch is large: otherwise each hundred of them would take a round trip.
func (s *Inbox) Newest(
	ctx context.Context, owner message.UserID, low uint32, limit int, from uint32,
) (buckets []bucket.Bucket, d bucket.Deletions, err error) {
	if limit <= 0 {
		d, err = bucket.ReadDeletions(ctx, s, owner, from)
		return nil, d, err
	}
	newest := mongo.Pipeline{
		operator("$match", bson.D{{Key: fieldOwner, Value: owner}, {Key: fieldSequence, Value: operator("$gte", int64(low))}}),
		operator("$sort", bson.D{{Key: fieldSequence, Value: -1}}),
		operator("$limit", limit),
	}
	pipeline := mongo.Pipeline{
		operator("$match", withDeletions(owner)),
		operator("$project", append(deletionFields(from), bson.E{Key: fieldBuried, Value: operator("$literal", true)})),
		operator("$unionWith", bson.D{{Key: "coll", Value: s.c.Name()}, {Key: "pipeline", Value: newest}}),
	}
	var held, tombstoned []bucketRecord
	var bytes int
	err = s.c.call(ctx, "read the newest buckets", func(ctx context.Context) error {
		held, tombstoned, bytes = nil, nil, 0
		cursor, err := s.c.Aggregate(ctx, pipeline, options.Aggregate().SetBatchSize(reply))
		if err != nil {
			return err
		}
		defer closeCursor(ctx, cursor)
		for cursor.Next(ctx) {
			records := &held
			if _, ok := cursor.Current.Lookup(fieldBuried).BooleanOK(); ok {
				records = &tombstoned
			} else if bytes += len(cursor.Current); bytes-len(cursor.Current) >= bucket.ReadBytes {
				continue
			}
			*records = append(*records, bucketRecord{})
			if err := decode(s.c.Name(), cursor.Current, &(*records)[len(*records)-1]); err != nil {
				return err
			}
		}
		return cursor.Err()
	})
	if err != nil {
		return nil, d, err
	}
	for i := range tombstoned {
		if err := tombstoned[i].addTo(&d, s.size); err != nil {
			return nil, bucket.Deletions{}, err
		}
	}
	buckets, err = bucketsOf(held, bucket.AllFields)
	return buckets, d, err
}
