package fanout

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSeat lets two partitions contend for one worker.
func TestSeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := make(chan struct{}, 1)
		one, other := &seat{slots: slots, stay: bulkStay}, &seat{slots: slots, stay: bulkStay}
		require.True(t, one.take(t.Context()))
		came := make(chan struct{})
		go func() {
			require.True(t, other.take(t.Context()))
			close(came)
		}()
		waits := func() bool {
			synctest.Wait()
			select {
			case <-came:
				return false
			default:
				return true
			}
		}
		one.rise()
		time.Sleep(seatGrace / 2)
		require.True(t, one.take(t.Context()), "the worker stays")
		require.True(t, waits())

		time.Sleep(bulkStay + 1)
		one.rise()
		require.False(t, waits(), "nobody keeps a worker for longer than that")

		other.rise()
		time.Sleep(seatGrace + 1)
		require.True(t, one.take(t.Context()), "a worker that is not claimed in time is free")
		one.rise()
		one.leave()
		require.Empty(t, slots, "who leaves lets the worker go")

		ended, end := context.WithCancel(t.Context())
		require.True(t, one.take(t.Context()))
		end()
		require.False(t, other.take(ended), "nobody comes when intake has ended")
		one.rise()
		one.leave()
	})
}

// TestSeatOfLane has a worker that is free after each batch.
func TestSeatOfLane(t *testing.T) {
	t.Parallel()
	s := &seat{slots: make(chan struct{}, 1)}
	require.True(t, s.take(t.Context()))
	s.rise()
	require.Empty(t, s.slots)
}
