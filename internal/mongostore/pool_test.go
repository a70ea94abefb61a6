package mongostore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/fanmail/fanmail/internal/mongostore"
)

// A hundred calls a second touch a part of the database that is away, for a minute, and hold a connection each. As many others never wait for one of
// the hundred connections.
func TestCallsThatHangLeaveConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const connections = 100
		pool, free := mongostore.NewPool(connections), semaphore.NewWeighted(connections)
		var calls sync.WaitGroup
		var waited atomic.Int64
		call := func(hangs bool) {
			limit, end := pool.Begin(10 * time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if !free.TryAcquire(1) {
				waited.Add(1)
				end(0)
				return
			}
			defer free.Release(1)
			if hangs {
				<-ctx.Done()
				end(0)
				return
			}
			time.Sleep(5 * time.Millisecond)
			end(5 * time.Millisecond)
			if ctx.Err() != nil {
				waited.Add(1)
			}
		}
		for range 60 * 100 {
			calls.Go(func() { call(true) })
			calls.Go(func() { call(false) })
			time.Sleep(10 * time.Millisecond)
		}
		calls.Wait()
		require.Zero(t, waited.Load())
	})
}

func TestPoolLimits(t *testing.T) {
	t.Parallel()
	pool := mongostore.NewPool(8)
	var ends []func(time.Duration)
	for _, want := range []time.Duration{40 * time.Second, 30 * time.Second, 20 * time.Second, 10 * time.Second, time.Second, time.Second} {
		limit, end := pool.Begin(40 * time.Second)
		require.Equal(t, want, limit)
		ends = append(ends, end)
	}
	ends[0](time.Second / 2)
	limit, _ := pool.Begin(40 * time.Second)
	require.Equal(t, 8*time.Second, limit, "the database is slow")
	ends[1](time.Minute)
	limit, _ = pool.Begin(40 * time.Second)
	require.Equal(t, 40*time.Second, limit)
	limit, _ = mongostore.NewPool(0).Begin(time.Second)
	require.Equal(t, time.Second, limit)
}
