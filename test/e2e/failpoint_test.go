//go:build long

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestFailpoints kills the server at every step between publishing and acknowledging: before and after the step, and between the
// parts of a step. A server without a failpoint then receives the remaining messages.
func TestFailpoints(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			tests := []struct{ at, when, nth string }{
				{"append", "after", "9"},
				{"append", "before", "9"},
				{"append", "halfway", "3"},
				{"store", "before", "9"},
				{"store", "after", "9"},
				{"emit-published", "before", "9"},
				{"emit-published", "after", "9"},
				{"plan", "before", "9"},
				{"plan", "after", "9"},
				{"emit-tasks", "before", "5"},
				{"emit-tasks", "halfway", "5"},
				{"emit-tasks", "after", "5"},
				{"ack-published", "before", "9"},
				{"ack-published", "after", "9"},
				{"record", "before", "9"},
				{"record", "halfway", "3"},
				{"record", "after", "9"},
				{"emit-continuation", "before", "5"},
				{"emit-continuation", "halfway", "2"},
				{"emit-continuation", "after", "5"},
				{"remove", "before", "3"},
				{"remove", "halfway", "2"},
				{"remove", "after", "3"},
				{"ack-task", "before", "9"},
				{"ack-task", "after", "9"},
				{"conclude", "before", "9"},
				{"conclude", "after", "9"},
			}
			for i, test := range sample(on, tests) {
				t.Run(test.when+" "+test.at, func(t *testing.T) {
					t.Parallel()
					ctx := bounded(t, 2*time.Minute)
					w := newWorld(ctx, t, on, impatient(map[string]string{"fanout.direct_max": "5", "fanout.batch_owners": "8", "fanout.batch_tasks": "8", "partitions": "4"}))
					if on == embedded && i%everyRace == 0 {
						w.detectRaces()
					}
					faulty := w.site.StartProgram(ctx, t, w.programs.Faulty, "-at", test.at, "-when", test.when, "-nth", test.nth)
					total := w.crowd(ctx)
					driver := w.drive(ctx, "--connections", "8", "--timeout", "30m")
					select {
					case <-faulty.Exited():
					case <-ctx.Done():
					}
					require.False(t, faulty.Running(), "the server never came to the failpoint")
					require.True(t, faulty.Killed(), faulty.Stderr())
					t.Logf("died with %d of %d messages accepted", w.accepted(), total)

					server := w.start(ctx)
					require.Zero(t, driver.Code(ctx), "publishing failed")
					require.Equal(t, total, w.check(ctx).Messages)
					server.Stop(ctx)
				})
			}
		})
	}
}

// crowdFans is the number of followers of a crowd's star.
const crowdFans = 60

func fan(i int) string { return fmt.Sprintf("fan-%02d", i%crowdFans) }

// crowd returns all users of a crowd who receive a message.
func crowd() []string {
	users := []string{"stranger"}
	for i := range crowdFans {
		users = append(users, fan(i))
	}
	return users
}

// crowd imports a star with followers, some of them dormant, and writes messages of all kinds. It returns the number of messages.
func (w *world) crowd(ctx context.Context) int {
	w.Helper()
	const messages = 90
	now := time.Now().UTC().Truncate(time.Millisecond)
	var users, follows, drafts strings.Builder
	var views []client.Seen
	var pairs []follow.Pair
	line := func(b *strings.Builder, v any) {
		require.NoError(w, json.NewEncoder(b).Encode(v))
	}
	see := func(user string, at time.Time) {
		views = append(views, client.Seen{User: message.UserID(user), LastViewed: at})
		line(&users, views[len(views)-1])
	}
	for i := range crowdFans {
		pairs = append(pairs, follow.Pair{Follower: message.UserID(fan(i)), Followee: "star"})
		fmt.Fprintf(&follows, "%s\tstar\n", fan(i))
		switch i % 10 {
		case 3: // never seen
		case 7:
			see(fan(i), now.Add(-40*24*time.Hour))
		default:
			see(fan(i), now)
		}
	}
	for i := range messages {
		draft := message.Draft{From: "star", Body: fmt.Sprintf("message %d", i)}
		if i%3 != 1 {
			draft.Audience = message.AudienceFollowers
		}
		if i%3 != 0 {
			draft.To = []message.UserID{message.UserID(fan(i)), message.UserID(fan(7 * i)), "stranger"}
		}
		line(&drafts, draft)
	}
	w.follows = w.dir + "/follows.tsv"
	w.write(w.users, users.String())
	w.write(w.follows, follows.String())
	w.write(w.messages, drafts.String())
	c := w.client()
	seen, err := c.SetSeenBatch(ctx, views)
	require.NoError(w, err)
	require.Equal(w, len(views), seen.Accepted)
	followed, err := c.FollowBatch(ctx, pairs)
	require.NoError(w, err)
	require.Equal(w, len(pairs), followed.Accepted)
	return messages
}
