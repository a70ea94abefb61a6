package mongolayouts

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/mongostore/mongoraw"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	day = 24 * time.Hour
	// lifetime is how long the layout dated keeps a bucket.
	lifetime = 365 * day
)

// write returns the write that gives a message to a recipient.
func (l *layout) write(owner message.UserID, e bucket.Entry) mongo.WriteModel {
	self := bson.D{{Key: "owner", Value: string(owner)}}
	switch l.name {
	case "on-write":
		return mongo.NewInsertOneModel().SetDocument(append(self, mongoraw.Document(e)...))
	case "open-bucket":
		return upsert(append(self, bson.E{Key: "count", Value: bson.D{{Key: "$lt", Value: l.opts.BucketSize}}}), bson.D{
			push(bson.D{{Key: "$each", Value: bson.A{mongoraw.Document(e)}}}),
			{Key: "$inc", Value: bson.D{{Key: "count", Value: 1}}},
			{Key: "$setOnInsert", Value: bson.D{{Key: "opened", Value: e.ID.Time()}}},
		})
	case "newest-n":
		return upsert(bson.D{{Key: "_id", Value: string(owner)}}, bson.D{
			push(bson.D{{Key: "$each", Value: bson.A{mongoraw.Document(e)}}, {Key: "$slice", Value: -l.opts.Newest}}),
		})
	default: // dated
		begin := e.ID.Time().Truncate(day)
		return upsert(append(self, bson.E{Key: "day", Value: begin}), bson.D{
			push(mongoraw.Document(e)),
			{Key: "$setOnInsert", Value: bson.D{{Key: "expires", Value: begin.Add(lifetime)}}},
		})
	}
}

func push(what bson.D) bson.E {
	return bson.E{Key: "$push", Value: bson.D{{Key: "entries", Value: what}}}
}

func upsert(filter, update bson.D) mongo.WriteModel {
	return mongo.NewUpdateOneModel().SetUpsert(true).SetFilter(filter).SetUpdate(update)
}

// count raises the counter of each recipient, and then pushes into the buckets that the counts name. findAndModify cannot be sent in bulk.
func (l *layout) count(ctx context.Context, e bucket.Entry, recipients []message.UserID) error {
	counts := make([]int, len(recipients))
	group, one := errgroup.WithContext(ctx)
	group.SetLimit(l.opts.Commands)
	for i, owner := range recipients {
		group.Go(func() error {
			var counter struct{ Count int }
			err := l.counters.FindOneAndUpdate(one, bson.D{{Key: "_id", Value: string(owner)}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "count", Value: 1}}}},
				options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Decode(&counter)
			counts[i] = counter.Count
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return l.bulk(ctx, recipients, func(i int, owner message.UserID) mongo.WriteModel {
		sequence := (counts[i] - 1) / l.opts.BucketSize
		return upsert(bson.D{{Key: "owner", Value: string(owner)}, {Key: "sequence", Value: sequence}}, bson.D{push(mongoraw.Document(e))})
	})
}

// stored is an entry as it is stored.
type stored struct {
	ID   bson.Binary
	From string
	Body string
}

func (s stored) id() (id message.ID) {
	copy(id[:], s.ID.Data)
	return id
}

// messages reads one document for each message.
func (l *layout) messages(ctx context.Context, filter bson.D, field string, n int) (ids []message.ID, documents int, err error) {
	opts := options.Find().SetSort(bson.D{{Key: field, Value: -1}}).SetLimit(int64(n)).SetBatchSize(int32(n)) //nolint:gosec // a page is small
	if field == "_id" {
		opts.SetProjection(bson.D{{Key: "to", Value: 0}})
	}
	cursor, err := l.c.Find(ctx, filter, opts)
	if err != nil {
		return nil, 0, err
	}
	var found []struct {
		Key   any    `bson:"_id"`
		Entry stored `bson:",inline"`
	}
	if err := cursor.All(ctx, &found); err != nil {
		return nil, 0, err
	}
	for _, f := range found {
		if key, isID := f.Key.(bson.Binary); isID {
			f.Entry.ID = key
		}
		ids = append(ids, f.Entry.id())
	}
	return ids, len(found), nil
}

// newest reads the one document of a recipient.
func (l *layout) newest(ctx context.Context, owner message.UserID, n int) (ids []message.ID, documents int, err error) {
	var inbox struct{ Entries []stored }
	err = l.c.FindOne(ctx, bson.D{{Key: "_id", Value: string(owner)}},
		options.FindOne().SetProjection(bson.D{{Key: "entries", Value: bson.D{{Key: "$slice", Value: -n}}}})).Decode(&inbox)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, 0, nil
	}
	return descending(inbox.Entries, nil), 1, err
}

// descending appends the ids of entries, and sorts all ids, the newest first.
func descending(entries []stored, ids []message.ID) []message.ID {
	for _, e := range entries {
		ids = append(ids, e.id())
	}
	slices.SortFunc(ids, func(x, y message.ID) int { return y.Compare(x) })
	return ids
}

// buckets reads buckets from the newest one down, until it has enough messages.
func (l *layout) buckets(ctx context.Context, owner message.UserID, n int) (ids []message.ID, documents int, err error) {
	field := map[string]string{"counter": "sequence", "open-bucket": "opened", "dated": "day"}[l.name]
	filter := bson.D{{Key: "owner", Value: string(owner)}}
	limit := int64(n/l.opts.BucketSize + 1)
	for {
		cursor, err := l.c.Find(ctx, filter, options.Find().SetSort(bson.D{{Key: field, Value: -1}}).SetLimit(limit))
		if err != nil {
			return nil, 0, err
		}
		var found []bson.Raw
		if err := cursor.All(ctx, &found); err != nil {
			return nil, 0, err
		}
		for _, raw := range found {
			var b struct{ Entries []stored }
			if err := bson.Unmarshal(raw, &b); err != nil {
				return nil, 0, err
			}
			ids = descending(b.Entries, ids)
		}
		documents += len(found)
		if len(ids) >= n || len(found) < int(limit) {
			return ids[:min(n, len(ids))], documents, nil
		}
		filter = bson.D{filter[0], {Key: field, Value: bson.D{{Key: "$lt", Value: found[len(found)-1].Lookup(field)}}}}
	}
}
