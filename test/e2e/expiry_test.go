//go:build long

package e2e_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestExpiryFailpoints kills the server at every step between a message's expiry and its removal: before and after the step, and between
// the parts of a step. The next server must come to the same end: everything has expired for all users, and nothing is left of it.
func TestExpiryFailpoints(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			tests := []struct{ at, when, nth string }{
				{"remove-messages", "halfway", "1"},
				{"raise", "before", "5"},
				{"raise", "after", "5"},
				{"empty", "before", "5"},
				{"empty", "after", "5"},
				{"walk", "before", "3"},
				{"walk", "after", "3"},
				{"conclude", "before", "1"},
				{"conclude", "halfway", "1"},
				{"conclude", "after", "1"},
				{"remove-plans", "before", "1"},
				{"remove-plans", "after", "1"},
				{"remove-messages", "before", "1"},
				{"remove-messages", "after", "1"},
				{"remove-edges", "before", "1"},
				{"remove-edges", "halfway", "1"},
				{"remove-edges", "after", "1"},
			}
			for i, test := range sample(on, tests) {
				t.Run(test.when+" "+test.at, func(t *testing.T) {
					t.Parallel()
					ctx := bounded(t, 4*time.Minute)
					w := newWorld(ctx, t, on, impatient(map[string]string{
						"partitions": "4", "fanout.direct_max": "5", "publish_slack": on.tolerance().String(), "clock_tolerance": on.tolerance().String(),
						"idempotency.ttl": on.tolerance().String(), "inbox.bucket_size": "7",
						"retention.max_age": (2 * on.tolerance()).String(), "retention.canonical": on.tolerance().String(), "retention.every": "1s", "retention.hold": "0s",
					}))
					if on == embedded && i%everyRace == 0 {
						w.detectRaces()
					}
					server := w.start(ctx)
					w.crowd(ctx)
					for i := range 10 {
						require.NoError(t, w.client().Unfollow(ctx, message.UserID(fan(i)), "star"))
					}
					server.Stop(ctx)
					faulty := w.site.StartProgram(ctx, t, w.programs.Faulty, "-at", test.at, "-when", test.when, "-nth", test.nth)
					driver := w.drive(ctx, "--connections", "8", "--timeout", "30m")
					select {
					case <-faulty.Exited():
					case <-ctx.Done():
					}
					require.False(t, faulty.Running(), "the server never came to the failpoint")
					require.True(t, faulty.Killed(), faulty.Stderr())

					server = w.start(ctx)
					require.Zero(t, driver.Code(ctx), "publishing failed")
					w.awaitExpiry(ctx, time.Now())
					for w.remaining(ctx, server) > 0 {
						require.NoError(t, ctx.Err(), "what has expired is not removed")
						server = w.start(ctx)
						w.awaitRounds(ctx)
					}
					server = w.start(ctx)
					w.requireDeliveries(ctx)
					server.Stop(ctx)
				})
			}
		})
	}
}

// awaitExpiry waits until everything has expired that was sent up to a time.
func (w *world) awaitExpiry(ctx context.Context, upTo time.Time) {
	w.Helper()
	c := w.client()
	testenv.Eventually(ctx, w.T, "everything has expired", func() bool {
		status, err := c.RetentionStatus(ctx)
		require.NoError(w, err)
		return status.LowWater != nil && status.LowWater.Time().After(upTo)
	})
	w.awaitRounds(ctx)
}

// awaitRounds waits for a round that begins from now on, and for the next one, which removes what that has proven.
func (w *world) awaitRounds(ctx context.Context) {
	w.Helper()
	seen := w.metric(ctx, "fanmail_retention_rounds_total") + 2
	testenv.Eventually(ctx, w.T, "rounds through all users end", func() bool { return w.metric(ctx, "fanmail_retention_rounds_total") > seen })
}

// remaining stops a server, and returns how many messages and plans it has left.
func (w *world) remaining(ctx context.Context, running server) (n int) {
	w.Helper()
	running.Stop(ctx)
	w.left(ctx, func(s stores) {
		old, err := s.messages.Oldest(ctx, message.ID{}, message.MaxID, math.MaxInt16)
		require.NoError(w, err)
		plans, err := s.progress.List(ctx, message.ID{}, message.MaxID, math.MaxInt16)
		require.NoError(w, err)
		n = len(old) + len(plans)
	})
	return n
}

// requireDeliveries lets messages be kept again, and publishes some. They are all that is in inboxes.
func (w *world) requireDeliveries(ctx context.Context) {
	w.Helper()
	c := w.client()
	_, err := c.ChangeSetting(ctx, "retention.max_age", client.SettingChange{Value: "1h"})
	require.NoError(w, err)
	want := []string{"three", "two", "one"}
	for _, body := range []string{"one", "two", "three"} {
		w.fanmail(ctx, "publish", "--from", "star", "--body", body, "--followers", "--to", "stranger", "--wait")
	}
	for i, user := range crowd() {
		var page client.InboxPage
		testenv.Eventually(ctx, w.T, "the inbox of "+user+" is complete", func() (complete bool) {
			page, err = c.Inbox(ctx, message.UserID(user), client.InboxOptions{})
			require.NoError(w, err)
			return page.Complete
		})
		var bodies []string
		for _, m := range page.Messages {
			bodies = append(bodies, m.Body)
		}
		if i > 0 && i <= 10 { // they have unfollowed
			require.Empty(w, bodies, user)
			continue
		}
		require.Equal(w, want, bodies, user)
		require.EqualValues(w, len(want), page.Total, user)
	}
	w.requireSoundInboxes(ctx)
}
