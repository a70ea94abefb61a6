package fanout_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// world is a rig with what the tests of fan-out do over and over.
type world struct {
	*rig.Rig
	opts fanout.Options
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, rig.NewBus(t, rig.Partitions))
}

func newWorldOn(t *testing.T, bus *rig.Bus) *world {
	t.Helper()
	return newWorldIn(t, rig.Embedded{}, bus)
}

func newWorldIn(t *testing.T, backend rig.Backend, bus *rig.Bus) *world {
	t.Helper()
	r, err := rig.OpenOn(t.Context(), backend, rig.NewClock(), bus, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	w := &world{Rig: r, opts: r.FanoutOptions(0)}
	w.opts.Patience = 0 // parts of the store hang
	return w
}

// measure returns a registry for the metrics of the next stage that the test makes.
func (w *world) measure() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	w.opts.Metrics = registry
	return registry
}

func (w *world) deliverer() *fanout.Deliverer { return fanout.NewDeliverer(w.Stores(), w.Bus, w.opts) }

func (w *world) router() *fanout.Router { return fanout.NewRouter(w.Stores(), w.Bus, w.opts) }

func (w *world) resumer() *fanout.Resumer { return fanout.NewResumer(w.Stores(), w.Bus, w.opts) }

// usersOf returns the first n users of a partition, ascending.
func usersOf(p, n int) []message.UserID {
	var users []message.UserID
	for i := 0; len(users) < n; i++ {
		if user := message.UserID(fmt.Sprintf("user-%03d", i)); partition.Of(user, rig.Partitions) == p {
			users = append(users, user)
		}
	}
	return users
}

// see makes users active.
func (w *world) see(t *testing.T, users ...message.UserID) {
	t.Helper()
	require.NoError(t, storetest.See(t.Context(), w.Users, w.Clock.Now(), rig.DormantAfter, users...))
}

// follow makes users followers of an author from a minute before the epoch on.
func (w *world) follow(t *testing.T, author message.UserID, users ...message.UserID) {
	t.Helper()
	pairs := make([]follow.Pair, len(users))
	for i, user := range users {
		pairs[i] = follow.Pair{Follower: user, Followee: author.Source()}
	}
	_, err := w.Edges.Follow(t.Context(), pairs, rig.Epoch.Add(-time.Minute))
	require.NoError(t, err)
}

func id(n int) message.ID {
	id := message.MinID(rig.Epoch.Add(time.Duration(n) * time.Millisecond))
	id[6], id[8] = 0x70, 0x80
	return id
}

// store stores the nth message, to the named users or, without any, to its author's followers.
func (w *world) store(t *testing.T, n int, from message.UserID, to ...message.UserID) message.Message {
	t.Helper()
	m := message.Message{ID: id(n), From: from, To: to, Body: fmt.Sprintf("message %d", n)}
	if len(to) == 0 {
		m.Audience = message.AudienceFollowers
	}
	return w.insert(t, m)
}

func (w *world) insert(t *testing.T, m message.Message) message.Message {
	t.Helper()
	m.To = slices.Sorted(slices.Values(m.To)) // tests share what they hand over
	_, err := w.Messages.Insert(t.Context(), []message.Message{m}, rig.Rules().Timing())
	require.NoError(t, err)
	return m
}

// plan plans messages in partitions and emits their tasks.
func (w *world) plan(t *testing.T, lane event.Lane, partitions []int, messages ...message.Message) {
	t.Helper()
	for _, m := range messages {
		_, err := w.Progress.Plan(t.Context(), m.ID, "medium", partitions, w.Clock.Now())
		require.NoError(t, err)
		for _, p := range partitions {
			w.emit(t, lane, p, m)
		}
	}
}

func task(lane event.Lane, p int, m message.Message) event.Task {
	return event.Task{Version: event.Version, ID: m.ID, From: m.From, Lane: lane, Partition: p}
}

func (w *world) emit(t *testing.T, lane event.Lane, p int, messages ...message.Message) {
	t.Helper()
	for _, m := range messages {
		require.NoError(t, w.Bus.EmitTasks(t.Context(), []event.Task{task(lane, p, m)}))
	}
}

// put records where the scan of a message is.
func (w *world) put(t *testing.T, m message.Message, p int, scan progress.Scan) {
	t.Helper()
	stepped, err := w.Progress.Step(t.Context(), []progress.Move{{ID: m.ID, Partition: p, To: scan}}, w.Clock.Now())
	require.NoError(t, err)
	require.True(t, stepped[0].Applied)
}

func (w *world) publish(t *testing.T, messages ...message.Message) {
	t.Helper()
	for _, m := range messages {
		published := event.NewPublished(m.Ref())
		published.Memory = m.Memory()
		require.NoError(t, w.Bus.EmitPublished(t.Context(), []event.Published{published}, true))
	}
}

// fetch returns so many published events. The bus may hand out fewer at once.
func (w *world) fetch(t *testing.T, n int) (all []bus.Received) {
	t.Helper()
	for len(all) < n {
		received, err := w.Bus.TryFetch(t.Context(), n-len(all))
		require.NoError(t, err)
		require.NotEmpty(t, received)
		all = append(all, received...)
	}
	return all
}

// routeAll routes everything that is published.
func (w *world) routeAll(t *testing.T, router *fanout.Router) *fanout.Router {
	t.Helper()
	for {
		received, err := w.Bus.TryFetch(t.Context(), 10)
		require.NoError(t, err)
		if len(received) == 0 {
			return router
		}
		require.NoError(t, router.Route(t.Context(), received))
	}
}

func (w *world) take(t *testing.T, lane event.Lane, p int) *rig.Held {
	t.Helper()
	held, err := w.Bus.TryTake(t.Context(), lane, p)
	require.NoError(t, err)
	return held
}

// deliver works on one batch of a lane and partition, and reports whether there was one.
func (w *world) deliver(t *testing.T, lane event.Lane, p int) bool {
	t.Helper()
	held := w.take(t, lane, p)
	if held == nil {
		return false
	}
	require.NoError(t, w.deliverer().Deliver(t.Context(), held))
	return true
}

// drain routes and delivers until there is nothing left to do.
func (w *world) drain(t *testing.T) {
	t.Helper()
	for range 100 {
		w.routeAll(t, w.router())
		worked := false
		for _, lane := range event.Lanes() {
			for p := range rig.Partitions {
				worked = w.deliver(t, lane, p) || worked
			}
		}
		if !worked {
			return
		}
	}
	require.FailNow(t, "the queues do not run empty")
}

func (w *world) scan(t *testing.T, m message.Message, p int) progress.Scan {
	t.Helper()
	scans, planned, err := w.Progress.Scans(t.Context(), p, []message.ID{m.ID})
	require.NoError(t, err)
	require.True(t, planned[0])
	return scans[0]
}

// inbox returns the messages in an inbox, in the order in which they came.
func (w *world) inbox(t *testing.T, user message.UserID) []message.ID {
	t.Helper()
	buckets, err := bucket.ReadSection(t.Context(), w.Inbox, bucket.Section{Owner: user, High: math.MaxUint32}, bucket.AllFields)
	require.NoError(t, err)
	var ids []message.ID
	for _, b := range slices.Backward(buckets) {
		ids = append(ids, buckettest.IDs(b.Entries)...)
	}
	return ids
}

// requireDelivered demands that messages are in the inboxes of users, each once, and nothing else.
func (w *world) requireDelivered(t *testing.T, users []message.UserID, messages ...message.Message) {
	t.Helper()
	var want []message.ID
	for _, m := range messages {
		want = append(want, m.ID)
	}
	for _, user := range users {
		require.ElementsMatch(t, want, w.inbox(t, user), "inbox of %s", user)
	}
}

// requireDone demands that a message is done and how many recipients were counted.
func (w *world) requireDone(t *testing.T, m message.Message, delivered, skipped int) {
	t.Helper()
	endings, err := w.Messages.Endings(t.Context(), []message.Ref{m.Ref()})
	require.NoError(t, err)
	require.NotEmpty(t, endings[0].Lane)
	require.Equal(t, message.Ending{Ref: m.Ref(), Concluded: true, Lane: endings[0].Lane, Delivered: int64(delivered), Skipped: int64(skipped)}, endings[0])
	require.NotContains(t, w.unfinished(t), m.Ref())
}

func (w *world) unfinished(t *testing.T) []message.Ref {
	t.Helper()
	refs, err := w.Messages.Unfinished(t.Context(), message.ID{}, message.MaxID, 100)
	require.NoError(t, err)
	return refs
}

func (w *world) letters(t *testing.T) []event.Filed {
	t.Helper()
	letters, err := w.Bus.DeadLetters(t.Context(), 0, 100)
	require.NoError(t, err)
	return letters
}

func (w *world) tasks(t *testing.T) []event.Task {
	t.Helper()
	tasks, err := w.Bus.Tasks(t.Context())
	require.NoError(t, err)
	return tasks
}

// start works on a batch as an actor.
func (w *world) start(t *testing.T, held *rig.Held, fault rig.Fault, after int) *rig.Actor {
	t.Helper()
	d := w.deliverer()
	return rig.Start(t.Context(), fault, after, func(ctx context.Context) error { return d.Deliver(ctx, held) })
}
