package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// conclude ends the plans that are over, and returns how many.
func (w *world) conclude(t *testing.T) int {
	t.Helper()
	w.Clock.Advance(retention.PlanStays + time.Second)
	n, err := w.Walker(0).Conclude(t.Context())
	require.NoError(t, err)
	return n
}

// requireConcluded demands that messages are concluded with these counts and have no plans, and that nothing is queued.
func (w *world) requireConcluded(t *testing.T, ending message.Ending, messages ...message.Message) {
	t.Helper()
	for _, m := range messages {
		endings, err := w.Messages.Endings(t.Context(), []message.Ref{m.Ref()})
		require.NoError(t, err)
		ending.Ref, ending.Concluded, ending.Lane = m.Ref(), true, endings[0].Lane
		require.Equal(t, ending, endings[0])
		_, err = w.Progress.Get(t.Context(), m.ID)
		require.ErrorIs(t, err, progress.ErrNotFound)
	}
	published, tasks, err := w.Bus.Queued(t.Context())
	require.NoError(t, err)
	require.Zero(t, published)
	require.Empty(t, tasks)
	require.Empty(t, w.letters(t))
}

// An event that the bus hands out again after its message has ended leads to no delivery: also not to a user whose edge was written
// late, and whom the fan-out has not counted.
func TestRepeatedEventOfAMessageThatIsOver(t *testing.T) {
	t.Parallel()
	for n, to := range [][]message.UserID{usersOf(0, 2), nil} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			users, late := usersOf(0, 3)[:2], usersOf(0, 3)[2]
			w.see(t, append(users, late)...)
			w.follow(t, "author", users...)
			m := w.store(t, 1, "author", to...)
			w.publish(t, m)
			w.drain(t)
			w.requireConcluded(t, message.Ending{Delivered: 2}, m)
			w.follow(t, "author", late)
			w.publish(t, m)
			w.drain(t)
			w.requireConcluded(t, message.Ending{Delivered: 2}, m)
			require.Empty(t, w.inbox(t, late))
		})
	}
}

// A task without a plan is removed: the message has ended, and may be removed, too.
func TestRepeatedTaskOfAMessageThatIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 4)
	w.see(t, users...)
	m, removed := w.store(t, 1, "author", users...), w.store(t, 2, "author", users...)
	require.NoError(t, w.Messages.Remove(t.Context(), []message.Ref{removed.Ref()}))
	w.publish(t, m)
	w.drain(t)
	_, published := w.Bus.Emitted()
	w.emit(t, event.Medium, 0, m, removed)
	require.True(t, w.deliver(t, event.Medium, 0))
	require.False(t, w.deliver(t, event.Medium, 0), "one batch takes both tasks")
	_, again := w.Bus.Emitted()
	require.Equal(t, published, again)
	w.requireConcluded(t, message.Ending{Delivered: 4}, m)
	w.requireDelivered(t, users, m)
}

// Two routers have the event of a message, and the second ends it while the first is at any point. The first ending stays, each recipient has the
// message once, and no plan is left.
func TestMessageEndsWhileItIsRouted(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.StallBefore, rig.StallAfter, rig.DieBefore, rig.DieAfter, rig.FailBefore, rig.PanicBefore} {
		for _, followers := range []int{1, 2, 5} { // two are direct
			t.Run(fmt.Sprintf("fault %d of %d", fault, followers), func(t *testing.T) {
				t.Parallel()
				for after, hurt := 0, true; hurt; after++ {
					w := newWorld(t)
					users := usersOf(0, followers)
					w.see(t, users...)
					w.follow(t, "author", users...)
					m := w.store(t, 1, "author")
					w.publish(t, m)
					received, err := w.Bus.TryFetch(t.Context(), 10)
					require.NoError(t, err)
					router := w.router()
					actor := rig.Start(t.Context(), fault, after, func(ctx context.Context) error { return router.Route(ctx, received) })
					hurt = !actor.Unhurt()
					w.publish(t, m)
					w.drain(t)
					want := message.Ending{Delivered: int64(followers)}
					w.requireDone(t, m, followers, 0)
					actor.Resume(rig.None, 0)
					require.NoError(t, w.Bus.Expire(received))
					w.drain(t)
					w.conclude(t) // removes the plan of a router that came late and has died
					w.requireConcluded(t, want, m)
					w.requireDelivered(t, users, m)
				}
			})
		}
	}
}

// A message that cannot be delivered directly, because the code fails or panics at one of its operations, is planned, and delivered by a worker. Other
// messages of the round are not held up.
func TestDirectDeliveryHandsOver(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(){
		"an error": func() {},
		"a panic":  func() { panic(rig.Panicking) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			users := usersOf(0, 3)
			w.see(t, users...)
			bad, good := w.store(t, 1, "author", users[:2]...), w.store(t, 2, "author", users[2])
			w.publish(t, bad, good)
			stores := w.Stores()
			stores.Users = failing{stores.Users, users[0], fail}
			measured := w.measure()
			received := w.fetch(t, 2)
			require.NoError(t, fanout.NewRouter(stores, w.Bus, w.opts).Route(t.Context(), received))
			require.InDelta(t, 1, counter(t, measured, "fanmail_handed_over_messages_total", ""), 0)
			w.requireDone(t, good, 1, 0)
			w.requireDelivered(t, users[2:], good)
			require.Equal(t, []event.Task{task(event.Medium, 0, bad)}, w.tasks(t))
			w.opts.Metrics = nil
			w.drain(t)
			w.requireDone(t, bad, 2, 0)
			w.requireDelivered(t, users[:2], bad)
		})
	}
}

// An event that was handed out too often may take its router down each time. Its message is planned, and a worker gives it up if it has to.
func TestEventThatIsHandedOutTooOften(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opts.MaxAttempts = 2
	users := usersOf(0, 2)
	w.see(t, users...)
	m := w.store(t, 1, "author", users...)
	w.publish(t, m)
	for range w.opts.MaxAttempts {
		received, err := w.Bus.TryFetch(t.Context(), 10)
		require.NoError(t, err)
		require.NoError(t, w.Bus.Expire(received)) // it has crashed
	}
	w.routeAll(t, w.router())
	require.Equal(t, []event.Task{task(event.Medium, 0, m)}, w.tasks(t))
	w.drain(t)
	w.requireDone(t, m, 2, 0)
	w.requireDelivered(t, users, m)
}

// failing is a userstate.Store that cannot look up one user.
type failing struct {
	userstate.Store
	user message.UserID
	fail func()
}

func (s failing) Lookup(ctx context.Context, users []message.UserID) ([]userstate.Looked, error) {
	if slices.Contains(users, s.user) {
		s.fail()
		return nil, errors.New("the shard is away")
	}
	return s.Store.Lookup(ctx, users)
}

// A plan whose last worker has died before the end is ended by the next router.
func TestRouterEndsAPlanThatIsDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.store(t, 1, "author", usersOf(0, 4)...)
	_, err := w.Progress.Plan(t.Context(), m.ID, "medium", []int{0}, w.Clock.Now())
	require.NoError(t, err)
	w.put(t, m, 0, progress.Scan{Joined: true, Done: true, Delivered: 3, Skipped: 1})
	w.Clock.Advance(2 * rig.ResumeAfter)
	emitted, err := w.resumer().Resume(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, emitted)
	w.routeAll(t, w.router())
	w.requireConcluded(t, message.Ending{Delivered: 3, Skipped: 1}, m)
}
