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
			ctx, cancel := context.WithTimeout(t.Context(), pool.Limit(10*time.Second))
			defer cancel()
			if !free.TryAcquire(1) {
				waited.Add(1)
				return
			}
			pool.Use(1)
			defer free.Release(1)
			defer pool.Use(-1)
			if hangs {
				<-ctx.Done()
				return
			}
			time.Sleep(5 * time.Millisecond)
			pool.Answered(5 * time.Millisecond)
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
	for _, want := range []time.Duration{40 * time.Second, 30 * time.Second, 20 * time.Second, 10 * time.Second, time.Second, time.Second} {
		require.Equal(t, want, pool.Limit(40*time.Second))
		pool.Use(1)
	}
	pool.Answered(time.Second / 2)
	require.Equal(t, 8*time.Second, pool.Limit(40*time.Second), "the database is slow")
	pool.Answered(time.Minute)
	require.Equal(t, 40*time.Second, pool.Limit(40*time.Second))
	pool.Answered(0)
	pool.Use(-6)
	require.Equal(t, 40*time.Second, pool.Limit(40*time.Second))
	require.Equal(t, time.Second, mongostore.NewPool(0).Limit(time.Second))
}
