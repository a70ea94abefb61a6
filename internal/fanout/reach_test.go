package fanout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// back lets what was away be there again, and time pass until nothing is passed over any more.
func (w *world) back() {
	w.Shards.Away(nil)
	w.Clock.Advance(time.Minute)
}

// A scan passes over a recipient who cannot be reached, and comes back: all others get the message meanwhile, what is counted never falls, and each
// recipient is counted once.
func TestScanPassesOverRecipientsThatAreAway(t *testing.T) {
	t.Parallel()
	for name, away := range map[string][]int{"the first": {0}, "the last": {3*rig.BatchOwners - 1}, "two, far apart": {1, 2*rig.BatchOwners + 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			users := usersOf(0, 3*rig.BatchOwners)
			w.see(t, users...)
			w.follow(t, "author", users...)
			m := w.store(t, 1, "author")
			w.plan(t, event.Bulk, []int{0}, m)
			var missing []message.UserID
			for _, at := range away {
				missing = append(missing, users[at])
			}
			w.Shards.Away(func(key string) bool { return slices.Contains(missing, message.UserID(key)) })
			d := w.deliverer()
			var counted int64
			deliver := func() {
				held := w.take(t, event.Bulk, 0)
				require.NoError(t, d.Deliver(t.Context(), held))
				if scans, planned, err := w.Progress.Scans(t.Context(), 0, []message.ID{m.ID}); planned[0] {
					require.NoError(t, err)
					require.GreaterOrEqual(t, scans[0].Delivered, counted, "what is counted never falls")
					counted = scans[0].Delivered
				}
			}
			for range 12 { // three laps
				deliver()
				w.Clock.Advance(time.Second)
			}
			require.Less(t, counted, int64(len(users)))
			for _, user := range users {
				want := []message.ID{m.ID}
				if slices.Contains(missing, user) {
					want = nil
				}
				require.Equal(t, want, w.inbox(t, user), user)
			}
			w.back()
			w.drain(t)
			w.requireDelivered(t, users, m)
			w.requireDone(t, m, len(users), 0)
			require.Empty(t, w.letters(t))
		})
	}
}

// A task whose plan, message or audience cannot be read waits alone. The other tasks of its batch are done.
func TestTaskWhoseMessageIsAwayWaitsAlone(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]func(m message.Message) string{
		"the plan":     func(m message.Message) string { return m.ID.String() },
		"the message":  func(m message.Message) string { return string(m.From) },
		"the audience": func(m message.Message) string { return string(m.From.Source()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			users := usersOf(0, 3)
			w.see(t, users...)
			w.follow(t, "near", users...)
			w.follow(t, "far", users...)
			far, near := w.store(t, 1, "far"), w.store(t, 2, "near")
			w.plan(t, event.Bulk, []int{0}, far, near)
			w.Shards.Away(func(key string) bool { return key == keys(far) })
			d := w.deliverer()
			for range 3 {
				require.NoError(t, d.Deliver(t.Context(), w.take(t, event.Bulk, 0)))
			}
			w.requireDelivered(t, users, near)
			w.requireDone(t, near, len(users), 0)
			require.Equal(t, progress.Scan{}, func() progress.Scan { w.Shards.Away(nil); return w.scan(t, far, 0) }())
			w.back()
			w.drain(t)
			w.requireDelivered(t, users, far, near)
			w.requireDone(t, far, len(users), 0)
		})
	}
}

// The router delivers to everybody who can be reached, and hands the message over for the others.
func TestDirectDeliveryPassesOverRecipientsThatAreAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := []message.UserID{"ann", "ben"} // DirectMax
	w.see(t, users...)
	both, near, far := w.store(t, 1, "author", users...), w.store(t, 2, "author", "ann"), w.store(t, 3, "far", "ann")
	w.publish(t, both, near, far)
	w.Shards.Away(func(key string) bool { return key == "ben" || strings.HasPrefix(key, "far") })
	router := w.router()
	received := w.fetch(t, 3)
	require.ErrorIs(t, router.Route(t.Context(), received), rig.ErrInjected, "the message of an author who is away comes again")
	w.requireDelivered(t, []message.UserID{"ann"}, both, near)
	w.requireDone(t, near, 1, 0)
	require.Contains(t, w.unfinished(t), both.Ref())
	w.back()
	require.NoError(t, w.Bus.Expire(received))
	w.drain(t)
	w.requireDelivered(t, []message.UserID{"ben"}, both)
	w.requireDone(t, both, len(users), 0)
	w.requireDone(t, far, 1, 0)
}
