//go:build long

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
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
			kills := 10
			if on != embedded {
				kills = 4 // each kill takes far longer
			}
			ctx := bounded(t, 8*time.Minute)
			w := newWorld(ctx, t, on, impatient(map[string]string{"fanout.direct_max": "20", "fanout.batch_owners": "40"}))
			server := w.start(ctx)
			w.mixedTrace(ctx)
			w.killOften(ctx, server, kills, 300, w.contents(w.messages))
		})
	}
	t.Run("large audience", func(t *testing.T) {
		t.Parallel()
		killAmidTables(t, 3)
	})
}

// TestKillNineThirtyTimes kills the server often enough to hit each step of writing tables.
func TestKillNineThirtyTimes(t *testing.T) {
	t.Parallel()
	killAmidTables(t, 30)
}

// killAmidTables kills a server during fan-outs to so many followers that the embedded store writes tables of thousands of entries. Some of the
// followers get direct messages meanwhile, most of them neighbors in the order of keys, so that the other owners still have a large table.
func killAmidTables(t *testing.T, kills int) {
	t.Helper()
	const fans, neighbors, lines = 10_000, 100, 1000
	ctx := bounded(t, time.Duration(kills)*time.Minute)
	w := newWorld(ctx, t, embedded, impatient(map[string]string{
		"partitions": "2", "fanout.direct_max": "20", "fanout.medium_max": "1000", "embedded.memtable": "1MiB", "embedded.table_entries": "50",
		"fanout.max_attempts": "1000", // each kill is one, and a busy machine may finish no task between thirty of them
	}))
	server := w.start(ctx)
	var follows strings.Builder
	for i := range fans {
		fmt.Fprintf(&follows, "fan-%05d\tstar\n", i)
	}
	w.follows = filepath.Join(w.dir, "follows.tsv")
	w.write(w.follows, follows.String())
	w.write(w.users, testenv.Run(ctx, t, programs.Driver, "users", "--follows", w.follows))
	messages := make([]string, lines)
	for i := range messages {
		if i%20 == 0 {
			messages[i] = fmt.Sprintf(`{"from":"star","audience":"followers","body":"to all %d"}`+"\n", i)
			continue
		}
		some, other := rand.IntN(neighbors), 1
		if i%20 == 1 {
			other += rand.IntN(fans - neighbors)
		}
		messages[i] = fmt.Sprintf(`{"from":"mate","to":["fan-%05d","fan-%05d"],"body":"direct %d"}`+"\n", some, some+other, i)
	}
	w.killOften(ctx, server, kills, 80, messages)
}

// killOften imports the users and edges, repeats messages at pace messages per second, and kills the server until that has happened often enough
// with work in flight. At the end every inbox must be exactly right.
func (w *world) killOften(ctx context.Context, server server, kills, pace int, messages []string) {
	w.Helper()
	w.fanmail(ctx, "import", "users", w.users)
	w.fanmail(ctx, "import", "follows", w.follows)
	feed := w.feed(ctx, messages, pace)
	driver := w.drive(ctx, "--connections", "32", "--timeout", "60m")
	for killed := 0; killed < kills; {
		target := w.accepted() + pace/6 + rand.IntN(pace/3)
		testenv.Eventually(ctx, w.T, "more messages are accepted", func() bool {
			require.True(w, driver.Running(), driver.Stderr())
			return w.accepted() >= target
		})
		server.Kill()
		server.RequireSound()
		pending, running := w.inFlight(ctx)
		if pending+running > 0 {
			killed++
		}
		tables, err := filepath.Glob(filepath.Join(w.site.Data, "store", "*.table"))
		require.NoError(w, err)
		w.Logf("kill %d: %d messages accepted; of those stored, %d were not planned, %d being fanned out; tables not handed over: %d",
			killed, w.accepted(), pending, running, len(tables))
		server = w.start(ctx)
	}
	total := feed.end()
	require.Zero(w, driver.Code(ctx), "publishing failed")
	w.Log(driver.Stdout())
	require.Equal(w, total, w.check(ctx).Messages)
	w.requireSoundInboxes(ctx)
	server.Stop(ctx)
}
