//go:build long

package fanout_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// arrivals notes when messages come into inboxes.
type arrivals struct {
	bucket.Store
	mu sync.Mutex
	at map[message.ID]time.Time
}

func (a *arrivals) Push(ctx context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	outcomes, err := a.Store.Push(ctx, pushes)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, o := range outcomes {
		for _, e := range pushes[i].Entries {
			if o.Applied && a.at[e.ID].IsZero() {
				a.at[e.ID] = time.Now()
			}
		}
	}
	return outcomes, err
}

// pages asks for pages.
type pages struct {
	mu          sync.Mutex
	took        []time.Duration
	connections *semaphore.Weighted
	pool        *mongostore.Pool
	read        func(ctx context.Context, user message.UserID) error
}

// ask asks for a page of each user in turn, so often a second, until ctx ends. All share connections, which a call holds for its
// time if the user is away.
func (p *pages) ask(ctx context.Context, users []message.UserID, perSecond int, away bool) {
	var asked sync.WaitGroup
	defer asked.Wait()
	for n := 0; ctx.Err() == nil; n++ {
		asked.Go(func() { p.one(context.WithoutCancel(ctx), users[n%len(users)], away) })
		time.Sleep(time.Second / time.Duration(perSecond))
	}
}

func (p *pages) one(ctx context.Context, user message.UserID, away bool) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.pool.Limit(10*time.Second))
	defer cancel()
	if p.connections.Acquire(ctx, 1) == nil {
		p.pool.Use(1)
		if away {
			<-ctx.Done()
		} else if p.read(ctx, user) == nil {
			p.pool.Answered(time.Since(began))
		}
		p.pool.Use(-1)
		p.connections.Release(1)
	}
	if away {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took = append(p.took, time.Since(began))
}

// One of four shards hangs for a minute, while messages go to the users of all, who ask for pages: each call that touches it holds a connection until
// its deadline, and fails. The messages of the others arrive, and those of its users when it is back; all are counted. The test prints how long they
// took, and the pages of the others.
func TestShardThatHangs(t *testing.T) {
	t.Parallel()
	hang(t, rig.Embedded{}, 20_000)
}

// TestShardOfMongoDBThatHangs is the same with fewer messages, because a server on the same machine takes longer for each.
func TestShardOfMongoDBThatHangs(t *testing.T) {
	t.Parallel()
	hang(t, rig.NewMongoDB(t), 4000)
}

func hang(t *testing.T, backend rig.Backend, messages int) {
	t.Helper()
	const (
		users       = 2000
		lasts       = time.Minute
		connections = 100
	)
	w := newWorldIn(t, backend, rig.NewBus(t, rig.Partitions))
	w.opts.Now, w.opts.DirectMax, w.opts.BatchOwners, w.opts.BatchTasks, w.opts.RouteEvents = time.Now, 1000, 1000, 100, 256
	w.opts.Workers = map[event.Lane]int{event.Medium: 8, event.Bulk: 8}
	shardOf := func(key string) uint32 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(key))
		return h.Sum32() % 4
	}
	author := message.UserID("author")
	for n := 0; shardOf(string(author)) == 0; n++ {
		author = message.UserID(fmt.Sprintf("author-%d", n))
	}
	var all []message.UserID
	for n := range users {
		all = append(all, message.UserID(fmt.Sprintf("user-%05d", n)))
	}
	w.see(t, all...)
	pool := semaphore.NewWeighted(connections)
	w.Shards.Hang = func(ctx context.Context) {
		if pool.Acquire(ctx, 1) == nil {
			<-ctx.Done()
			pool.Release(1)
		}
	}
	seen := &arrivals{Store: w.Inbox, at: make(map[message.ID]time.Time)}
	stores := w.Stores()
	stores.Appender = bucket.NewAppender(seen, w.Users)

	intake, stop := context.WithCancel(t.Context())
	var stages sync.WaitGroup
	router, deliverer := fanout.NewRouter(stores, w.Bus, w.opts), fanout.NewDeliverer(stores, w.Bus, w.opts)
	stages.Go(func() {
		router.Run(intake, t.Context(), func(ctx context.Context, limit int) ([]bus.Received, error) { return w.Bus.FetchPublished(ctx, limit) })
	})
	stages.Go(func() { deliverer.Run(intake, t.Context(), w.Bus) })

	inboxes := w.Inboxes(0)
	asked := pages{
		connections: semaphore.NewWeighted(connections), pool: mongostore.NewPool(connections), read: func(ctx context.Context, user message.UserID) error {
			_, err := inboxes.Read(ctx, user, inbox.Request{Limit: 50, Peek: true})
			return err
		},
	}
	asking, enough := context.WithCancel(t.Context())
	var viewers sync.WaitGroup
	for _, away := range []bool{false, true} {
		theirs := slices.DeleteFunc(slices.Clone(all), func(user message.UserID) bool { return away != (shardOf(string(user)) == 0) })
		viewers.Go(func() { asked.ask(asking, theirs, 50, away) })
	}

	sent := make(map[message.ID]time.Time, messages)
	to := make(map[message.ID]message.UserID, messages)
	began := time.Now()
	w.Shards.Away(func(key string) bool { return shardOf(key) == 0 })
	for n := range messages {
		if wait := time.Until(began.Add(lasts * time.Duration(n) / time.Duration(messages))); wait > 0 {
			time.Sleep(wait)
		}
		w.Clock.Advance(time.Millisecond) // or the messages are void, because they come from the future
		m := w.store(t, n+1, author, all[n%users])
		sent[m.ID], to[m.ID] = time.Now(), m.To[0]
		w.publish(t, m)
	}
	enough()
	w.Shards.Away(nil)
	back := time.Now()
	require.Eventually(t, func() bool { return len(w.unfinished(t)) == 0 }, patience, 10*time.Millisecond)
	ended := time.Since(back)
	stop()
	stages.Wait()
	viewers.Wait()

	var near, far []time.Duration
	for id, at := range sent {
		if took := seen.at[id].Sub(at); shardOf(string(to[id])) == 0 {
			far = append(far, max(0, seen.at[id].Sub(back)))
		} else {
			near = append(near, took)
		}
	}
	slices.Sort(near)
	slices.Sort(far)
	slices.Sort(asked.took)
	t.Logf("%d pages of others: p50 %v, p99 %v, max %v", len(asked.took), asked.took[len(asked.took)/2], asked.took[len(asked.took)*99/100],
		asked.took[len(asked.took)-1])
	t.Logf("others: p50 %v, p99 %v, max %v; its users, after it was back: p50 %v, max %v; all ended after %v",
		near[len(near)/2], near[len(near)*99/100], near[len(near)-1], far[len(far)/2], far[len(far)-1], ended)
	for _, user := range all {
		require.Len(t, w.inbox(t, user), messages/users, user)
	}
	refs := make([]message.Ref, 0, messages)
	for id := range sent {
		refs = append(refs, message.Ref{From: author, ID: id})
	}
	endings, err := w.Messages.Endings(t.Context(), refs)
	require.NoError(t, err)
	for _, e := range endings {
		require.EqualValues(t, 1, e.Delivered)
		require.Zero(t, e.Skipped)
	}
	require.Empty(t, w.letters(t))
}
