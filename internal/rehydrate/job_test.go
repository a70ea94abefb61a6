package rehydrate_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// patience bounds what a test waits for; it is only used up when something is broken.
const patience = time.Minute

// service returns a rehydrator with options that differ from the rig's.
func (w *world) service(change func(*rehydrate.Options)) *rehydrate.Service {
	opts := w.RehydrateOptions(0)
	change(&opts)
	return rehydrate.New(w.RehydrateStores(), opts)
}

// run runs services until the test has ended, or stop is called.
func run(t *testing.T, services ...*rehydrate.Service) (stop func()) {
	t.Helper()
	intake, end := context.WithCancel(t.Context())
	var group errgroup.Group
	for _, s := range services {
		group.Go(func() error {
			s.Run(intake, context.WithoutCancel(intake))
			return nil
		})
	}
	stop = func() {
		end()
		_ = group.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// viewed tells of each view that has been noted.
type viewed struct {
	userstate.Store

	each chan struct{}
}

// View implements userstate.Store.
func (v *viewed) View(ctx context.Context, views []userstate.View) ([]userstate.Viewed, error) {
	noted, err := v.Store.View(ctx, views)
	v.each <- struct{}{}
	return noted, err
}

// All callers that wait for a rehydration get the same result, whichever process runs it.
func TestEveryoneGetsTheSameResult(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	w.sendSome(t, 4)
	w.Clock.Advance(2 * rig.Slack)
	var emitted atomic.Int64
	opts, stores := w.RehydrateOptions(0), w.RehydrateStores()
	opts.Emit = func(e event.Rehydrated) { emitted.Add(e.Recovered) }
	views := &viewed{Store: stores.Users, each: make(chan struct{}, 100)}
	stores.Users = views
	here, there := rehydrate.New(stores, opts), rehydrate.New(stores, opts)
	require.NoError(t, login(t.Context(), w, here)) // so that every login finds the mark
	<-views.each
	var group errgroup.Group
	const logins = 6
	for n := range logins {
		by := []*rehydrate.Service{here, there}[n%2]
		group.Go(func() error {
			result, err := by.Login(t.Context(), "ann", w.now(), patience)
			if want := (rehydrate.Result{Was: rehydrate.WasDormant, Done: true, Recovered: 5}); err == nil && result != want {
				err = fmt.Errorf("login %d: %v, not %v", n, result, want)
			}
			return err
		})
	}
	require.Equal(t, rehydrate.Load{Waiting: 1, Oldest: w.now().UTC()}, here.Load(), "all callers share one job")
	for range logins { // a login after its end would find an active user
		<-views.each
	}
	run(t, here, there)
	require.NoError(t, group.Wait())
	require.Equal(t, int64(5), emitted.Load())
	w.rest(t, here)
	result, err := here.Login(t.Context(), "ann", w.now(), 0)
	require.NoError(t, err)
	require.Equal(t, rehydrate.Result{Was: rehydrate.WasActive, Done: true}, result)
	result, err = here.Login(t.Context(), "zoe", w.now(), patience)
	require.NoError(t, err)
	require.Equal(t, rehydrate.Result{Was: rehydrate.WasNew, Done: true}, result)
}

// A process has one job per user, even if several callers ask for it.
func TestOneFlightPerUser(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	s := w.Rehydrator(0, 0)
	for range 3 {
		w.login(t, s)
		require.ErrorIs(t, s.See(t.Context(), "ann", w.now()), rehydrate.ErrUnfinished)
		_, err := s.Complete(t.Context(), "ann")
		require.ErrorIs(t, err, rehydrate.ErrUnfinished)
		w.Clock.Advance(rig.Lease + time.Second)
		require.NoError(t, s.Reap(t.Context(), w.now()))
		require.Equal(t, 1, s.Load().Waiting)
	}
	require.True(t, s.Work(t.Context()))
	require.False(t, s.Work(t.Context()))
	require.Zero(t, s.Load())
	w.rest(t, s)
}

// Where the queue is full the mark remains, and is found when there is room again.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service(func(o *rehydrate.Options) { o.Queue = 2 })
	for n := range 5 {
		user := message.UserID(fmt.Sprintf("user-%d", n))
		w.store(t, w.now(), user)
		w.Clock.Advance(time.Millisecond)
	}
	for n := range 5 {
		result, err := s.Login(t.Context(), message.UserID(fmt.Sprintf("user-%d", n)), w.now(), 0)
		require.NoError(t, err)
		require.Equal(t, rehydrate.Result{Was: rehydrate.WasNew}, result)
	}
	require.Equal(t, 2, s.Load().Waiting)
	for worked := 0; worked < 5; {
		w.Clock.Advance(rig.Lease + time.Second)
		require.NoError(t, s.Reap(t.Context(), w.now()))
		require.NotZero(t, s.Load().Waiting, "after %d", worked)
		for s.Work(t.Context()) {
			worked++
		}
	}
	for n := range 5 {
		shown, page := w.ReadInbox(t.Context(), t, message.UserID(fmt.Sprintf("user-%d", n)), 10)
		require.Len(t, shown, 1)
		require.True(t, page.Complete)
	}
}

// A process that stops hands waiting rehydrations back, so that others take them over at once.
func TestHandBackAtStop(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	s := w.service(func(o *rehydrate.Options) { o.Workers = 0 })
	w.login(t, s)
	run(t, s)()
	require.Zero(t, s.Load())
	other := w.Rehydrator(0, 0)
	w.Clock.Advance(time.Millisecond)
	require.NoError(t, other.Reap(t.Context(), w.now()))
	require.True(t, other.Work(t.Context()))
	w.rest(t, other)
}

// A process that is alone takes over, at its start, the rehydrations of the process before it. It does not wait for leases.
func TestAlone(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{false, true} {
		w := newDormantWorld(t)
		w.login(t, w.Rehydrator(0, 0)) // whose process dies
		s := w.service(func(o *rehydrate.Options) { o.Alone, o.Workers = alone, 0 })
		intake, stop := context.WithCancel(t.Context())
		stop() // it looks once before it sees that
		s.Run(intake, t.Context())
		other := w.Rehydrator(0, 0)
		w.Clock.Advance(time.Millisecond)
		require.NoError(t, other.Reap(t.Context(), w.now()))
		require.Equal(t, alone, other.Work(t.Context()), "taken over and handed back, if alone is %v", alone)
		w.rest(t, other)
	}
}

// A process without workers notices views. The reaper of another process rebuilds the inboxes, at once.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	w.sendSome(t, 4)
	w.Clock.Advance(2 * rig.Slack)
	publisher := w.service(func(o *rehydrate.Options) { o.Elsewhere = true })
	require.NoError(t, publisher.Notice(t.Context(), "ann", w.Clock.Now()))
	require.False(t, publisher.Work(t.Context()), "it has no queue")
	st, err := userstate.Get(t.Context(), w.Users, "ann")
	require.NoError(t, err)
	require.True(t, st.Known())
	require.NotNil(t, st.Mark)
	w.Clock.Advance(time.Millisecond)
	rehydrator := w.service(func(*rehydrate.Options) {})
	require.NoError(t, rehydrator.Reap(t.Context(), w.Clock.Now()))
	require.True(t, rehydrator.Work(t.Context()))
	st, err = userstate.Get(t.Context(), w.Users, "ann")
	require.NoError(t, err)
	require.False(t, st.Rehydrating())

	// A view of a user who is active is noticed whole.
	w.Clock.Advance(rig.DormantAfter / 8)
	require.NoError(t, publisher.Notice(t.Context(), "ann", w.Clock.Now()))
	st, err = userstate.Get(t.Context(), w.Users, "ann")
	require.NoError(t, err)
	require.Equal(t, w.Clock.Now().UTC().Truncate(time.Millisecond), st.LastViewed)
	require.Nil(t, st.Mark)
}

// An attempt that fails releases its lease: the next one does not have to wait for it to run out.
func TestFailureReleasesTheLease(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	s := w.Rehydrator(0, 0)
	w.login(t, s)
	w.work(t, s, rig.FailBefore, "Push", 0)
	require.Zero(t, s.Load())
	other := w.Rehydrator(0, 0)
	require.NoError(t, other.Reap(t.Context(), w.now()))
	require.False(t, other.Work(t.Context()), "it is left alone for a moment")
	w.Clock.Advance(2 * time.Second)
	require.NoError(t, other.Reap(t.Context(), w.now()))
	require.True(t, other.Work(t.Context()))
	w.rest(t, other)
}

// absent is a store of messages whose shards are away for a search.
type absent struct {
	message.Store
	away bool
}

func (a *absent) ToFollowers(ctx context.Context, ranges []message.Range, order message.Order, limit int) ([]message.Stored, error) {
	if a.away {
		return nil, message.ErrUnavailable
	}
	return a.Store.ToFollowers(ctx, ranges, order, limit)
}

// A user who returns while a shard is away is told that the inbox is not complete, however often. It is afterwards, without another login.
func TestLoginWhileAShardIsAway(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	messages := &absent{Store: w.Messages, away: true}
	stores := w.RehydrateStores()
	stores.Messages = messages
	s := rehydrate.New(stores, w.RehydrateOptions(0))
	for range 3 {
		result, err := s.Login(t.Context(), "ann", w.now(), 0)
		require.NoError(t, err)
		require.Equal(t, rehydrate.Result{Was: rehydrate.WasDormant}, result)
		require.True(t, s.Work(t.Context()))
		w.Clock.Advance(2 * time.Second)
		require.NoError(t, s.Reap(t.Context(), w.now()))
	}
	messages.away = false
	require.True(t, s.Work(t.Context()))
	w.rest(t, s)
	result, err := s.Login(t.Context(), "ann", w.now(), 0)
	require.NoError(t, err)
	require.True(t, result.Done)
}

// Waiting callers take over a rehydration that no process works on any more.
func TestWaitersTakeOver(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	w.login(t, w.Rehydrator(0, 0)) // whose process dies
	w.Clock.Advance(rig.Lease + time.Second)
	s := w.service(func(o *rehydrate.Options) { o.Patience = patience })
	run(t, s)
	st, err := s.Complete(t.Context(), "ann")
	require.NoError(t, err)
	require.False(t, st.Rehydrating())
	ctx := t.Context()
	require.Eventually(t, func() bool { return w.State(ctx, t, "ann").Sweep == nil }, patience, time.Millisecond, "the sweep goes on")
	w.rest(t, s)
}

// received is a login event that counts how often it was acknowledged.
type received struct {
	delivery event.Delivery
	acked    *int
	released *int
}

func (r received) Delivery() event.Delivery { return r.delivery }

func (r received) Ack() error {
	*r.acked++
	return nil
}

func (received) Extend() error { return nil }

func (r received) Release(time.Duration) error {
	if r.released != nil {
		*r.released++
	}
	return nil
}

// logins is a bus.Logins of functions.
type logins struct {
	fetch      func(ctx context.Context) ([]bus.Received, error)
	deadLetter func(ctx context.Context, letter event.DeadLetter) error
}

func (l logins) FetchLogins(ctx context.Context, _ int) ([]bus.Received, error) { return l.fetch(ctx) }

func (l logins) DeadLetter(ctx context.Context, letter event.DeadLetter) error {
	return l.deadLetter(ctx, letter)
}

// Login events mark whom they name. What cannot be read becomes a dead letter, and what cannot be noted is not acknowledged.
func TestLoginEvents(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	s := w.Rehydrator(0, 0)
	acked := make([]int, 4)
	events := make([]bus.Received, len(acked))
	for i, payload := range []string{`{"user":"ann"}`, `nonsense`, `{"user":"zoe"}`, `{"user":"ann"}`} {
		events[i] = received{event.Delivery{Payload: []byte(payload), Subject: "logins", Attempts: 1, Stored: w.now()}, &acked[i], nil}
	}
	note := func(ctx context.Context, dead func(event.DeadLetter) error, events ...bus.Received) {
		intake, stop := context.WithCancel(ctx)
		defer stop()
		s.RunLogins(intake, ctx, logins{
			fetch: func(ctx context.Context) ([]bus.Received, error) {
				if events == nil {
					stop()
					return nil, ctx.Err()
				}
				fetched := events
				events = nil
				return fetched, nil
			},
			deadLetter: func(_ context.Context, letter event.DeadLetter) error { return dead(letter) },
		})
	}
	note(t.Context(), func(event.DeadLetter) error { return errors.New("full") }, events[1])
	require.Equal(t, []int{0, 0, 0, 0}, acked, "it has not become a dead letter")
	broken := rig.Start(t.Context(), rig.FailBefore, 0, func(ctx context.Context) error {
		note(ctx, nil, events[0])
		return nil
	})
	require.NoError(t, broken.Err())
	require.Equal(t, []int{0, 0, 0, 0}, acked, "it has not been noted")
	require.Nil(t, w.State(t.Context(), t, "ann").Mark)

	released := 0
	intake, stop := context.WithCancel(t.Context())
	work, cut := context.WithCancel(t.Context())
	s.RunLogins(intake, work, logins{
		fetch: func(context.Context) ([]bus.Received, error) {
			stop()
			cut()
			return []bus.Received{received{events[1].Delivery(), &acked[1], &released}}, nil
		},
		deadLetter: func(ctx context.Context, _ event.DeadLetter) error { return ctx.Err() },
	})
	require.Equal(t, []int{0, 0, 0, 0}, acked, "there was no time for it")
	require.Equal(t, 1, released)

	var letters []event.DeadLetter
	note(t.Context(), func(letter event.DeadLetter) error {
		letters = append(letters, letter)
		return nil
	}, events...)
	require.Equal(t, []int{1, 1, 1, 1}, acked)
	require.Len(t, letters, 1)
	require.Equal(t, "malformed", letters[0].Reason)
	require.Equal(t, "nonsense", string(letters[0].Payload))
	require.Equal(t, 2, s.Load().Waiting, "ann, told of twice, and zoe")
	require.True(t, s.Work(t.Context()))
	require.True(t, s.Work(t.Context()))
	w.rest(t, s)
	note(t.Context(), nil, events[0]) // handed out again
	require.Nil(t, w.State(t.Context(), t, "ann").Mark)
	require.False(t, s.Work(t.Context()))
}
