//go:build long

package e2e_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

func twinsSize(on store) size {
	switch {
	case full():
		return size{
			pairs: 2000, mails: 20_000, kills: 10, topics: 40, pace: 100,
			dormantAfter: 20 * time.Second, gap: 40 * time.Second, keep: 4 * time.Second,
		}
	case on != embedded: // dormant_after must be at least four times the tolerance
		return size{
			pairs: 30, mails: 1000, kills: 2, topics: 12, pace: 10,
			dormantAfter: 18 * time.Second, gap: 20 * time.Second, keep: 2 * time.Second,
		}
	default:
		return size{
			pairs: 60, mails: 3000, kills: 2, topics: 12, pace: 100,
			dormantAfter: 5 * time.Second, gap: 6 * time.Second, keep: 500 * time.Millisecond,
		}
	}
}

// TestTwins lets users become dormant and return at random. Meanwhile messages are published to them and to topics, they follow and unfollow, subscribe and
// unsubscribe, and the server is killed during rehydrations. Each user has a twin who follows and receives the same but is never dormant. At the
// end, both inboxes are equal.
func TestTwins(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			for _, test := range sample(on, []struct {
				name  string
				limit int
			}{{"everything copied", 0}, {"only the newest copied", 1}}) {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					ctx := bounded(t, 40*time.Minute)
					size, seed := twinsSize(on), seed(t)
					w := newWorld(ctx, t, on, impatient(map[string]string{
						"dormant_after": size.dormantAfter.String(), "clock_tolerance": (on.tolerance() / 2).String(), "publish_slack": on.tolerance().String(),
						"rehydrate.limit": strconv.Itoa(test.limit), "rehydrate.page": "5", "rehydrate.workers": "2",
						"rehydrate.lease": "2s", "rehydrate.reap_every": "500ms",
						"fanout.express_max": "20", "fanout.batch_owners": "40",
					}))
					w.checking = []string{"--dormant-after", size.dormantAfter.String(), "--settled-after", (on.tolerance() * 3 / 2).String(), "--rehydrate-limit", strconv.Itoa(test.limit)}
					server := w.start(ctx)
					pairs := w.twins(ctx, size, seed)

					driver := w.drive(ctx, "--connections", "32", "--pace", strconv.Itoa(size.pace), "--timeout", "30m")
					roaming := w.roam(ctx, pairs, size, seed)
					server = w.killAmidRehydrations(ctx, server, driver, size, rand.New(rand.NewPCG(seed, 1)))
					require.Zero(t, driver.Code(ctx), "publishing failed")
					t.Log(driver.Stdout())
					roaming.Terminate()
					require.Zero(t, roaming.Code(ctx), "roaming failed")
					t.Logf("roamed: %s", strings.TrimSpace(roaming.Stdout()))

					w.everybodyActive(ctx, server, pairs)
					server = w.start(ctx)
					found := w.check(ctx)
					require.Equal(t, size.pairs, found.Twins.Pairs)
					require.Zero(t, found.Twins.Tolerated, "nothing was published to followers while somebody ceased to be one")
					w.requireSoundInboxes(ctx)
					server.Stop(ctx)
					gaps, messages := w.gaps(ctx)
					t.Logf("%d gaps with %d messages", gaps, messages)
					require.Equal(t, test.limit > 0, gaps > 0)
				})
			}
		})
	}
}

// killAmidRehydrations kills the server while messages are published, each time when the server reports running rehydrations. It
// stops when enough kills have left rehydrations unfinished, and returns the last server. If too many rehydrations had ended at the
// kill, it continues after the last message, because the users still return.
func (w *world) killAmidRehydrations(
	ctx context.Context, server server, driver *testenv.Process, size size, random *rand.Rand,
) server {
	w.Helper()
	total := w.lines(w.messages)
	for killed := 0; killed < size.kills; {
		step := max(0, total-w.accepted()) / (size.kills - killed + 1)
		target := w.accepted() + step/2 + random.IntN(step/2+1)
		running := 0
		for running == 0 { // no pause, because a rehydration takes milliseconds
			require.NoError(w, ctx.Err())
			if w.accepted() < target && driver.Running() {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			running = w.metric(ctx, "fanmail_rehydrations_running")
		}
		server.Kill()
		server.RequireSound()
		marked, swept := w.rehydrating(ctx)
		if len(marked)+len(swept) > 0 {
			killed++ // the other rehydrations had ended before the kill
		}
		w.Logf("kill %d: %d lines done, %d rehydrations running; left behind: %d marks, %d sweeps",
			killed, w.accepted(), running, len(marked), len(swept))
		server = w.start(ctx)
	}
	return server
}

// everybodyActive makes dormant_after long, lets all users of the pairs log in, and stops the server. The setting affects later views
// only, so it comes before the logins. No message is sent after them, so no inbox lacks one.
func (w *world) everybodyActive(ctx context.Context, server server, pairs string) {
	w.Helper()
	testenv.Run(ctx, w.T, w.programs.Fanmail, "admin", "settings", "dormant_after", "720h", "--yes", "--server", w.site.URL())
	w.everyoneLogsIn(ctx, pairs)
	testenv.Eventually(ctx, w.T, "everything comes to rest", func() bool {
		return w.metric(ctx, "fanmail_rehydrations_running")+w.metric(ctx, "fanmail_rehydrations_waiting") == 0
	})
	server.Stop(ctx)
}
