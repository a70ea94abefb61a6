//go:build long

package e2e_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// TestKillNine kills the server repeatedly during fan-outs, while messages are published.
func TestKillNine(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			const between = 100
			kills := 10
			if on != embedded {
				kills = 4 // each kill takes far longer
			}
			ctx := bounded(t, 8*time.Minute)
			w := newWorld(ctx, t, on, impatient(map[string]string{"fanout.direct_max": "20", "fanout.batch_owners": "40"}))
			server := w.start(ctx)
			w.mixedTrace(ctx)
			w.fanmail(ctx, "import", "users", w.users)
			w.fanmail(ctx, "import", "follows", w.follows)

			// The driver must have messages until the server was killed often enough with work in flight.
			feed := w.feed(ctx, w.contents(w.messages), 300)
			driver := w.drive(ctx, "--connections", "32", "--timeout", "30m")
			for killed := 0; killed < kills; {
				target := w.accepted() + between/2 + rand.IntN(between)
				testenv.Eventually(ctx, t, "more messages are accepted", func() bool {
					require.True(t, driver.Running(), driver.Stderr())
					return w.accepted() >= target
				})
				server.Kill()
				server.RequireSound()
				pending, running := w.inFlight(ctx)
				if pending+running > 0 {
					killed++
				}
				t.Logf("kill %d: %d messages accepted; of those stored, %d were not planned, %d being fanned out", killed, w.accepted(), pending, running)
				server = w.start(ctx)
			}
			total := feed.end()
			require.Zero(t, driver.Code(ctx), "publishing failed")
			t.Log(driver.Stdout())
			require.Equal(t, total, w.check(ctx).Messages)
			server.Stop(ctx)
		})
	}
}
