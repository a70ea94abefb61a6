package fanout_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// A batch appends, records, emits and removes in this order: whatever is cut off behind repeats work and loses none.
func TestBatchGoesInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, rig.BatchOwners+2)
	w.see(t, users...)
	w.follow(t, "author", users...)
	w.plan(t, event.Bulk, []int{0}, w.store(t, 1, "author"), w.store(t, 2, "author"))
	first := w.start(t, w.take(t, event.Bulk, 0), rig.None, 0)
	require.NoError(t, first.Err())
	require.Equal(t, []string{
		"Waiting", "Scans", "GetMessages", "Followers", "Lookup", "Push", "Step", "EmitTasks", "Remove", "Done",
	}, steps(first.Trace()))
	last := w.start(t, w.take(t, event.Bulk, 0), rig.None, 0)
	require.NoError(t, last.Err())
	require.Equal(t, []string{
		"Waiting", "Scans", "GetMessages", "Followers", "Lookup", "Push", "Step",
		"GetFanouts", "Round", "Conclude", "RemoveFanouts", "Remove", "Done",
	}, steps(last.Trace()))
}

// steps returns the operations of a batch with one lookup and one push for those of all its stretches: the first, and the last.
func steps(trace []string) []string {
	var steps []string
	for i, operation := range trace {
		again := operation == "Lookup" && slices.Contains(trace[:i], operation) || operation == "Push" && slices.Contains(trace[i+1:], operation)
		if !again {
			steps = append(steps, operation)
		}
	}
	return steps
}

// A batch ends by its work: of dormant followers, whom it only passes, it goes through eight times as many.
func TestBatchOfTheDormantIsLonger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dormant := usersOf(0, 8*rig.BatchOwners-1)
	w.follow(t, "author", dormant...)
	w.plan(t, event.Bulk, []int{0}, w.store(t, 1, "author"))
	batch := w.start(t, w.take(t, event.Bulk, 0), rig.None, 0)
	require.NoError(t, batch.Err())
	require.Contains(t, batch.Trace(), "Conclude")
	require.NotContains(t, batch.Trace(), "Push")
}

// A batch remembers what becomes of each message, so behind eight messages it passes over an eighth of the dormant followers.
func TestBatchOfManyMessagesToTheDormantEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dormant := usersOf(0, 3*rig.BatchOwners)
	w.follow(t, "author", dormant...)
	var messages []message.Message
	for n := range 8 {
		messages = append(messages, w.store(t, n, "author"))
	}
	w.plan(t, event.Bulk, []int{0}, messages...)
	require.True(t, w.deliver(t, event.Bulk, 0))
	for _, m := range messages {
		require.Equal(t, dormant[rig.BatchOwners-1], w.scan(t, m, 0).At)
	}
	w.drain(t)
	for _, m := range messages {
		w.requireDone(t, m, 0, len(dormant))
	}
}

// When a worker dies at an operation, the next worker finishes the batch, and each recipient is counted once.
func TestCountsAreExactAfterADeath(t *testing.T) {
	t.Parallel()
	const operations = 15
	for _, fault := range []rig.Fault{rig.DieBefore, rig.DieAfter} {
		for after := range operations {
			t.Run(fmt.Sprintf("fault %d after %d operations", fault, after), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				users := usersOf(0, rig.BatchOwners+2)
				dormant := usersOf(0, rig.BatchOwners+4)[rig.BatchOwners+2:]
				w.see(t, users...)
				w.follow(t, "author", users...)
				w.follow(t, "author", dormant...)
				x, y := w.store(t, 1, "author"), w.store(t, 2, "author")
				w.plan(t, event.Bulk, []int{0}, x, y)
				for died := false; !died; {
					held := w.take(t, event.Bulk, 0)
					if held == nil {
						break
					}
					died = w.start(t, held, fault, after).Died()
					require.NoError(t, held.Expire(t.Context()))
				}
				w.Clock.Advance(rig.ResumeAfter + time.Second)
				_, err := w.resumer().Resume(t.Context()) // notes what is done, where that was all that was left
				require.NoError(t, err)
				w.drain(t)
				w.requireDelivered(t, users, x, y)
				w.requireDelivered(t, dormant)
				w.requireDone(t, x, len(users), len(dormant))
				w.requireDone(t, y, len(users), len(dormant))
			})
		}
	}
}

// Two workers at the same batch, as when a lease has run out: each stretch is counted by one of them.
func TestCountsAreExactWithTwoWorkers(t *testing.T) {
	t.Parallel()
	for after := range 14 { // operations of the first batch
		t.Run(fmt.Sprintf("the first one stalls after %d operations", after), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			users := usersOf(0, 2*rig.BatchOwners)
			w.see(t, users...)
			w.follow(t, "author", users...)
			x, y := w.store(t, 1, "author"), w.store(t, 2, "author")
			w.plan(t, event.Bulk, []int{0}, x, y)
			held := w.take(t, event.Bulk, 0)
			slow := w.start(t, held, rig.StallBefore, after)
			require.NoError(t, held.Expire(t.Context()))
			if after%2 == 0 {
				require.Equal(t, !slow.Finished(), w.deliver(t, event.Bulk, 0))
			} else {
				w.drain(t)
			}
			slow.Resume(rig.None, 0)
			require.NoError(t, slow.Err())
			w.drain(t)
			w.requireDelivered(t, users, x, y)
			w.requireDone(t, x, len(users), 0)
			w.requireDone(t, y, len(users), 0)
		})
	}
}

// Two workers join a scan at different positions: the record of the first one holds for both.
func TestScanHasOneStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 9)
	w.see(t, users...)
	w.follow(t, "author", users...)
	m := w.store(t, 2, "author")
	w.plan(t, event.Bulk, []int{0}, m)
	held := w.take(t, event.Bulk, 0)
	d := w.deliverer()
	slow := rig.StartAt(t.Context(), rig.StallBefore, "Step", 0, func(ctx context.Context) error { return d.Deliver(ctx, held) })
	require.False(t, slow.Finished())
	require.NoError(t, held.Expire(t.Context()))

	under := w.store(t, 1, "author")
	w.plan(t, event.Bulk, []int{0}, under)
	w.put(t, under, 0, joined("", users[5]))
	require.True(t, w.deliver(t, event.Bulk, 0))
	require.Equal(t, users[5], w.scan(t, m, 0).Start)
	slow.Resume(rig.None, 0)
	require.NoError(t, slow.Err())
	require.Equal(t, users[5], w.scan(t, m, 0).Start)
	w.drain(t)
	w.requireDelivered(t, users[:6], m)
	w.requireDelivered(t, users[6:], m, under)
	w.requireDone(t, m, len(users), 0)
}

// A recipient who already has the message, from any writer, counts as delivered.
func TestFoundCountsAsDelivered(t *testing.T) {
	t.Parallel()
	for _, lane := range event.Lanes() {
		t.Run(string(lane), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			users := usersOf(0, 3)
			w.see(t, users...)
			m := w.store(t, 1, "author", users...)
			_, err := w.Appender.Append(t.Context(), []bucket.Append{{Owner: users[1], Entries: []bucket.Entry{bucket.EntryOf(m)}}})
			require.NoError(t, err)
			w.plan(t, lane, []int{0}, m)
			w.drain(t)
			w.requireDelivered(t, users, m)
			w.requireDone(t, m, 3, 0)
		})
	}
}

// Delivery is decided by when the message was sent, not by when it is handled.
func TestHorizonDecides(t *testing.T) {
	t.Parallel()
	for _, lane := range event.Lanes() {
		t.Run(string(lane), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			users := usersOf(0, 3)
			unknown, dormant, active := users[0], users[1], users[2]
			w.see(t, dormant)
			w.Clock.Advance(time.Minute)
			w.see(t, active)
			horizon := rig.Epoch.Add(rig.DormantAfter)
			w.Clock.Advance(horizon.Sub(w.Clock.Now()))
			at := func(t time.Time) int { return int(t.Sub(rig.Epoch).Milliseconds()) }
			before, after := w.store(t, at(horizon), "author", users...), w.store(t, at(horizon)+1, "author", users...)
			w.Clock.Advance(rig.DormantAfter)
			w.plan(t, lane, []int{0}, before, after)
			w.drain(t)
			w.requireDelivered(t, []message.UserID{unknown})
			w.requireDelivered(t, []message.UserID{dormant}, before)
			w.requireDelivered(t, []message.UserID{active}, before, after)
			w.requireDone(t, before, 2, 1)
			w.requireDone(t, after, 1, 2)
		})
	}
}

// A message that was planned for one lane is routed again and comes in another.
func TestLaneChangesUnderWay(t *testing.T) {
	t.Parallel()
	for after := range 16 {
		t.Run(fmt.Sprintf("after %d operations", after), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			users := usersOf(0, 3*rig.BatchOwners)
			w.see(t, users...)
			m := w.store(t, 1, "author", users...)
			w.plan(t, event.Medium, []int{0}, m)
			w.emit(t, event.Bulk, 0, m)
			held := w.take(t, event.Medium, 0)
			slow := w.start(t, held, rig.StallBefore, after)
			for w.deliver(t, event.Bulk, 0) {
			}
			slow.Resume(rig.None, 0)
			require.NoError(t, slow.Err())
			w.drain(t)
			w.requireDelivered(t, users, m)
			w.requireDone(t, m, len(users), 0)
		})
	}
}
