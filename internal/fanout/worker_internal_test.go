package fanout

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWorkerSlotIsKept lets two partitions contend for the only slot of the bulk lane.
func TestWorkerSlotIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := make(chan struct{}, 1)
		first, second := &workerSlot{slots: slots, keep: bulkKeep}, &workerSlot{slots: slots, keep: bulkKeep}
		require.True(t, first.acquire(t.Context()))
		acquired := make(chan struct{})
		go func() {
			require.True(t, second.acquire(t.Context()))
			close(acquired)
		}()
		secondWaits := func() bool {
			synctest.Wait()
			select {
			case <-acquired:
				return false
			default:
				return true
			}
		}
		first.release()
		time.Sleep(slotGrace / 2)
		require.True(t, first.acquire(t.Context()), "the first partition keeps its slot")
		require.True(t, secondWaits())

		time.Sleep(bulkKeep + 1)
		first.release()
		require.False(t, secondWaits(), "after bulkKeep the slot is free")

		second.release()
		time.Sleep(slotGrace + 1)
		require.True(t, first.acquire(t.Context()), "a kept slot that is not acquired within slotGrace is free")
		first.release()
		first.close()
		require.Empty(t, slots, "close frees the kept slot")

		intake, end := context.WithCancel(t.Context())
		require.True(t, first.acquire(t.Context()))
		end()
		require.False(t, second.acquire(intake), "acquire returns when intake has ended")
		first.release()
		first.close()
	})
}

// TestWorkerSlotIsFreeAfterEachBatch has a slot of a lane that does not keep slots.
func TestWorkerSlotIsFreeAfterEachBatch(t *testing.T) {
	t.Parallel()
	s := &workerSlot{slots: make(chan struct{}, 1)}
	require.True(t, s.acquire(t.Context()))
	s.release()
	require.Empty(t, s.slots)
}
