package mongostore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/message/messagetest"
)

const (
	benchOwners = 50_000
	// benchBatch is how many owners are written to at a time, and in one command.
	benchBatch = 1000
	// benchConnections is how many commands are under way at a time, in all three ways of delivering.
	benchConnections = 2
	// benchThere is how many entries there are in each inbox before.
	benchThere = 10
	// benchRounds is in how many parts each way has its turn, so that they share what else the machine does.
	benchRounds = 6
	// benchClassic is to how many of the owners the classic recipe delivers: it takes too long to reach them all.
	benchClassic = 2500
)

// BenchmarkPush delivers messages by one author to 50,000 inboxes: as fan-out does, through the Appender; by a loop that
// sends the same guarded upserts, and does nothing else; and by the classic recipe, a counter for each recipient which tells
// the bucket to push into. They take turns, each on a database of its own in which the same was before.
//
//	go test -run '^$' -bench Push -benchtime 1x ./internal/mongostore
func BenchmarkPush(b *testing.B) {
	for _, messages := range []int{1, 10} {
		b.Run(fmt.Sprintf("%d-messages", messages), func(b *testing.B) {
			entries := benchEntries(benchThere, messages)
			ways := []*way{newAppending(b, entries), newRaw(b, entries), newClassic(b, entries)}
			for b.Loop() {
				race(b, ways)
			}
			for _, w := range ways {
				b.ReportMetric(w.rate(messages), w.name+"/s")
			}
			b.ReportMetric(ways[0].rate(messages)/ways[1].rate(messages), "of-raw")
			b.ReportMetric(ways[0].rate(messages)/ways[2].rate(messages), "times-classic")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// way is a way to deliver entries to owners.
type way struct {
	name    string
	owners  []message.UserID // ascending
	deliver func(ctx context.Context, owners []message.UserID) error

	took      time.Duration
	delivered int
}

// rate returns how many deliveries were made in a second.
func (w *way) rate(messages int) float64 { return float64(w.delivered*messages) / w.took.Seconds() }

// race lets each way deliver to a part of its owners, over and over, and each as often first, second and last.
func race(b *testing.B, ways []*way) {
	b.Helper()
	for round := range benchRounds {
		for turn := range ways {
			w := ways[(round+turn)%len(ways)]
			part := (len(w.owners) + benchRounds - 1) / benchRounds
			owners := w.owners[round*part : min((round+1)*part, len(w.owners))]
			began := time.Now()
			group, ctx := errgroup.WithContext(b.Context())
			group.SetLimit(benchConnections)
			for batch := range slices.Chunk(owners, min(benchBatch, part/benchConnections)) {
				group.Go(func() error { return w.deliver(ctx, batch) })
			}
			require.NoError(b, group.Wait())
			w.took += time.Since(began)
			w.delivered += len(owners)
		}
	}
}

func benchEntries(first, count int) []bucket.Entry {
	entries := make([]bucket.Entry, count)
	for i := range entries {
		m := messagetest.Message(first+i, "author")
		m.Body = strings.Repeat("abcdefghij", 20)
		entries[i] = bucket.EntryOf(m)
	}
	return entries
}

// filled returns a database with that many inboxes, their owners, and the same database as the driver sees it.
func filled(b *testing.B, count int) (*mongostore.DB, []message.UserID, *mongo.Database) {
	b.Helper()
	db, opts := create(b)
	owners := make([]message.UserID, count)
	for i := range owners {
		owners[i] = message.UserID(fmt.Sprintf("user-%08d", i))
	}
	there := benchEntries(0, benchThere)
	for batch := range slices.Chunk(owners, benchBatch) {
		pushes := make([]bucket.Push, len(batch))
		for i, owner := range batch {
			pushes[i] = bucket.Push{Owner: owner, Entries: there, Guard: true}
		}
		outcomes, err := db.Inbox().Push(b.Context(), pushes)
		require.NoError(b, err)
		for _, o := range outcomes {
			require.Equal(b, bucket.Outcome{Applied: true}, o)
		}
	}
	journaled := true
	majority := writeconcern.Majority()
	majority.Journal = &journaled
	client, err := mongo.Connect(options.Client().ApplyURI(opts.URI).SetWriteConcern(majority).SetMonitor(opts.Monitor))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, client.Disconnect(context.WithoutCancel(b.Context()))) })
	return db, owners, client.Database(opts.Database)
}

func newAppending(b *testing.B, entries []bucket.Entry) *way {
	b.Helper()
	db, owners, _ := filled(b, benchOwners)
	appender := bucket.NewAppender(db.Inbox(), db.Users())
	return &way{name: "deliveries", owners: owners, deliver: func(ctx context.Context, owners []message.UserID) error {
		appends := make([]bucket.Append, len(owners))
		for i, owner := range owners {
			appends[i] = bucket.Append{Owner: owner, Entries: entries}
		}
		results, err := appender.Append(ctx, appends)
		for i, r := range results {
			if r.Err != nil || r.New != len(entries) {
				return fmt.Errorf("append to %s: %d were new: %w", owners[i], r.New, r.Err)
			}
		}
		return err
	}}
}

func stored(id message.ID) bson.Binary { return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]} }

func newRaw(b *testing.B, entries []bucket.Entry) *way {
	b.Helper()
	_, owners, database := filled(b, benchOwners)
	inbox := database.Collection("inbox")
	var documents, ids bson.A
	for _, e := range entries {
		ids = append(ids, stored(e.ID))
		documents = append(documents, bson.D{{Key: "id", Value: stored(e.ID)}, {Key: "from", Value: string(e.From)}, {Key: "body", Value: e.Body}})
	}
	update := bson.D{
		{Key: "$push", Value: bson.D{{Key: "entries", Value: bson.D{{Key: "$each", Value: documents}}}}},
		{Key: "$inc", Value: bson.D{{Key: "slots", Value: len(entries)}}},
		{Key: "$max", Value: bson.D{{Key: "last", Value: ids[len(ids)-1]}}},
		{Key: "$setOnInsert", Value: bson.D{{Key: "v", Value: 1}}},
	}
	return &way{name: "raw", owners: owners, deliver: func(ctx context.Context, owners []message.UserID) error {
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
		if err == nil && result.ModifiedCount != int64(len(owners)) {
			err = fmt.Errorf("%d of %d inboxes were written to", result.ModifiedCount, len(owners))
		}
		return err
	}}
}

func newClassic(b *testing.B, entries []bucket.Entry) *way {
	b.Helper()
	_, owners, database := filled(b, benchClassic)
	inbox, counters := database.Collection("inbox"), database.Collection("counters")
	var there []any
	for _, owner := range owners {
		there = append(there, bson.D{{Key: "_id", Value: string(owner)}, {Key: "count", Value: benchThere}})
	}
	_, err := counters.InsertMany(b.Context(), there)
	require.NoError(b, err)
	return &way{name: "classic", owners: owners, deliver: func(ctx context.Context, owners []message.UserID) error {
		for _, e := range entries {
			for _, owner := range owners {
				var counter struct{ Count int64 }
				err := counters.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: string(owner)}},
					bson.D{{Key: "$inc", Value: bson.D{{Key: "count", Value: 1}}}}, options.FindOneAndUpdate().SetUpsert(true)).Decode(&counter)
				if err != nil {
					return err
				}
				document := bson.D{{Key: "id", Value: stored(e.ID)}, {Key: "from", Value: string(e.From)}, {Key: "body", Value: e.Body}}
				_, err = inbox.UpdateOne(ctx,
					bson.D{{Key: "owner", Value: string(owner)}, {Key: "sequence", Value: counter.Count / bucket.Capacity}},
					bson.D{{Key: "$push", Value: bson.D{{Key: "entries", Value: document}}}, {Key: "$inc", Value: bson.D{{Key: "slots", Value: 1}}}},
					options.UpdateOne().SetUpsert(true))
				if err != nil {
					return err
				}
			}
		}
		return nil
	}}
}
