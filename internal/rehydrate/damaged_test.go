package rehydrate_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// TestReapPastDamage damages the record of one of two users whose rehydration waits. The reaper takes over the other's, and counts the first
// until the record is mended.
func TestReapPastDamage(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, w.now().Add(-2*rig.DormantAfter), rig.DormantAfter, "ben"))
	before := w.Rehydrator(0, 0)
	for _, user := range []message.UserID{"ann", "ben"} {
		_, err := before.Login(t.Context(), user, w.now(), 0)
		require.NoError(t, err)
	}
	w.Damage.State("ann") // the process dies
	opts := w.RehydrateOptions(0)
	registry := prometheus.NewRegistry()
	opts.Metrics = registry
	s := rehydrate.New(w.RehydrateStores(), opts)
	damaged := func() float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "fanmail_damaged_rehydrations" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return -1
	}
	for range 3 {
		require.NoError(t, s.Reap(t.Context(), w.now().Add(2*rig.Lease)))
		require.InDelta(t, 1, damaged(), 0)
	}
	for s.Work(t.Context()) {
	}
	require.False(t, state(t, w, "ben").Rehydrating())
	w.Damage.Mend("ann")
	require.NoError(t, s.Reap(t.Context(), w.now().Add(2*rig.Lease)))
	require.Zero(t, damaged())
	for s.Work(t.Context()) {
	}
	require.False(t, state(t, w, "ann").Rehydrating())
}

func state(t *testing.T, w *world, user message.UserID) userstate.State {
	t.Helper()
	st, err := userstate.Get(t.Context(), w.Users, user)
	require.NoError(t, err)
	return st
}
