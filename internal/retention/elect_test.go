package retention_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// One process has the lease until it ends. A lease of a clock that was ahead counts for nothing, and of two processes at a time one takes it.
func TestElect(t *testing.T) {
	t.Parallel()
	store, clock := new(memory), rig.NewClock()
	of := func(token string, ahead time.Duration) func() bool {
		elected := retention.Elect(store, token, time.Minute, rig.Rules, clock.Skewed(ahead))
		return func() bool {
			t.Helper()
			has, err := elected(t.Context())
			require.NoError(t, err)
			return has
		}
	}
	one, other := of("one", 0), of("other", 0)
	require.True(t, one())
	require.False(t, other())
	clock.Advance(time.Minute)
	require.True(t, one(), "it renews its lease")
	require.False(t, other())
	clock.Advance(time.Minute + time.Millisecond)
	require.True(t, other())
	require.False(t, one())
	clock.Advance(time.Minute + time.Millisecond)
	require.True(t, of("ahead", time.Hour)())
	require.True(t, one())

	store.fail = func(retention.Round) error { return retention.ErrChanged }
	require.False(t, one(), "another process was first")
	store.fail = func(retention.Round) error { return context.DeadlineExceeded }
	_, err := retention.Elect(store, "one", time.Minute, rig.Rules, clock.Now)(t.Context())
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
