package e2e_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// impatient makes a server find soon what another one has left half done, and work in small steps, so that there is more to
// be left half done.
func impatient(on store, more map[string]string) map[string]string {
	settings := map[string]string{"nats.ack_wait": "2s", "fanout.sweep_after": "5s", "fanout.sweep_every": "1s"}
	if testenv.Race && !full() { // a server that is started again and again declares a consumer for each lane and partition
		settings["partitions"] = "16"
	}
	if testenv.Race && on == embedded { // everything takes longer, and what is under way must not be taken for forgotten
		settings["nats.ack_wait"], settings["fanout.sweep_after"] = "3s", "20s"
	}
	maps.Copy(settings, more)
	return settings
}

// TestKillNine kills the server ten times while messages are on their way, and publishes on meanwhile.
func TestKillNine(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a minute")
	}
	for _, on := range everyStore {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			const kills = 10
			ctx := bounded(t, 8*time.Minute)
			w := newWorld(ctx, t, on, impatient(on, map[string]string{"fanout.express_max": "20", "fanout.batch_owners": "40"}))
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

// mixedTrace makes a trace of mails and messages by celebrities to their followers, and returns how many messages it has.
func (w *world) mixedTrace(ctx context.Context) int {
	w.Helper()
	const mailsPerCelebrity = 60
	each := 4
	mails := w.recorded("email-eu.messages.ndjson.gz")
	if !full() {
		mails = mails[:w.part()]
	}
	if w.follows == "" {
		w.graph(ctx)
	} else {
		each = 40
	}
	w.write(w.users, testenv.Run(ctx, w.T, programs.Driver, "users", "--last-seen", w.testdata("email-eu.last-seen.tsv"))+
		testenv.Run(ctx, w.T, programs.Driver, "users", "--follows", w.follows))
	celebrities := slices.Collect(strings.Lines(
		testenv.Run(ctx, w.T, programs.Driver, "celebrities", "--follows", w.follows, "--count", "25", "--each", strconv.Itoa(each))))
	var mixed strings.Builder
	count := 0
	for i, mail := range mails {
		mixed.WriteString(mail)
		count++
		if n := i / mailsPerCelebrity; i%mailsPerCelebrity == 0 && n < len(celebrities) {
			mixed.WriteString(celebrities[n])
			count++
		}
	}
	w.write(w.messages, mixed.String())
	return count
}

// recorded returns the lines of a file of recorded data.
func (w *world) recorded(name string) []string {
	w.Helper()
	file, err := os.Open(w.testdata(name))
	require.NoError(w, err)
	defer func() { require.NoError(w, file.Close()) }()
	unzipped, err := gzip.NewReader(bufio.NewReader(file))
	require.NoError(w, err)
	text, err := io.ReadAll(unzipped)
	require.NoError(w, err)
	return slices.Collect(strings.Lines(string(text)))
}
