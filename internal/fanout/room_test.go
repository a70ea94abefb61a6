package fanout_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// While the store has no room, tasks of the bulk lane wait, also between two batches of a message. Those of the medium lane do not.
func TestBulkWaitsForRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opts.BatchOwners = 1
	users := usersOf(0, 3)
	w.see(t, users...)
	bulk, medium := w.store(t, 1, "author", users...), w.store(t, 2, "author", users...)
	delivered := func(m message.Message) (n int) {
		for _, user := range users {
			buckets, err := bucket.ReadSection(context.WithoutCancel(t.Context()), w.Inbox, bucket.Section{Owner: user}, bucket.AllFields)
			if err == nil && len(buckets) > 0 && slices.ContainsFunc(buckets[0].Entries, func(e bucket.Entry) bool { return e.ID == m.ID }) {
				n++
			}
		}
		return n
	}
	var upTo, refused atomic.Int64
	w.opts.Room = func() bool {
		room := int64(delivered(bulk)) < upTo.Load()
		if !room {
			refused.Add(1)
		}
		return room
	}
	w.plan(t, event.Bulk, []int{0}, bulk)
	w.plan(t, event.Medium, []int{0}, medium)
	intake, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.deliverer().Run(intake, t.Context(), w.Bus.Bus) })
	for n := range users {
		upTo.Store(int64(n))
		require.Eventually(t, func() bool { return delivered(bulk) == n && delivered(medium) == len(users) }, patience, time.Millisecond)
		refused.Store(0) // each partition is refused again, those that hold nothing, too
		require.Eventually(t, func() bool { return refused.Load() > rig.Partitions }, patience, time.Millisecond)
		require.Equal(t, n, delivered(bulk))
	}
	upTo.Store(int64(len(users) + 1))
	require.Eventually(t, func() bool { return len(w.unfinished(t)) == 0 }, patience, time.Millisecond)
	stop()
	running.Wait()
	w.requireDelivered(t, users, bulk, medium)
}
