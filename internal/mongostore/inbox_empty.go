package mongostore

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// noStub is a condition on a bucket.
var noStub = bson.E{Key: fieldStub, Value: operator("$exists", false)}

// emptiedRecord is what Empty reads of a bucket.
type emptiedRecord struct {
	Bucket bucketRecord `bson:",inline"`

	Expired int32 `bson:"expired"` // those of them that have expired
	Bytes   int64 `bson:"bytes"`   // of these
}

// Empty implements bucket.Store by one query and one command with an update for each bucket. The conditions of the updates, and not what the
// query has returned, decide what is emptied. A repetition has no effect, because a bucket becomes a stub once.
func (s *Inbox) Empty(ctx context.Context, owner message.UserID, low, high uint32, purged message.ID) (freed bucket.Emptied, err error) {
	if low > high {
		return freed, nil
	}
	records, err := all[emptiedRecord](ctx, s.c, "read what has expired", bson.D{
		{Key: fieldOwner, Value: owner},
		{Key: fieldSequence, Value: bson.D{{Key: "$gte", Value: int64(low)}, {Key: "$lte", Value: int64(high)}}},
		noStub,
	}, options.Find().SetProjection(expiredFields(purged)))
	if err != nil {
		return freed, err
	}
	var models []mongo.WriteModel
	for i := range records {
		r := &records[i]
		o, err := r.Bucket.outline()
		if err != nil {
			return bucket.Emptied{}, err
		}
		part := bucket.Emptied{Buckets: 1, Entries: int(r.Expired), Bytes: r.Bytes}
		switch {
		case o.Slots == int(s.size) && !purged.Less(o.Last):
			part.Stubs = 1
			models = append(models, emptyWhole(owner, o, purged)...)
		case r.Expired > 0:
			models = append(models, emptyPart(owner, o.Sequence, purged))
		default:
			continue
		}
		freed.Add(part)
	}
	if len(models) == 0 {
		return freed, nil
	}
	err = s.c.call(ctx, "empty buckets", func(ctx context.Context) error {
		_, err := s.c.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(true))
		return err
	})
	if err != nil {
		return bucket.Emptied{}, fmt.Errorf("empty the buckets %d to %d of %s: %w", low, high, owner, err)
	}
	return freed, nil
}

// expiredFields returns a projection onto the bounds of a bucket and what it has to empty.
func expiredFields(purged message.ID) bson.D {
	expired := operator("$and", bson.A{
		operator("$gt", bson.A{"$$this." + fieldEntryID, nil}), // the comparison below holds for entries without an id
		operator("$lte", bson.A{"$$this." + fieldEntryID, uuid(purged)}),
		operator("$not", bson.A{"$$this." + fieldDeleted}),
		operator("$not", bson.A{"$$this." + fieldExpired}),
	})
	sum := func(of any) bson.D {
		counted := operator("$cond", bson.A{expired, of, 0})
		return operator("$sum", operator("$map", bson.D{{Key: "input", Value: "$" + fieldEntries}, {Key: "in", Value: counted}}))
	}
	return append(fields(fieldOwner, fieldSequence, fieldSlots, fieldDecl, fieldFloor, fieldLast),
		bson.E{Key: "expired", Value: sum(1)}, bson.E{Key: "bytes", Value: sum(operator("$bsonSize", "$$this"))})
}

// emptyWhole returns the updates that make a stub of a bucket: one for a bucket without tombstones, then one for a bucket with some. A bucket may
// get its first one in between, and never loses it, so one of the two applies. The number of tombstones becomes negative: they count as
// deletions that there ever were, and not among those that there are. A stub needs no purge point: its last says what has expired. It needs no
// facets.
func emptyWhole(owner message.UserID, o bucket.Outline, purged message.ID) []mongo.WriteModel {
	filter := append(bucketOf(owner, o.Sequence), ofThisVersion, noStub,
		bson.E{Key: fieldSlots, Value: o.Slots}, bson.E{Key: fieldLast, Value: operator("$lte", uuid(purged))})
	update := bson.D{
		{Key: "$set", Value: bson.D{{Key: fieldStub, Value: true}, {Key: fieldEntries, Value: bson.A{}}}},
		{Key: "$unset", Value: bson.D{
			{Key: fieldLate, Value: ""}, {Key: fieldTombstones, Value: ""}, {Key: fieldPurged, Value: ""}, {Key: fieldFacets, Value: ""},
		}},
	}
	model := func(tombstones bool, update bson.D) mongo.WriteModel {
		where := append(slices.Clip(filter), bson.E{Key: fieldDeleted, Value: operator("$exists", tombstones)})
		return mongo.NewUpdateOneModel().SetFilter(where).SetUpdate(update)
	}
	return []mongo.WriteModel{
		model(false, update),
		model(true, append(slices.Clip(update), bson.E{Key: "$mul", Value: operator(fieldDeleted, -1)})),
	}
}

// emptyPart returns the update that empties the entries of a bucket that have expired.
func emptyPart(owner message.UserID, sequence uint32, purged message.ID) *mongo.UpdateOneModel {
	expired := func(prefix string) bson.D {
		return bson.D{
			{Key: prefix + fieldEntryID, Value: operator("$lte", uuid(purged))},
			{Key: prefix + fieldDeleted, Value: operator("$ne", true)},
			{Key: prefix + fieldExpired, Value: operator("$ne", true)},
		}
	}
	filter := append(bucketOf(owner, sequence), ofThisVersion, noStub,
		bson.E{Key: fieldEntries, Value: operator("$elemMatch", expired(""))})
	of := func(name string) string { return path(fieldEntries, "$[e]", name) }
	var unset bson.D
	for _, name := range contentFields {
		unset = append(unset, bson.E{Key: of(name), Value: ""})
	}
	update := bson.D{
		{Key: "$set", Value: operator(of(fieldExpired), true)},
		{Key: "$unset", Value: unset},
		{Key: "$max", Value: operator(fieldPurged, uuid(purged))},
	}
	return mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(update).SetArrayFilters([]any{expired("e.")})
}
