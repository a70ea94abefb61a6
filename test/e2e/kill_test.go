//go:build long

package e2e_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// TestKillNine kills the server ten times while messages are on their way, and publishes on meanwhile.
func TestKillNine(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			const kills = 10
			ctx := bounded(t, 8*time.Minute)
			w := newWorld(ctx, t, on, impatient(map[string]string{"fanout.express_max": "20", "fanout.batch_owners": "40"}))
			server := w.start(ctx)
			total := w.mixedTrace(ctx)
			w.fanmail(ctx, "import", "users", w.users)
			w.fanmail(ctx, "import", "follows", w.follows)

			driver := w.drive(ctx, "--connections", "32", "--timeout", "30m")
			for killed := 0; killed < kills; {
				// On average a tenth of what is left by an even pace, so that all the kills fall into the time of publishing.
				step := (total - w.accepted()) / (kills - killed + 1)
				target := w.accepted() + step/2 + rand.IntN(step/2+1)
				testenv.Eventually(ctx, t, "more messages are accepted", func() bool { return w.accepted() >= target || !driver.Running() })
				require.True(t, driver.Running(), "everything was published before the server had been killed %d times", kills)
				server.Kill()
				server.RequireSound()
				pending, running := w.inFlight(ctx)
				if pending+running > 0 {
					killed++
				}
				t.Logf("kill %d: %d messages accepted; of those stored, %d were not planned, %d being fanned out", killed, w.accepted(), pending, running)
				server = w.start(ctx)
			}
			require.Zero(t, driver.Code(ctx), "publishing failed")
			t.Log(driver.Stdout())
			require.Equal(t, total, w.check(ctx).Messages)
			server.Stop(ctx)
		})
	}
}
