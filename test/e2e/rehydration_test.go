//go:build long

package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestRehydrationFailpoints kills the server at every step of a rehydration: before and after the step, and between the parts of a
// step. The next server must finish the rehydrations by itself, without another visit of the users.
func TestRehydrationFailpoints(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			tests := []struct{ at, when, nth string }{
				{"rebuild", "halfway", "5"},
				{"arrive", "before", "5"},
				{"arrive", "after", "5"},
				{"bound", "before", "5"},
				{"bound", "after", "5"},
				{"rebuild", "before", "5"},
				{"rebuild", "after", "5"},
				{"settle", "before", "5"},
				{"settle", "after", "5"},
				{"sweep", "before", "1"},
				{"sweep", "halfway", "1"},
				{"sweep", "after", "1"},
				{"end-sweep", "before", "5"},
				{"end-sweep", "after", "5"},
			}
			for i, test := range sample(on, tests) {
				t.Run(test.when+" "+test.at, func(t *testing.T) {
					t.Parallel()
					const limit, fresh = 20, 15
					ctx := bounded(t, 6*time.Minute)
					w := newWorld(ctx, t, on, impatient(map[string]string{
						"partitions": "4", "publish_slack": on.tolerance().String(), "clock_tolerance": on.tolerance().String(),
						"rehydrate.limit": strconv.Itoa(limit), "rehydrate.page": "4", "rehydrate.lease": "4s", "rehydrate.reap_every": "500ms",
					}))
					if on == embedded && i%everyRace == 0 {
						w.detectRaces()
					}
					w.checking = []string{"--settled-after", (2 * on.tolerance()).String(), "--rehydrate-limit", strconv.Itoa(limit), "--page-sizes", "50,7"}
					server := w.start(ctx)
					total := w.crowd(ctx)
					early := strconv.Itoa(total / 2)
					w.publish(ctx, "--connections", "8", "--first", early, "--key", "crowd")
					settled := time.Now().Add(2 * on.tolerance()) // so that messages are old enough for a gap
					testenv.Eventually(ctx, t, "the first messages are settled", func() bool { return time.Now().After(settled) })
					server.Stop(ctx)

					faulty := w.site.StartProgram(ctx, t, w.programs.Faulty, "-at", test.at, "-when", test.when, "-nth", test.nth)
					// Publish all messages, and repeat them until the server has died. So a sweep always has messages to find: more
					// than a rebuild remembers, and too new to be settled.
					feed := w.feed(ctx, w.contents(w.messages), 40)
					driver := w.drive(ctx, "--connections", "8", "--timeout", "30m", "--key", "crowd")
					testenv.Eventually(ctx, t, "new messages are accepted", func() bool {
						return w.accepted() >= total/2+fresh || !faulty.Running()
					})
					logins := w.begin(ctx)
					select {
					case <-faulty.Exited():
					case <-ctx.Done():
					}
					require.False(t, faulty.Running(), "the server never came to the failpoint")
					require.True(t, faulty.Killed(), faulty.Stderr())
					logins.Kill()
					w.unlogged()
					marked, swept := w.rehydrating(ctx)
					t.Logf("died with %d marks and %d sweeps", len(marked), len(swept))
					server = w.start(ctx)
					total = max(total/2, feed.end())
					w.awaitComplete(ctx, slices.Concat(marked, swept))
					require.Zero(t, driver.Code(ctx), "publishing failed")
					w.login(ctx, filepath.Join(w.dir, "everybody"), "--by", "either")
					require.Equal(t, total, w.check(ctx).Messages)
					w.requireSoundInboxes(ctx)
					server.Stop(ctx)
					gaps, _ := w.gaps(ctx)
					require.Positive(t, gaps)
				})
			}
		})
	}
}

// begin starts a driver that logs in all users of a crowd. The caller must kill it when the server has died.
func (w *world) begin(ctx context.Context) *testenv.Process {
	w.Helper()
	file, log := filepath.Join(w.dir, "everybody"), filepath.Join(w.dir, "logins-killed.ndjson")
	w.write(file, strings.Join(crowd(), "\n"))
	w.logins = append(w.logins, log)
	return testenv.Exec(ctx, w.T, nil, programs.Driver, "login", "--server", w.site.URL(), "--file", file, "--log", log,
		"--by", "either", "--connections", "8")
}

// unlogged names the users to the checker who may have logged in without an entry in the log.
func (w *world) unlogged() {
	w.Helper()
	text, err := os.ReadFile(w.logins[len(w.logins)-1])
	require.NoError(w, err)
	var unlogged []string
	for _, user := range crowd() {
		if !strings.Contains(string(text), strconv.Quote(user)) {
			unlogged = append(unlogged, user)
		}
	}
	file := filepath.Join(w.dir, "unlogged")
	w.write(file, strings.Join(unlogged, "\n"))
	w.checking = append(w.checking, "--unlogged", file)
}

// awaitComplete waits until the server has finished the rehydrations of users by itself.
func (w *world) awaitComplete(ctx context.Context, users []message.UserID) {
	w.Helper()
	c := w.client()
	for _, user := range users {
		testenv.Eventually(ctx, w.T, "the inbox of "+string(user)+" is complete", func() bool {
			page, err := c.Inbox(ctx, user, client.InboxOptions{Peek: true, Limit: 1})
			require.NoError(w, err)
			return page.Complete
		})
	}
	testenv.Eventually(ctx, w.T, "everything comes to rest", func() bool {
		return w.metric(ctx, "fanmail_rehydrations_running")+w.metric(ctx, "fanmail_rehydrations_waiting") == 0
	})
}
