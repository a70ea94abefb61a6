package bench_test

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// pipeline is everything from publishing to the inbox, on disk, without HTTP.
type pipeline struct {
	store     *backend
	publisher *publish.Service
	reporter  *publish.Reporter
}

func newPipeline(b *testing.B) *pipeline {
	b.Helper()
	dir := b.TempDir()
	store := openBackend(b, dir, time.Now)
	server, err := natsserver.Start(b.Context(), natsserver.Options{Dir: dir + "/nats", Logger: zerolog.Nop()})
	require.NoError(b, err)
	bus, err := natsbus.Connect(b.Context(), natsbus.Options{Server: server, Logger: zerolog.Nop()})
	require.NoError(b, err)

	stores := fanout.Stores{
		Messages: store.messages, Progress: store.progress, Users: store.users, Edges: store.edges,
		Appender: bucket.NewAppender(store.inbox, store.users),
	}
	opts := fanout.Options{
		Partitions: partition.DefaultCount, Rules: userstate.DefaultRules,
		ExpressMax: 1000, MediumMax: 100_000, ClassCache: 1000, ClassTTL: time.Minute,
		Workers:     map[event.Lane]int{event.Express: 8, event.Medium: 2, event.Bulk: 2},
		BatchOwners: 4000, BatchTasks: 1024, BatchBytes: 32 << 20, RouteEvents: 128,
		ExtendEvery: 10 * time.Second, StuckAfter: time.Minute, MaxAttempts: 20, ResumeAfter: time.Hour, ResumeEvery: time.Hour,
		Now: time.Now, Logger: zerolog.Nop(),
	}
	router := fanout.NewRouter(stores, bus, opts)
	deliverer := fanout.NewDeliverer(stores, bus, opts)
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan struct{})
	go func() {
		router.Run(ctx, ctx, bus.FetchPublished)
		done <- struct{}{}
	}()
	go func() {
		deliverer.Run(ctx, ctx, bus)
		done <- struct{}{}
	}()
	b.Cleanup(func() {
		stop()
		<-done
		<-done
		bus.Close()
		server.Stop()
	})
	return newPublishing(store, bus)
}

// newPublishing returns a pipeline whose fan-out runs elsewhere.
func newPublishing(store *backend, bus *natsbus.Bus) *pipeline {
	return &pipeline{
		store: store,
		publisher: publish.New(store.messages, store.keys, bus, publish.Options{
			Limits: message.DefaultLimits(), Rules: userstate.DefaultRules, KeyTTL: func() time.Duration { return time.Hour }, Now: time.Now, Random: rand.Reader, Logger: zerolog.Nop(),
		}),
		reporter: publish.NewReporter(store.messages, store.progress, store.edges, store.users, partition.DefaultCount, userstate.DefaultRules),
	}
}

// populate makes n users follow all authors, and be active.
func (p *pipeline) populate(b *testing.B, n int, authors ...message.UserID) {
	b.Helper()
	for users := range slices.Chunk(named("user", n), together) {
		var pairs []follow.Pair
		for _, user := range users {
			for _, author := range authors {
				pairs = append(pairs, follow.Pair{Follower: user, Followee: author.Source()})
			}
		}
		require.NoError(b, storetest.See(b.Context(), p.store.users, time.Now(), users...))
		_, err := p.store.edges.Follow(b.Context(), pairs, time.Now().Add(-time.Hour))
		require.NoError(b, err)
	}
}

// publish publishes messages of 200 bytes to the authors' followers, in turn, and returns their ids.
func (p *pipeline) publish(b *testing.B, n int, authors ...message.UserID) []message.ID {
	b.Helper()
	requests := make([]publish.Request, n)
	for i := range requests {
		requests[i].Draft = message.Draft{
			From: authors[i%len(authors)], Audience: message.AudienceFollowers, Body: strings.Repeat("x", 200),
		}
	}
	ids := make([]message.ID, n)
	for i, r := range p.publisher.Publish(b.Context(), requests) {
		require.NoError(b, r.Err)
		ids[i] = r.Message.ID
	}
	return ids
}

// await waits until messages are done, and returns how many deliveries they took.
func (p *pipeline) await(b *testing.B, ids []message.ID) (delivered int64) {
	b.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for _, id := range ids {
		for {
			status, err := p.reporter.Status(b.Context(), id)
			require.NoError(b, err)
			if status.State == publish.StateDone {
				delivered += status.Delivered
				break
			}
			<-ticker.C
		}
	}
	return delivered
}
