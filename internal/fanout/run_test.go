package fanout_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// patience bounds what a test waits for; it is only used up when something is broken.
const patience = 5 * time.Minute

func (w *world) blockingTake(ctx context.Context, lane event.Lane, p int) (bus.Held, error) {
	return w.Bus.Bus.Take(ctx, lane, p)
}

// away is a store that does not answer.
type away struct{ message.Store }

func (away) GetMany(context.Context, []message.Ref) ([]message.Found, error) {
	return nil, errors.New("the store is away")
}

// Events that a router has no more time for are handed back: another one gets them at once, not after the lease.
func TestRouterHandsBackWhatItDidNotFinish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 1)
	w.see(t, users...)
	first, second := w.store(t, 1, "author", users...), w.store(t, 2, "author", users...)
	w.publish(t, first, second)
	stores := w.Stores()
	stores.Messages = away{stores.Messages}
	intake, stop := context.WithCancel(t.Context())
	work, cut := context.WithCancel(t.Context())
	fanout.NewRouter(stores, w.Bus, w.opts).Run(intake, work, func(ctx context.Context, limit int) ([]bus.Received, error) {
		defer cut()
		defer stop()
		return w.Bus.FetchPublished(ctx, limit)
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience) // which is less than the lease
	defer cancel()
	var routed []bus.Received
	for len(routed) < 2 {
		received, err := w.Bus.FetchPublished(ctx, 10)
		require.NoError(t, err)
		routed = append(routed, received...)
	}
	require.NoError(t, w.router().Route(ctx, routed))
	w.drain(t)
	w.requireDelivered(t, users, first, second)
}

// without is a store that does not find its way to a message while it is set.
type without struct {
	message.Store
	id *atomic.Pointer[message.ID]
}

func (s without) GetMany(ctx context.Context, refs []message.Ref) ([]message.Found, error) {
	id := s.id.Load()
	if id != nil && slices.ContainsFunc(refs, func(ref message.Ref) bool { return *id == ref.ID }) {
		return nil, errors.New("this one cannot be read")
	}
	return s.Store.GetMany(ctx, refs)
}

// An event that cannot be routed stands in nobody's way, neither of those that are fetched with it nor of those behind it. It is not
// given up, and routed when that is possible.
func TestEventThatCannotBeRoutedMakesWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opts.RouteEvents = 4
	users := usersOf(0, 2)
	w.see(t, users...)
	var messages []message.Message
	for n := range 12 {
		messages = append(messages, w.store(t, n, "author", users...))
	}
	culprit, others := messages[0], messages[1:]
	stores, id := w.Stores(), atomic.Pointer[message.ID]{}
	id.Store(&culprit.ID)
	stores.Messages = without{stores.Messages, &id}
	opts, measured := w.opts, prometheus.NewRegistry()
	opts.Metrics = measured
	router := fanout.NewRouter(stores, w.Bus, opts)
	intake, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { router.Run(intake, t.Context(), w.Bus.FetchPublished) })
	running.Go(func() { w.deliverer().Run(intake, t.Context(), w.Bus.Bus) })
	unfinished := func(want ...message.Ref) func() bool {
		return func() bool {
			refs, err := w.Messages.Unfinished(context.WithoutCancel(intake), message.ID{}, message.MaxID, 20)
			return err == nil && slices.Equal(refs, want)
		}
	}

	w.publish(t, messages...)
	require.Eventually(t, unfinished(culprit.Ref()), patience, time.Millisecond)
	require.Eventually(t, func() bool {
		text, err := testutil.CollectAndFormat(measured, expfmt.TypeTextPlain, "fanmail_route_deferrals_total")
		return err == nil && !strings.HasSuffix(string(text), " 0\n")
	}, patience, time.Millisecond)
	w.requireDelivered(t, users, others...)
	require.Empty(t, w.letters(t))
	id.Store(nil)
	require.Eventually(t, unfinished(), patience, time.Millisecond)
	stop()
	running.Wait()
	w.requireDelivered(t, users, messages...)
	for _, m := range messages {
		w.requireDone(t, m, len(users), 0)
	}
}

// Everything runs until intake ends, and returns then.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := append(usersOf(0, 7), usersOf(1, 7)...)
	w.see(t, users...)
	w.follow(t, "author", users...)
	var messages []message.Message
	for n := range 5 {
		messages = append(messages, w.store(t, n, "author"))
	}
	intake, stop := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	go func() {
		w.router().Run(intake, t.Context(), w.Bus.FetchPublished)
		ended <- struct{}{}
	}()
	go func() {
		w.deliverer().Run(intake, t.Context(), w.Bus.Bus)
		ended <- struct{}{}
	}()
	w.publish(t, messages...)
	require.Eventually(t, func() bool {
		refs, err := w.Messages.Unfinished(context.WithoutCancel(intake), message.ID{}, message.MaxID, 10)
		return err == nil && len(refs) == 0
	}, patience, time.Millisecond)
	stop()
	<-ended
	<-ended
	w.requireDelivered(t, users, messages...)
	for _, m := range messages {
		w.requireDone(t, m, len(users), 0)
	}
}

// A store that takes nothing lets the streams fill up, the tasks' first, then that of published events, until publishers are
// refused. When it goes on, all that was accepted arrives, and nothing is given up: not even what takes many batches, each of which
// would have to go to the end of a queue that has no room for it.
func TestNothingIsLostWhereTheBusIsFull(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, rig.NewSmallBus(t, rig.Partitions, 8<<10))
	w.opts.MaxAttempts = 3
	users := append(usersOf(0, 40), usersOf(1, 40)...)
	w.see(t, users...)
	w.follow(t, "author", users...)
	intake, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.router().Run(intake, t.Context(), w.Bus.FetchPublished) })

	messages := w.publishUntilRefused(t, w.Publisher(0))
	require.Greater(t, len(messages), 20)
	require.Empty(t, w.inbox(t, users[0]))
	running.Go(func() { w.deliverer().Run(intake, t.Context(), w.Bus.Bus) })
	require.Eventually(t, func() bool {
		published, tasks, err := w.Bus.Queued(t.Context())
		return err == nil && published == 0 && len(tasks) == 0
	}, patience, 10*time.Millisecond)
	w.Clock.Advance(rig.ResumeAfter + rig.ClockTolerance) // the event of the last one did not fit
	_, err := w.resumer().Resume(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		refs, err := w.Messages.Unfinished(t.Context(), message.ID{}, message.MaxID, 10)
		return err == nil && len(refs) == 0
	}, patience, time.Millisecond)
	stop()
	running.Wait()
	require.Empty(t, w.letters(t))
	w.requireDelivered(t, users, messages...)
	for _, m := range messages {
		w.requireDone(t, m, len(users), 0)
	}
}

// publishUntilRefused publishes messages to the author's followers until none is accepted any more, and returns those that were.
func (w *world) publishUntilRefused(t *testing.T, publisher *publish.Service) (accepted []message.Message) {
	t.Helper()
	for {
		result := publisher.Publish(t.Context(), []publish.Request{{Draft: message.Draft{
			From: "author", Audience: message.AudienceFollowers, Body: "hello",
		}}})[0]
		if errors.Is(result.Err, publish.ErrBusy) {
			return accepted
		}
		require.NoError(t, result.Err)
		accepted = append(accepted, result.Message)
	}
}

// await plans a message for two users.
func (w *world) await(t *testing.T) message.Message {
	t.Helper()
	w.see(t, usersOf(0, 2)...)
	m := w.store(t, 1, "author", usersOf(0, 2)...)
	w.plan(t, event.Bulk, []int{0}, m)
	return m
}

// run returns a Deliverer's Run until intake ends, as an actor does it.
func (w *world) run(intake context.Context) func(ctx context.Context) error {
	d := w.deliverer()
	return func(work context.Context) error {
		d.Run(intake, work, w.Bus.Bus)
		return nil
	}
}

// When intake ends, a batch under way is finished.
func TestRunFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	intake, stop := context.WithCancel(t.Context())
	m := w.await(t)
	actor := rig.StartAt(t.Context(), rig.StallBefore, "Push", 0, w.run(intake))
	require.False(t, actor.Finished())
	stop()
	actor.Resume(rig.None, 0)
	require.True(t, actor.Finished())
	w.requireDelivered(t, usersOf(0, 2), m)
	w.requireDone(t, m, 2, 0)
	require.Empty(t, w.tasks(t))
}

// When work ends, what is held is handed back at once.
func TestRunHandsBackWhatItCannotFinish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	work, stop := context.WithCancel(t.Context())
	m := w.await(t)
	actor := rig.StartAt(work, rig.StallBefore, "Push", 0, w.run(work))
	require.False(t, actor.Finished())
	stop()
	actor.Resume(rig.None, 0)
	require.True(t, actor.Finished())
	held := w.take(t, event.Bulk, 0)
	require.NotNil(t, held)
	require.GreaterOrEqual(t, held.First().Attempts, 2)
	require.NoError(t, w.deliverer().Deliver(t.Context(), held))
	w.requireDone(t, m, 2, 0)
}

// A process takes no task for which it has no worker: another process gets it, at its first attempt.
func TestNoTaskIsTakenWithoutAWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	intake, stop := context.WithCancel(t.Context())
	first := w.await(t)
	actor := rig.StartAt(t.Context(), rig.StallBefore, "Push", 0, w.run(intake))
	require.False(t, actor.Finished())
	require.Eventually(t, func() bool { return w.Bus.Requests(t.Context(), "bulk-1") == 0 }, patience, time.Millisecond,
		"the server has forgotten the request from before the worker was busy: to hand the task out to it would be an attempt")
	second := w.store(t, 2, "author", usersOf(1, 1)...)
	w.see(t, usersOf(1, 1)...)
	w.plan(t, event.Bulk, []int{1}, second)
	other := w.take(t, event.Bulk, 1)
	require.NotNil(t, other)
	require.Equal(t, 1, other.First().Attempts)
	require.NoError(t, w.deliverer().Deliver(t.Context(), other))
	w.requireDone(t, second, 1, 0)
	stop()
	actor.Resume(rig.None, 0)
	require.True(t, actor.Finished())
	w.requireDone(t, first, 2, 0)
}

// twoAtOnce is a Taker whose partitions 0 and 1 of the bulk lane get their first tasks at the same time.
type twoAtOnce struct {
	*rig.Bus
	both sync.WaitGroup
	once [2]atomic.Bool
	back atomic.Int64 // how many tasks were given back
}

// givenBack is a bus.Held that counts how often it is given back.
type givenBack struct {
	bus.Held
	times *atomic.Int64
}

func (h givenBack) GiveBack(ctx context.Context) error {
	h.times.Add(1)
	return h.Held.GiveBack(ctx)
}

func (b *twoAtOnce) Poll(ctx context.Context, lane event.Lane, p int, wait time.Duration) (bus.Held, error) {
	if lane == event.Bulk && !b.once[p].Load() {
		return nil, ctx.Err()
	}
	return b.Bus.Poll(ctx, lane, p, wait)
}

func (b *twoAtOnce) Take(ctx context.Context, lane event.Lane, p int) (bus.Held, error) {
	if lane != event.Bulk || b.once[p].Swap(true) {
		return b.Bus.Bus.Take(ctx, lane, p)
	}
	held, err := b.Bus.Bus.Take(context.WithoutCancel(ctx), lane, p)
	b.both.Done()
	b.both.Wait()
	return givenBack{held, &b.back}, err
}

// A task that finds no free worker is given back, and that is no attempt. Nothing is counted twice.
func TestTaskThatIsGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := append(usersOf(0, 2), usersOf(1, 2)...)
	w.see(t, users...)
	m := w.store(t, 1, "author", users...)
	w.plan(t, event.Bulk, []int{0, 1}, m)
	taker := &twoAtOnce{Bus: w.Bus}
	taker.both.Add(2)
	intake, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.deliverer().Run(intake, t.Context(), taker) })
	require.Eventually(t, func() bool { return len(w.unfinished(t)) == 0 }, patience, time.Millisecond)
	stop()
	running.Wait()
	w.requireDelivered(t, users, m)
	w.requireDone(t, m, 4, 0)
	require.EqualValues(t, 1, taker.back.Load())
}

// While a batch is under way, no worker receives another task of its partition. Tasks of other partitions are free.
func TestOneBatchOfAPartitionAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x, y := w.store(t, 1, "author"), w.store(t, 2, "author")
	w.plan(t, event.Bulk, []int{0, 1}, x, y)
	held := w.take(t, event.Bulk, 0)
	require.NotNil(t, w.take(t, event.Bulk, 1))
	var done atomic.Bool
	taken := make(chan error, 1)
	go func() {
		_, err := w.blockingTake(t.Context(), event.Bulk, 0)
		if err == nil && !done.Load() {
			err = errors.New("the bus handed out a second task of a held partition")
		}
		taken <- err
	}()
	require.Eventually(t, func() bool {
		return len(taken) > 0 || w.Bus.Requests(t.Context(), "bulk-0") == 1
	}, patience, time.Millisecond, "the server keeps the request waiting")
	require.Empty(t, taken)
	waiting, err := held.Waiting(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	done.Store(true)
	require.NoError(t, held.Done(t.Context()))
	require.NoError(t, <-taken, "the next task is handed out when the held one is done")
}
