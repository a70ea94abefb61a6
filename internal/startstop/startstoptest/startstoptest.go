// Package startstoptest checks that a startstop.Service keeps the contract of its lifecycle.
package startstoptest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/startstop"
)

// rounds is how often Stress lets goroutines collide, each time on a new service. hammers is the number of these goroutines.
const (
	rounds  = 20
	hammers = 8
)

// Stress starts and stops services in every order, one after another and concurrently. Each call of open returns a new, idle service,
// which stops without aborting work. Stress does not check for remaining goroutines: use goleak in TestMain.
func Stress(t *testing.T, open func() startstop.Service) {
	t.Helper()
	t.Run("starts and stops", func(t *testing.T) {
		s := open()
		require.NoError(t, s.Start(t.Context()))
		require.NoError(t, s.Stop(t.Context()))
	})
	t.Run("stops without having started", func(t *testing.T) {
		s := open()
		require.NoError(t, s.Stop(t.Context()))
		require.NoError(t, s.Stop(t.Context()))
		require.ErrorIs(t, s.Start(t.Context()), startstop.ErrStopped)
	})
	t.Run("starts once", func(t *testing.T) {
		s := open()
		require.NoError(t, s.Start(t.Context()))
		require.ErrorIs(t, s.Start(t.Context()), startstop.ErrRunning)
		require.NoError(t, s.Stop(t.Context()))
		require.ErrorIs(t, s.Start(t.Context()), startstop.ErrStopped)
		require.NoError(t, s.Stop(t.Context()))
	})
	t.Run("does not start in a context that has ended, and can afterwards", func(t *testing.T) {
		s := open()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.Start(ended), context.Canceled)
		require.NoError(t, s.Start(t.Context()))
		require.NoError(t, s.Stop(t.Context()))
	})
	t.Run("outlives the context it was started with", func(t *testing.T) {
		s := open()
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, s.Start(ctx))
		cancel()
		require.ErrorIs(t, s.Start(t.Context()), startstop.ErrRunning)
		require.NoError(t, s.Stop(t.Context()))
	})
	t.Run("starts and stops at once", func(t *testing.T) {
		for range rounds {
			hammer(t, open())
		}
	})
}

func hammer(t *testing.T, s startstop.Service) {
	t.Helper()
	starts, stops := make([]error, hammers), make([]error, hammers)
	var hammering sync.WaitGroup
	for i := range hammers {
		hammering.Go(func() { starts[i] = s.Start(t.Context()) })
		hammering.Go(func() { stops[i] = s.Stop(t.Context()) })
	}
	hammering.Wait()
	started := 0
	for i := range hammers {
		require.NoError(t, stops[i])
		if starts[i] == nil {
			started++
			continue
		}
		require.True(t, isRefusal(starts[i]), "Start returned %v", starts[i])
	}
	require.LessOrEqual(t, started, 1, "started more than once")
}

func isRefusal(err error) bool {
	return errors.Is(err, startstop.ErrRunning) || errors.Is(err, startstop.ErrStopped)
}
