package fanout_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// The store hangs for one worker, or for two in turn, in the middle of a batch. Another worker gets the task and
// delivers the message. When the store returns, the late workers change nothing.
func TestStuckBatchGoesToAnotherWorker(t *testing.T) {
	t.Parallel()
	for _, hanging := range []int{1, 2} {
		t.Run(strconv.Itoa(hanging), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			users := usersOf(0, rig.BatchOwners+2)
			w.see(t, users...)
			w.follow(t, "author", users...)
			first, second := w.store(t, 1, "author"), w.store(t, 2, "author")
			w.plan(t, event.Bulk, []int{0}, first, second)
			intake, stop := context.WithCancel(t.Context())

			var stuck []*rig.Actor
			healthy := w.run(intake)
			w.opts.StuckAfter = 10 * time.Millisecond
			for range hanging {
				actor := rig.StartAt(t.Context(), rig.StallBefore, "Push", 1, w.run(intake))
				require.False(t, actor.Finished())
				stuck = append(stuck, actor)
			}
			var running sync.WaitGroup
			running.Go(func() { _ = healthy(t.Context()) })
			require.Eventually(t, func() bool { return len(w.unfinished(t)) == 0 }, patience, time.Millisecond)
			stop()
			running.Wait()
			requireAll := func() {
				w.requireDelivered(t, users, first, second)
				w.requireDone(t, first, len(users), 0)
				w.requireDone(t, second, len(users), 0)
				require.Empty(t, w.letters(t))
			}
			requireAll()
			for _, actor := range stuck {
				require.False(t, actor.Finished())
				actor.Resume(rig.None, 0)
				require.True(t, actor.Finished())
			}
			w.drain(t)
			requireAll()
			require.Empty(t, w.tasks(t))
		})
	}
}

// A store that is so slow that each worker gives up each batch makes progress: a batch that was given up records what it has done.
func TestBatchThatWasGivenUpIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, rig.BatchOwners+2)
	w.see(t, users...)
	w.follow(t, "author", users...)
	m := w.store(t, 1, "author")
	w.plan(t, event.Bulk, []int{0}, m)
	w.opts.StuckAfter = 10 * time.Millisecond
	for given := 1; len(w.unfinished(t)) > 0; given++ {
		require.Less(t, given, 4, "each batch moves the scan")
		intake, stop := context.WithCancel(t.Context())
		actor := rig.StartAt(t.Context(), rig.StallBefore, "Push", 0, w.run(intake))
		require.False(t, actor.Finished())
		held := w.take(t, event.Bulk, 0) // the worker has given it up
		require.NotNil(t, held)
		require.NoError(t, held.GiveBack(t.Context()))
		stop()
		actor.Resume(rig.None, 0)
		require.True(t, actor.Finished())
	}
	w.drain(t)
	w.requireDelivered(t, users, m)
	w.requireDone(t, m, len(users), 0)
	require.Empty(t, w.letters(t))
	require.Empty(t, w.tasks(t))
}
