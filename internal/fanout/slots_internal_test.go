package fanout

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestWorkerSlotsGoRound lets callers wait for the only slot. They get it in their order.
func TestWorkerSlotsGoRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newWorkerSlots(1)
		require.True(t, s.acquire(t.Context()))
		var order []int
		for i := range 3 {
			go func() {
				if s.acquire(t.Context()) {
					order = append(order, i)
				}
			}()
			synctest.Wait()
		}
		gone, leave := context.WithCancel(t.Context())
		left := make(chan bool, 1)
		go func() { left <- s.acquire(gone) }()
		synctest.Wait()
		leave()
		require.False(t, <-left)
		for i := range 3 {
			s.release()
			synctest.Wait()
			require.Len(t, order, i+1)
		}
		require.Equal(t, []int{0, 1, 2}, order)
		s.release()
		require.True(t, s.acquire(t.Context()))
		require.False(t, s.acquire(gone))
	})
}

// TestLastWorkerSlotEndsTheWait has a lane of two workers.
func TestLastWorkerSlotEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newWorkerSlots(2)
		ended := func(ctx context.Context) bool {
			synctest.Wait()
			return ctx.Err() != nil
		}
		free, cancel := s.whileFree(t.Context())
		defer cancel()
		require.True(t, s.acquire(t.Context()))
		require.True(t, s.acquire(t.Context()))
		require.False(t, ended(free), "the partitions with the slots may find no tasks")
		s.work()
		require.False(t, ended(free))
		s.work()
		require.True(t, ended(free))
		require.Equal(t, 2, s.inUse())
		late, cancelLate := s.whileFree(t.Context())
		defer cancelLate()
		require.True(t, ended(late))
		s.done()
		next, cancelNext := s.whileFree(t.Context())
		defer cancelNext()
		require.False(t, ended(next))
		s.done()
		require.Zero(t, s.inUse())
	})
}
