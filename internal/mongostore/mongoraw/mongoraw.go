// Package mongoraw measures what a MongoDB server does with guarded upserts of inbox entries, and nothing else: the limit that the
// store's own speed is judged by.
package mongoraw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Options say where, and how much at a time, as the store does it.
type Options struct {
	URI, Database string
	// Operations is how many upserts are in a command, Commands how many commands are under way at a time.
	Operations, Commands int
}

// Upserts makes pushes onto the first bucket of each owner, one after the other, and returns how many deliveries that were in a second.
// The owners are in the order in which fan-out has them.
func Upserts(ctx context.Context, opts Options, owners []message.UserID, pushes [][]bucket.Entry) (rate float64, err error) {
	client, err := Connect(opts.URI, nil)
	if err != nil {
		return 0, fmt.Errorf("raw limit of MongoDB: %w", err)
	}
	defer func() { err = errors.Join(err, client.Disconnect(context.WithoutCancel(ctx))) }()
	inbox := client.Database(opts.Database).Collection("inbox")
	began := time.Now() //nolint:forbidigo // what is measured is time
	deliveries := 0
	for _, entries := range pushes {
		if err := spread(ctx, inbox, opts, owners, entries); err != nil {
			return 0, fmt.Errorf("raw limit of MongoDB: %w", err)
		}
		deliveries += len(owners) * len(entries)
	}
	return float64(deliveries) / time.Since(began).Seconds(), nil
}

// Connect connects with the write concern of the store. The monitor may be nil.
func Connect(uri string, monitor *event.CommandMonitor) (*mongo.Client, error) {
	majority := writeconcern.Majority()
	majority.Journal = new(true)
	return mongo.Connect(options.Client().ApplyURI(uri).SetWriteConcern(majority).SetMonitor(monitor))
}

// spread pushes entries onto the first bucket of each owner.
func spread(ctx context.Context, inbox *mongo.Collection, opts Options, owners []message.UserID, entries []bucket.Entry) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(opts.Commands)
	for batch := range slices.Chunk(owners, opts.Operations) {
		group.Go(func() error { return guardedUpserts(ctx, inbox, batch, entries) })
	}
	return group.Wait()
}

// guardedUpserts pushes entries onto the first bucket of each owner, unless they are there, or the bucket is full.
func guardedUpserts(ctx context.Context, inbox *mongo.Collection, owners []message.UserID, entries []bucket.Entry) error {
	var documents, ids bson.A
	for _, e := range entries {
		ids, documents = append(ids, Stored(e.ID)), append(documents, Document(e))
	}
	update := bson.D{
		{Key: "$push", Value: bson.D{{Key: "entries", Value: bson.D{{Key: "$each", Value: documents}}}}},
		{Key: "$inc", Value: bson.D{{Key: "slots", Value: len(entries)}}},
		{Key: "$max", Value: bson.D{{Key: "last", Value: ids[len(ids)-1]}}},
		{Key: "$setOnInsert", Value: bson.D{{Key: "v", Value: 1}}},
	}
	models := make([]mongo.WriteModel, len(owners))
	for i, owner := range owners {
		models[i] = mongo.NewUpdateOneModel().SetUpsert(true).SetUpdate(update).SetFilter(bson.D{
			{Key: "owner", Value: string(owner)},
			{Key: "sequence", Value: int64(0)},
			{Key: "slots", Value: bson.D{{Key: "$lte", Value: bucket.Capacity - len(entries)}}},
			{Key: "entries.id", Value: bson.D{{Key: "$nin", Value: ids}}},
			{Key: "floor", Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$gte", Value: ids[0]}}}}},
		})
	}
	result, err := inbox.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	if err == nil && result.ModifiedCount+result.UpsertedCount != int64(len(owners)) {
		err = fmt.Errorf("%d of %d inboxes were written to", result.ModifiedCount+result.UpsertedCount, len(owners))
	}
	return err
}

// Stored returns an id as it is stored.
func Stored(id message.ID) bson.Binary { return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]} }

// Document returns an entry as it is stored.
func Document(e bucket.Entry) bson.D {
	return bson.D{{Key: "id", Value: Stored(e.ID)}, {Key: "from", Value: string(e.From)}, {Key: "body", Value: e.Body}}
}
