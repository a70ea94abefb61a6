package e2e_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// keepNewest is how many messages the inboxes of a crowd keep.
const keepNewest = 5

// TestNewestFailpoints kills the server at every step by which messages expire, and in the midst of deliveries and returns. Then a server
// without a failpoint receives the remaining messages, and all users return. Each inbox has its newest messages, and no more than that and slack.
func TestNewestFailpoints(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			tests := []struct{ at, when, nth string }{
				{"raise", "after", "9"},
				{"raise", "before", "9"},
				{"empty", "before", "9"},
				{"empty", "after", "9"},
				{"append", "after", "29"},
				{"append", "halfway", "9"},
				{"record", "after", "29"},
			}
			if !testenv.Long {
				tests = tests[:1]
			}
			for _, test := range sample(on, tests) {
				t.Run(test.when+" "+test.at, func(t *testing.T) {
					t.Parallel()
					ctx := bounded(t, 3*time.Minute)
					w := newWorld(ctx, t, on, impatient(map[string]string{
						"retention.newest": "5", "retention.every": "1s", "inbox.bucket_size": "3", "rehydrate.limit": "20", "rehydrate.page": "5",
						"clock_tolerance": (on.tolerance() / 2).String(), "publish_slack": on.tolerance().String(),
						"fanout.express_max": "5", "fanout.batch_owners": "8", "fanout.batch_tasks": "8",
					}))
					faulty := w.site.StartProgram(ctx, t, w.programs.Faulty, "-at", test.at, "-when", test.when, "-nth", test.nth)
					w.crowd(ctx)
					driver := w.drive(ctx, "--connections", "4", "--pace", "20", "--timeout", "30m")
					select {
					case <-faulty.Exited():
					case <-ctx.Done():
					}
					require.False(t, faulty.Running(), "the server never came to the failpoint")
					require.True(t, faulty.Killed(), faulty.Stderr())

					server := w.start(ctx)
					require.Zero(t, driver.Code(ctx), "publishing failed")
					w.awaitFanout(ctx)
					shown := w.awaitFew(ctx)
					server.Stop(ctx)
					w.left(ctx, func(s stores) { w.requireNewest(ctx, s, shown) })
				})
			}
		})
	}
}

// awaitFew lets all users return, and waits until no inbox has more than it keeps, with slack. It returns what they show.
func (w *world) awaitFew(ctx context.Context) map[message.UserID][]client.InboxMessage {
	w.Helper()
	shown := make(map[message.UserID][]client.InboxMessage)
	for _, user := range crowd() {
		testenv.Eventually(ctx, w.T, "the inbox is complete", func() bool {
			login, err := w.client().Login(ctx, message.UserID(user), time.Second)
			require.NoError(w, err)
			return login.State == client.Active
		})
	}
	for _, user := range crowd() {
		testenv.Eventually(ctx, w.T, "the inbox of "+user+" is trimmed", func() bool {
			all := w.inbox(ctx, message.UserID(user), client.InboxOptions{Peek: true})
			shown[message.UserID(user)] = all
			return len(all) <= keepNewest+keepNewest/4 || all[keepNewest-1].ID.Time().Equal(all[len(all)-1].ID.Time())
		})
	}
	return shown
}

// requireNewest requires that inboxes show the newest messages of their owners, and no fewer than they keep.
func (w *world) requireNewest(ctx context.Context, s stores, shown map[message.UserID][]client.InboxMessage) {
	w.Helper()
	old, err := s.messages.Oldest(ctx, message.ID{}, message.MaxID, math.MaxInt16)
	require.NoError(w, err)
	require.NotEmpty(w, old)
	stored := make([]message.Stored, len(old))
	for i, o := range old {
		stored[i], err = s.messages.Get(ctx, o.Ref)
		require.NoError(w, err)
	}
	for user, all := range shown {
		var got, want []message.ID
		for _, m := range all {
			got = append(got, m.ID)
		}
		for i := len(stored) - 1; i >= 0 && len(want) < len(got); i-- {
			if m := stored[i]; slices.Contains(m.To, user) || m.ToFollowers() && user != "stranger" {
				want = append(want, m.ID)
			}
		}
		require.GreaterOrEqual(w, len(got), keepNewest, "%s", user)
		require.Equal(w, want, got, "%s", user)
	}
}
