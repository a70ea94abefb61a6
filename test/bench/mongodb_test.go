package bench_test

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

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/mongostore/mongoraw"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	mongoFollowers = 50_000
	// mongoThere is how many entries there are in each inbox before.
	mongoThere = 10
	// mongoRounds is how often each way has its turn, so that they share what else the machine does.
	mongoRounds = 2
	// mongoClassic is to how many of the followers the classic recipe delivers: it takes too long to reach them all.
	mongoClassic = 1000
)

// BenchmarkMongoDBFanout publishes messages by one author to 50,000 active followers, and waits until they are done. Beside it a loop
// does the same guarded upserts and nothing else, as many at a time and in a command; and the classic recipe counts for each
// recipient, and pushes into the bucket that the count tells, over as many connections. They take turns, each on a database of its
// own in which the same was before.
func BenchmarkMongoDBFanout(b *testing.B) {
	for _, messages := range []int{1, 10} {
		b.Run(fmt.Sprintf("messages=%d", messages), func(b *testing.B) {
			*store = config.StoreMongoDB
			ways := []*way{newFanout(b, messages), newRaw(b, messages), newClassic(b, messages)}
			for b.Loop() {
				for round := range mongoRounds {
					for turn := range ways {
						ways[(round+turn)%len(ways)].take(b)
					}
				}
			}
			for _, w := range ways {
				b.ReportMetric(w.rate(), w.name+"/s")
			}
			b.ReportMetric(ways[0].rate()/ways[1].rate(), "of-raw")
			b.ReportMetric(ways[0].rate()/ways[2].rate(), "times-classic")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// way is a way to deliver messages.
type way struct {
	name string
	// deliver delivers messages that no inbox has, and returns how many deliveries that took.
	deliver func(ctx context.Context) (int64, error)

	took      time.Duration
	delivered int64
}

func (w *way) take(b *testing.B) {
	b.Helper()
	began := time.Now()
	delivered, err := w.deliver(b.Context())
	require.NoError(b, err)
	w.took += time.Since(began)
	w.delivered += delivered
}

// rate returns how many deliveries were made in a second.
func (w *way) rate() float64 { return float64(w.delivered) / w.took.Seconds() }

// commands is how many commands fan-out has under way at a time: each of the workers of a lane cuts its batch into commands.
func commands() int {
	cfg := config.Default()
	return cfg.Fanout.MediumWorkers * min(cfg.MongoDB.Concurrency, cfg.Fanout.BatchOwners/cfg.MongoDB.BulkOperations)
}

func newFanout(b *testing.B, messages int) *way {
	b.Helper()
	p := newPipeline(b)
	p.populate(b, mongoFollowers, "celebrity")
	p.store.preload(b.Context(), b, named("user", mongoFollowers), newEntries(0, mongoThere))
	return &way{name: "fanout", deliver: func(context.Context) (int64, error) {
		return p.await(b, p.publish(b, messages, "celebrity")), nil
	}}
}

// newEntries returns entries of the size that a pipeline publishes.
func newEntries(first, count int) []bucket.Entry {
	entries := make([]bucket.Entry, count)
	for i := range entries {
		m := messagetest.Message(first+i, "celebrity")
		m.Body = strings.Repeat("x", 200)
		entries[i] = bucket.EntryOf(m)
	}
	return entries
}

// preloaded returns a database with inboxes as a fan-out has them, as the driver sees it.
func preloaded(b *testing.B, owners int) *mongo.Database {
	b.Helper()
	s := openMongoDB(b, time.Now)
	s.preload(b.Context(), b, named("user", owners), newEntries(0, mongoThere))
	cfg := config.Default()
	s.configure(&cfg)
	journaled := true
	majority := writeconcern.Majority()
	majority.Journal = &journaled
	client, err := mongo.Connect(options.Client().ApplyURI(string(cfg.MongoDB.URI)).SetWriteConcern(majority))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, client.Disconnect(context.WithoutCancel(b.Context()))) })
	return client.Database(cfg.MongoDB.Database)
}

// rounds hands out the entries of one round after the other.
func rounds(messages int) func() []bucket.Entry {
	next := mongoThere
	return func() []bucket.Entry {
		next += messages
		return newEntries(next-messages, messages)
	}
}

func newRaw(b *testing.B, messages int) *way {
	b.Helper()
	inbox, owners, next := preloaded(b, mongoFollowers).Collection("inbox"), named("user", mongoFollowers), rounds(messages)
	return &way{name: "raw", deliver: func(ctx context.Context) (int64, error) {
		opts := mongoraw.Options{Operations: config.Default().MongoDB.BulkOperations, Commands: commands()}
		return int64(len(owners) * messages), mongoraw.Spread(ctx, inbox, opts, owners, next())
	}}
}

func newClassic(b *testing.B, messages int) *way {
	b.Helper()
	database, owners, next := preloaded(b, mongoClassic), named("user", mongoClassic), rounds(messages)
	inbox, counters := database.Collection("inbox"), database.Collection("counters")
	var there []any
	for _, owner := range owners {
		there = append(there, bson.D{{Key: "_id", Value: string(owner)}, {Key: "count", Value: mongoThere}})
	}
	_, err := counters.InsertMany(b.Context(), there)
	require.NoError(b, err)
	return &way{name: "classic", deliver: func(ctx context.Context) (int64, error) {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(commands())
		entries := next()
		for batch := range slices.Chunk(owners, (len(owners)+commands()-1)/commands()) {
			group.Go(func() error {
				for _, e := range entries {
					for _, owner := range batch {
						if err := countAndPush(ctx, counters, inbox, owner, e); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		return int64(len(owners) * messages), group.Wait()
	}}
}

// countAndPush is the classic recipe.
func countAndPush(ctx context.Context, counters, inbox *mongo.Collection, owner message.UserID, e bucket.Entry) error {
	var counter struct{ Count int64 }
	err := counters.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: string(owner)}},
		bson.D{{Key: "$inc", Value: bson.D{{Key: "count", Value: 1}}}}, options.FindOneAndUpdate().SetUpsert(true)).Decode(&counter)
	if err != nil {
		return err
	}
	_, err = inbox.UpdateOne(ctx,
		bson.D{{Key: "owner", Value: string(owner)}, {Key: "sequence", Value: counter.Count / bucket.Capacity}},
		bson.D{{Key: "$push", Value: bson.D{{Key: "entries", Value: mongoraw.Document(e)}}}, {Key: "$inc", Value: bson.D{{Key: "slots", Value: 1}}}},
		options.UpdateOne().SetUpsert(true))
	return err
}
