package fanout_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
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
		ending.Ref, ending.Concluded = m.Ref(), true
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

// An event that the bus hands out again after the plan of its message has ended leads to no delivery: also not to a user whose edge was written
// late, and whom the fan-out has not counted.
func TestRepeatedEventOfAConcludedMessage(t *testing.T) {
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
			w.requireDone(t, m, 2, 0)
			require.Equal(t, 1, w.conclude(t))
			w.follow(t, "author", late)
			w.publish(t, m)
			w.routeAll(t, w.router())
			require.Empty(t, w.tasks(t))
			w.drain(t)
			w.requireConcluded(t, message.Ending{Delivered: 2}, m)
			require.Empty(t, w.inbox(t, late))
		})
	}
}

// A task that the bus hands out again after the plan of its message has ended is acknowledged. One of a message that has not been planned is
// planned.
func TestRepeatedTaskOfAConcludedMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 2)
	w.see(t, users...)
	m, other := w.store(t, 1, "author", users...), w.store(t, 2, "author", users...)
	w.publish(t, m)
	w.drain(t)
	require.Equal(t, 1, w.conclude(t))
	w.see(t, users...)
	w.emit(t, event.Express, 0, m, other)
	require.True(t, w.deliver(t, event.Express, 0))
	require.False(t, w.deliver(t, event.Express, 0), "one batch takes both tasks")
	_, published := w.Bus.Emitted()
	last := published[len(published)-1]
	require.Equal(t, other.Ref(), last.Ref())
	require.Len(t, published, 2, "the first event of each")
	w.drain(t)
	w.requireDone(t, other, 2, 0)
	w.requireConcluded(t, message.Ending{Delivered: 2}, m)
	w.requireDelivered(t, users, m, other)
}

// A message that was removed meanwhile is not planned again by a late task.
func TestRepeatedTaskOfARemovedMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 2)
	m := w.store(t, 1, "author", users...)
	require.NoError(t, w.Messages.Remove(t.Context(), []message.Ref{m.Ref()}))
	w.emit(t, event.Express, 0, m)
	require.True(t, w.deliver(t, event.Express, 0))
	_, published := w.Bus.Emitted()
	require.Empty(t, published)
	require.Empty(t, w.letters(t))
}

// A message ends while a router is at any point of routing its event again. Whatever the router has read by then, it emits nothing.
func TestMessageEndsWhileItIsRouted(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.StallBefore, rig.StallAfter, rig.DieBefore, rig.DieAfter} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			t.Parallel()
			for after, hurt := 0, true; hurt; after++ {
				w := newWorld(t)
				users := usersOf(0, 2)
				w.see(t, users...)
				w.follow(t, "author", users...)
				m := w.store(t, 1, "author")
				w.publish(t, m)
				w.drain(t)
				w.publish(t, m)
				received, err := w.Bus.TryFetch(t.Context(), 10)
				require.NoError(t, err)
				router := w.router()
				actor := rig.Start(t.Context(), fault, after, func(ctx context.Context) error { return router.Route(ctx, received) })
				hurt = !actor.Unhurt()
				require.Equal(t, 1, w.conclude(t))
				actor.Resume(rig.None, 0)
				if actor.Died() {
					require.NoError(t, w.Bus.Expire(received))
				}
				require.Empty(t, w.tasks(t), "after %d operations", after)
				w.conclude(t) // removes the plan of a router that has died
				w.drain(t)
				w.requireConcluded(t, message.Ending{Delivered: 2}, m)
				w.requireDelivered(t, users, m)
			}
		})
	}
}

// The sweep finishes a message that is over, although it has no plan.
func TestSweepOfAConcludedMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 2)
	w.see(t, users...)
	m := w.store(t, 1, "author", users...)
	stores := w.Stores()
	stores.Messages = unfinishing{w.Messages, m.Ref()}
	require.NoError(t, w.Messages.Conclude(t.Context(), []message.Ending{{Ref: m.Ref(), Delivered: 2}}))
	w.Clock.Advance(2 * rig.ResumeAfter)
	emitted, err := fanout.NewResumer(stores, w.Bus, w.opts).Resume(t.Context())
	require.NoError(t, err)
	require.Zero(t, emitted)
	w.requireConcluded(t, message.Ending{Delivered: 2}, m)
}

// unfinishing is a message.Store in which a message is still unfinished, as after a crash.
type unfinishing struct {
	message.Store
	ref message.Ref
}

func (s unfinishing) Unfinished(context.Context, message.ID, int) ([]message.Ref, error) {
	return []message.Ref{s.ref}, nil
}
