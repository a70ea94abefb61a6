//go:build long

package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestTotalsOfKilledProcesses kills a server many times, each time soon after it has reported and has gone on. What was reported is in the totals for
// good, and nothing is in them twice.
func TestTotalsOfKilledProcesses(t *testing.T) {
	t.Parallel()
	const kills, reported, more = 20, 5, 2
	ctx := bounded(t, 10*time.Minute)
	w := newWorld(ctx, t, embedded, impatient(nil))
	server := w.site.Start(ctx, t, programs.Fanmail)
	c := w.client()
	var to []message.UserID
	const active, away = 3, 2
	for i := range active + away {
		seen := time.Now()
		if i >= active {
			seen = seen.Add(-365 * 24 * time.Hour)
		}
		to = append(to, reader(i))
		require.NoError(t, c.SetSeen(ctx, reader(i), seen))
	}
	published := int64(0)
	publish := func(count int) {
		for range count {
			receipt, err := c.Publish(ctx, message.Draft{From: "ann", To: to, Body: "x"}, "")
			require.NoError(t, err)
			status, err := c.WaitDone(ctx, receipt.ID, 0)
			require.NoError(t, err)
			require.Equal(t, []int64{active, away}, []int64{status.Fanout.Delivered, status.Fanout.Skipped})
			published++
		}
	}
	var before client.Totals
	totals := func() client.Totals {
		o, err := c.Overview(ctx)
		require.NoError(t, err)
		require.NotNil(t, o.Totals)
		require.True(t, o.Totals.About)
		for _, of := range [][3]int64{
			{before.Accepted, o.Totals.Accepted, published},
			{before.Delivered, o.Totals.Delivered, active * published},
			{before.Skipped.Dormant, o.Totals.Skipped.Dormant, away * published},
		} {
			require.LessOrEqual(t, of[0], of[1], "a total has fallen")
			require.LessOrEqual(t, of[1], of[2], "a total counts twice")
		}
		before = *o.Totals
		return before
	}
	for range kills {
		start := totals()
		publish(reported)
		testenv.Eventually(ctx, t, "the process has reported what it did", func() bool {
			now := totals()
			return now.Accepted >= start.Accepted+reported && now.Delivered >= start.Delivered+reported*active &&
				now.Skipped.Dormant >= start.Skipped.Dormant+reported*away
		})
		publish(more)
		server.Kill()
		<-server.Exited()
		server = w.site.Start(ctx, t, programs.Fanmail)
	}
	end := totals()
	t.Logf("after %d kills the totals have %d of %d accepted and %d of %d delivered", kills, end.Accepted, published, end.Delivered, active*published)
	require.GreaterOrEqual(t, end.Accepted, int64(kills*reported), "only what was not reported is missing")
	server.Stop(ctx)
}
