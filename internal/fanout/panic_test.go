package fanout_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// A panic at any operation of a batch is an error of that batch: the next worker repeats it, each recipient gets the message once.
func TestPanicsOfABatchAreTriedAgain(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.PanicBefore, rig.PanicAfter} {
		t.Run(fmt.Sprintf("fault %d", fault), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			users := usersOf(0, rig.BatchOwners+2)
			w.see(t, users...)
			w.follow(t, "author", users...)
			var sent []message.Message
			for after, befallen := 0, true; befallen; after++ {
				m := w.store(t, after, "author")
				sent = append(sent, m)
				w.plan(t, event.Medium, []int{0}, m)
				held := w.take(t, event.Medium, 0)
				actor := w.start(t, held, fault, after)
				befallen = !actor.Unhurt()
				if actor.Err() != nil {
					require.True(t, panics.Is(actor.Err()), "%v", actor.Err())
					require.NoError(t, held.Expire(t.Context()))
				}
				w.drain(t)
				w.requireDelivered(t, users, sent...)
				w.requireDone(t, m, len(users), 0)
				require.Empty(t, w.letters(t))
			}
			require.Greater(t, len(sent), 10)
		})
	}
}

// A panic at any operation of the router is an error: the event comes again, and the message is delivered once.
func TestPanicsOfTheRouterAreTriedAgain(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.PanicBefore, rig.PanicAfter} {
		t.Run(fmt.Sprintf("fault %d", fault), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			users := usersOf(0, 3)
			w.see(t, users...)
			w.follow(t, "author", users...)
			router := w.router()
			var sent []message.Message
			for after, befallen := 0, true; befallen; after++ {
				m := w.store(t, after, "author")
				sent = append(sent, m)
				w.publish(t, m)
				var received []bus.Received
				actor := rig.Start(t.Context(), fault, after, func(ctx context.Context) (err error) {
					if received, err = w.Bus.TryFetch(ctx, 4); err != nil {
						return err
					}
					return router.Route(ctx, received)
				})
				befallen = !actor.Unhurt()
				if err := actor.Err(); err != nil { // the router tries once more
					require.True(t, panics.Is(err), "%v", err)
				}
				require.NoError(t, w.Bus.Expire(received))
				w.drain(t)
				w.requireDelivered(t, users, sent...)
				w.requireDone(t, m, len(users), 0)
				require.Empty(t, w.letters(t))
			}
			require.Greater(t, len(sent), 4)
		})
	}
}

// poisoned is a message.Store on which each read of one message panics.
type poisoned struct {
	message.Store
	culprit message.ID
}

func (s poisoned) GetMany(ctx context.Context, refs []message.Ref) ([]message.Found, error) {
	if slices.ContainsFunc(refs, func(ref message.Ref) bool { return ref.ID == s.culprit }) {
		panic(rig.Panicking)
	}
	return s.Store.GetMany(ctx, refs)
}

func (s poisoned) Get(ctx context.Context, ref message.Ref) (message.Stored, error) {
	if ref.ID == s.culprit {
		panic(rig.Panicking)
	}
	return s.Store.Get(ctx, ref)
}

// poisonedInbox is a bucket.Store whose pushes of one message panic.
type poisonedInbox struct {
	bucket.Store
	culprit message.ID
}

func (s poisonedInbox) Push(ctx context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	for _, push := range pushes {
		for _, e := range push.Entries {
			if e.ID == s.culprit {
				panic(rig.Panicking)
			}
		}
	}
	return s.Store.Push(ctx, pushes)
}

// A task on which the code panics each time is a dead letter after MaxAttempts, whichever goroutine panics. The tasks before
// and behind it are delivered meanwhile.
func TestTaskOnWhichTheCodePanics(t *testing.T) {
	t.Parallel()
	for name, poison := range map[string]func(s *fanout.Stores, w *world, culprit message.ID){
		"in the worker": func(s *fanout.Stores, _ *world, culprit message.ID) {
			s.Messages = poisoned{Store: s.Messages, culprit: culprit}
		},
		"in a goroutine of the worker": func(s *fanout.Stores, w *world, culprit message.ID) {
			s.Appender = bucket.NewAppender(poisonedInbox{w.Inbox, culprit}, w.Users)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var log bytes.Buffer
			w.opts.MaxAttempts, w.opts.Logger = 3, zerolog.New(zerolog.SyncWriter(&log))
			registry := w.measure()
			users := usersOf(0, 2)
			w.see(t, users...)
			before, culprit, after := w.store(t, 1, "author", users...), w.store(t, 2, "author", users...), w.store(t, 3, "author", users...)
			w.plan(t, event.Bulk, []int{0}, before, culprit, after)
			stores := w.Stores()
			poison(&stores, w, culprit.ID)
			d := fanout.NewDeliverer(stores, w.Bus, w.opts)
			panicked := 0
			for held := w.take(t, event.Bulk, 0); held != nil; held = w.take(t, event.Bulk, 0) {
				if err := d.Deliver(t.Context(), held); err != nil {
					require.Equal(t, fanout.HandBack, fanout.Classify(err), "%v", err)
					panicked++
					require.NoError(t, held.Expire(t.Context()))
					w.requireDelivered(t, users, before, after)
				}
			}
			require.Equal(t, w.opts.MaxAttempts-1, panicked)
			w.requireDelivered(t, users, before, after)
			w.requireDone(t, before, 2, 0)
			w.requireDone(t, after, 2, 0)
			letters := w.letters(t)
			require.Len(t, letters, 1)
			require.Equal(t, event.ReasonPanic, letters[0].Reason)
			require.Equal(t, w.opts.MaxAttempts, letters[0].Attempts)
			require.Contains(t, letters[0].Error, rig.Panicking)
			require.True(t, w.scan(t, culprit, 0).Dead)
			counted, err := testutil.GatherAndCount(registry, "fanmail_panics_total")
			require.NoError(t, err)
			require.Equal(t, 1, counted)
			for _, part := range []string{`"place":"deliver"`, `"stack":"goroutine`, culprit.ID.String(), rig.Panicking} {
				require.Contains(t, log.String(), part)
			}
			panics := strings.Count(log.String(), `"stack":`)
			require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(`
# HELP fanmail_panics_total Panics of the code that were recovered, and have failed only the work at hand.
# TYPE fanmail_panics_total counter
fanmail_panics_total{place="deliver"} %d
`, panics)), "fanmail_panics_total"))
			require.GreaterOrEqual(t, panics, w.opts.MaxAttempts)
		})
	}
}

// An event on which the code panics each time is a dead letter after MaxAttempts, and other messages are routed meanwhile.
func TestEventOnWhichTheCodePanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opts.MaxAttempts = 3
	users := usersOf(0, 2)
	w.see(t, users...)
	culprit, other := w.store(t, 1, "author", users...), w.store(t, 2, "author", users...)
	w.publish(t, culprit, other)
	stores := w.Stores()
	stores.Messages = poisoned{Store: stores.Messages, culprit: culprit.ID}
	router := fanout.NewRouter(stores, w.Bus, w.opts)
	for attempt := 1; attempt <= w.opts.MaxAttempts; attempt++ {
		require.Empty(t, w.letters(t))
		received, err := w.Bus.TryFetch(t.Context(), 10)
		require.NoError(t, err)
		for _, item := range received {
			err = errors.Join(err, router.Route(t.Context(), []bus.Received{item}))
		}
		require.Equal(t, attempt < w.opts.MaxAttempts, panics.Is(err), "%v", err)
		require.NoError(t, w.Bus.Expire(received))
	}
	w.drain(t)
	w.requireDelivered(t, users, other)
	letters := w.letters(t)
	require.Len(t, letters, 1)
	require.Equal(t, event.ReasonPanic, letters[0].Reason)
	require.Equal(t, "fanmail.v1.published", letters[0].Subject)
}

// poisonedProgress is a progress.Store that panics whenever it is asked for one message.
type poisonedProgress struct {
	progress.Store
	culprit message.ID
}

func (s poisonedProgress) GetMany(context.Context, []message.ID) ([]progress.Fanout, []bool, error) {
	panic(rig.Panicking)
}

func (s poisonedProgress) Get(ctx context.Context, id message.ID) (progress.Fanout, error) {
	if id == s.culprit {
		panic(rig.Panicking)
	}
	return s.Store.Get(ctx, id)
}

// A sweep leaves out a message on which the code panics, and emits those behind it.
func TestSweepLeavesOutAMessageOnWhichTheCodePanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 2)
	w.see(t, users...)
	culprit, other := w.store(t, 1, "author", users...), w.store(t, 2, "author", users...)
	stores := w.Stores()
	stores.Progress = poisonedProgress{stores.Progress, culprit.ID}
	w.Clock.Advance(2 * rig.ResumeAfter)
	swept, err := fanout.NewResumer(stores, w.Bus, w.opts).Resume(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, swept)
	w.drain(t)
	w.requireDelivered(t, users, other)
}

// A panic at any operation of a sweep is an error of that sweep, and the next one makes up for it.
func TestPanicsOfASweep(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.PanicBefore, rig.PanicAfter} {
		t.Run(fmt.Sprintf("fault %d", fault), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			users := usersOf(0, 2)
			resumer := w.resumer()
			var sent []message.Message
			for after, befallen := 0, true; befallen; after++ {
				w.see(t, users...)
				m := w.store(t, int(w.Clock.Now().Sub(rig.Epoch).Milliseconds()), "author", users...)
				sent = append(sent, m)
				w.Clock.Advance(2 * rig.ResumeAfter)
				actor := rig.Start(t.Context(), fault, after, func(ctx context.Context) error {
					return panics.Do(func() error {
						_, err := resumer.Resume(ctx)
						return err
					})
				})
				befallen = !actor.Unhurt()
				w.Clock.Advance(2 * rig.ResumeAfter)
				_, err := resumer.Resume(t.Context())
				require.NoError(t, err)
				w.drain(t)
				w.requireDelivered(t, users, sent...)
				require.Empty(t, w.unfinished(t))
			}
			require.Greater(t, len(sent), 2)
		})
	}
}

// Workers survive a panic wherever it is: the partition takes tasks again, and the worker slot is free.
func TestWorkersSurviveAPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 2)
	w.see(t, users...)
	first := w.store(t, 1, "author", users...)
	w.plan(t, event.Bulk, []int{0}, first)
	stores := w.Stores()
	inbox := &panicsOnce{Store: w.Inbox}
	stores.Appender = bucket.NewAppender(inbox, w.Users)
	var takes atomic.Int32
	taker := panickingTaker{w.Bus.Bus, &takes}
	intake, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fanout.NewDeliverer(stores, w.Bus, w.opts).Run(intake, t.Context(), taker)
	}()
	defer func() {
		stop()
		<-ended
	}()
	delivered := func(m message.Message) func() bool {
		return func() bool { return len(w.unfinished(t)) == 0 && slices.Contains(w.inbox(t, users[0]), m.ID) }
	}
	require.Eventually(t, delivered(first), patience, time.Millisecond)
	second := w.store(t, 2, "author", users...)
	w.plan(t, event.Bulk, []int{0}, second)
	require.Eventually(t, delivered(second), patience, time.Millisecond)
	require.True(t, inbox.panicked.Load())
	w.requireDelivered(t, users, first, second)
}

// panickingTaker is a Taker that panics when the bulk lane's partition 0 polls for the first time.
type panickingTaker struct {
	fanout.Taker
	calls *atomic.Int32
}

func (p panickingTaker) Poll(ctx context.Context, lane event.Lane, partition int, wait time.Duration) (bus.Held, error) {
	if lane == event.Bulk && partition == 0 && p.calls.Add(1) == 1 {
		panic(rig.Panicking)
	}
	return p.Taker.Poll(ctx, lane, partition, wait)
}

// panicsOnce is a bucket.Store whose first push panics.
type panicsOnce struct {
	bucket.Store
	panicked atomic.Bool
}

func (s *panicsOnce) Push(ctx context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	if !s.panicked.Swap(true) {
		panic(rig.Panicking)
	}
	return s.Store.Push(ctx, pushes)
}
