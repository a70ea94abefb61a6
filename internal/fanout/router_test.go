package fanout_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

func TestRouterChoosesTheLane(t *testing.T) {
	t.Parallel()
	p0, p1 := usersOf(0, 8), usersOf(1, 8)
	for name, test := range map[string]struct {
		to, followers []message.UserID
		toFollowers   bool
		lane          event.Lane
		partitions    []int
	}{
		"one named":                              {to: p0[:1], lane: event.Direct},
		"as many named as direct takes":          {to: []message.UserID{p0[0], p1[0]}, lane: event.Direct},
		"more named than direct takes":           {to: p0[:3], lane: event.Medium, partitions: []int{0}},
		"as many named as medium takes":          {to: p1[:6], lane: event.Medium, partitions: []int{1}},
		"more named than medium takes":           {to: append(p0[:4:4], p1[:3]...), lane: event.Bulk, partitions: []int{0, 1}},
		"few followers":                          {followers: p1[:2], toFollowers: true, lane: event.Direct},
		"few followers and named, some the same": {to: p1[:1], followers: p1[:1], toFollowers: true, lane: event.Direct},
		"more followers than direct takes":       {followers: p1[:3], toFollowers: true, lane: event.Medium, partitions: []int{0, 1}},
		"too many with those who are named":      {to: p0[:1], followers: p1[:2], toFollowers: true, lane: event.Medium, partitions: []int{0, 1}},
		"more followers than medium takes":       {followers: p0, toFollowers: true, lane: event.Bulk, partitions: []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m := message.Message{ID: id(1), From: "author", To: test.to, Body: "x"}
			if test.toFollowers {
				m.Audience = message.AudienceFollowers
			}
			if len(test.followers) > 0 {
				w.follow(t, "author", test.followers...)
			}
			m = w.insert(t, m)
			w.publish(t, m)
			w.routeAll(t, w.router())
			var partitions []int
			for _, task := range w.tasks(t) {
				require.Equal(t, test.lane, task.Lane)
				partitions = append(partitions, task.Partition)
			}
			require.ElementsMatch(t, test.partitions, partitions)
			f, err := w.Progress.Get(t.Context(), m.ID)
			if test.lane == event.Direct {
				require.ErrorIs(t, err, progress.ErrNotFound)
				w.requireDone(t, m, 0, max(len(test.to), len(test.followers)))
				return
			}
			require.NoError(t, err)
			require.Len(t, f.Scans, len(test.partitions))
		})
	}
}

// An edge that has ended counts for the class of a message: otherwise it could hide a follower who is beyond the limit.
func TestEndedEdgesCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 4)
	w.see(t, users...)
	w.follow(t, "author", users...)
	require.NoError(t, w.Edges.Unfollow(t.Context(), follow.Pair{Follower: users[0], Followee: "author"}, rig.Epoch))
	m := w.store(t, 1, "author")
	w.publish(t, m)
	w.drain(t)
	w.requireDone(t, m, 3, 0)
	w.requireDelivered(t, users[1:], m)
	require.Empty(t, w.inbox(t, users[0]))
}

func TestRouterFinishesAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("what nobody is to have", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		m := w.store(t, 1, "author")
		w.publish(t, m)
		w.routeAll(t, w.router())
		require.Empty(t, w.tasks(t))
		w.requireDone(t, m, 0, 0)
	})
	t.Run("what is void", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		users := usersOf(0, 2)
		w.see(t, users...)
		w.Clock.Advance(rig.Slack + 2*time.Millisecond)
		m := w.store(t, 1, "author", users...)
		w.publish(t, m)
		w.routeAll(t, w.router())
		require.Empty(t, w.tasks(t))
		require.Empty(t, w.unfinished(t))
		_, err := w.Progress.Get(t.Context(), m.ID)
		require.ErrorIs(t, err, progress.ErrNotFound)
		w.requireDelivered(t, users)
	})
	t.Run("what is done", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		users := usersOf(0, 2)
		w.see(t, users...)
		m := w.store(t, 1, "author", users...)
		w.publish(t, m)
		w.drain(t)
		w.publish(t, m)
		w.routeAll(t, w.router())
		require.Empty(t, w.tasks(t))
		w.requireDone(t, m, 2, 0)
	})
}

// The first plan holds: what is routed again, for whatever reason, is delivered in the same partitions.
func TestRouterMayDieAnywhere(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.DieBefore, rig.DieAfter, rig.FailBefore, rig.FailAfter} {
		for after := range 12 {
			t.Run(fmt.Sprintf("fault %d after %d operations", fault, after), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				users := append(usersOf(0, 4), usersOf(1, 4)...)
				w.see(t, users...)
				w.follow(t, "author", users...)
				all, some := w.store(t, 1, "author"), w.store(t, 2, "author", users[0], users[7])
				w.publish(t, all, some)
				router := w.router()
				var received []bus.Received
				rig.Start(t.Context(), fault, after, func(ctx context.Context) (err error) {
					if received, err = w.Bus.TryFetch(ctx, 10); err != nil {
						return err
					}
					return router.Route(ctx, received)
				})
				require.NoError(t, w.Bus.Expire(received))
				w.drain(t)
				w.requireDone(t, all, 8, 0)
				w.requireDone(t, some, 2, 0)
				w.requireDelivered(t, []message.UserID{users[0], users[7]}, all, some)
				w.requireDelivered(t, users[1:7], all)
			})
		}
	}
}

func TestResumer(t *testing.T) {
	t.Parallel()
	users := append(usersOf(0, 3), usersOf(1, 3)...)
	for name, test := range map[string]struct {
		// forget publishes a message and lets something get lost.
		forget func(t *testing.T, w *world, m message.Message)
	}{
		"the event was never emitted": {func(*testing.T, *world, message.Message) {}},
		"the event was lost": {func(t *testing.T, w *world, m message.Message) {
			t.Helper()
			w.publish(t, m)
			require.NoError(t, w.Bus.Lose(t.Context(), "FANMAIL_PUBLISHED", 0))
		}},
		"no task was emitted": {func(t *testing.T, w *world, m message.Message) {
			t.Helper()
			_, err := w.Progress.Plan(t.Context(), m.ID, "medium", []int{0, 1}, w.Clock.Now())
			require.NoError(t, err)
		}},
		"a task was lost": {func(t *testing.T, w *world, m message.Message) {
			t.Helper()
			w.publish(t, m)
			w.routeAll(t, w.router())
			require.NoError(t, w.Bus.Lose(t.Context(), "FANMAIL_FANOUT", 0))
			w.drain(t)
		}},
		"nobody took note that it is done": {func(t *testing.T, w *world, m message.Message) {
			t.Helper()
			_, err := w.Progress.Plan(t.Context(), m.ID, "medium", []int{0, 1}, w.Clock.Now())
			require.NoError(t, err)
			w.emit(t, event.Bulk, 0, m)
			w.emit(t, event.Bulk, 1, m)
			for p := range rig.Partitions {
				actor := w.start(t, w.take(t, event.Bulk, p), rig.None, 0)
				require.NoError(t, actor.Err())
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.see(t, users...)
			m := w.store(t, 1, "author", users...)
			test.forget(t, w, m)
			resumer := w.resumer()
			swept, err := resumer.Resume(t.Context())
			require.NoError(t, err)
			require.Zero(t, swept, "it is young")
			w.Clock.Advance(rig.ResumeAfter + time.Second)
			again, err := resumer.Resume(t.Context())
			require.NoError(t, err)
			if again > 0 {
				repeated, err := resumer.Resume(t.Context())
				require.NoError(t, err)
				require.Zero(t, repeated, "it has just been emitted")
			}
			w.drain(t)
			w.requireDelivered(t, users, m)
			w.requireDone(t, m, len(users), 0)
		})
	}
}

// What moves is left alone, however old it is.
func TestResumerLeavesWhatMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 2*rig.BatchOwners)
	w.see(t, users...)
	w.follow(t, "author", users...)
	m := w.store(t, 1, "author")
	w.plan(t, event.Bulk, []int{0}, m)
	w.Clock.Advance(rig.ResumeAfter - time.Second)
	require.True(t, w.deliver(t, event.Bulk, 0))
	w.Clock.Advance(rig.ResumeAfter - time.Second)
	swept, err := w.resumer().Resume(t.Context())
	require.NoError(t, err)
	require.Zero(t, swept)
	require.NoError(t, w.Bus.Lose(t.Context(), "FANMAIL_FANOUT", 0))
	w.Clock.Advance(2 * time.Second)
	swept, err = w.resumer().Resume(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, swept)
}

// Whose audience is as large as the medium lane takes is in it, though one partition has more than its share of it by chance.
func TestRouterForgivesChance(t *testing.T) {
	t.Parallel()
	for share, lane := range map[int]event.Lane{40: event.Medium, 42: event.Medium, 43: event.Bulk} {
		t.Run(fmt.Sprintf("%d of 80", share), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.opts.MediumMax = 80
			w.follow(t, "author", append(usersOf(0, share), usersOf(1, 80-share)...)...)
			w.publish(t, w.store(t, 1, "author"))
			w.routeAll(t, w.router())
			require.Equal(t, lane, w.tasks(t)[0].Lane)
		})
	}
}

// The router remembers an author's lane for a while, and then computes it again.
func TestRouterRemembersTheLane(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	router := w.router()
	route := func(m message.Message) *rig.Actor {
		w.publish(t, m)
		actor := rig.Start(t.Context(), rig.None, 0, func(ctx context.Context) error {
			received, err := w.Bus.TryFetch(ctx, 10)
			if err != nil {
				return err
			}
			return router.Route(ctx, received)
		})
		require.NoError(t, actor.Err())
		return actor
	}
	p0, p1 := usersOf(0, 8), usersOf(1, 8)
	w.follow(t, "author", append(p1[:3:3], usersOf(0, 20)[17:]...)...)
	trace := route(w.store(t, 1, "author")).Trace()
	require.Contains(t, trace, "Audience")
	require.Contains(t, trace, "Followers")
	w.follow(t, "author", p0...)
	trace = route(w.store(t, 2, "author")).Trace()
	require.NotContains(t, trace, "Audience")
	require.NotContains(t, trace, "Followers")
	w.Clock.Advance(w.opts.ClassTTL)
	require.Contains(t, route(w.store(t, 3, "author")).Trace(), "Followers")
	tasks := w.tasks(t)
	require.Equal(t, event.Medium, tasks[0].Lane)
	require.Equal(t, event.Medium, tasks[2].Lane)
	require.Equal(t, event.Bulk, tasks[4].Lane)
	w.see(t, append(p0, p1[:3]...)...)
	w.drain(t)
	w.requireDelivered(t, p0, messageOf(1), messageOf(2), messageOf(3))
}

func messageOf(n int) message.Message { return message.Message{ID: id(n)} }
