package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// TestBadges has an application ask for the counts of dormant users again and again. That keeps none of them active: their records do not change,
// and the next message skips all of them.
func TestBadges(t *testing.T) {
	t.Parallel()
	for _, on := range everyStoreLeft() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t, 2*time.Minute)
			w := newWorld(ctx, t, on, nil)
			server := w.start(ctx)
			long := time.Now().Add(-31 * 24 * time.Hour).UTC().Format(time.RFC3339)
			var users []message.UserID
			var seen, follows strings.Builder
			for i := range 300 {
				user := fmt.Sprintf("user-%d", i)
				users = append(users, message.UserID(user))
				fmt.Fprintf(&seen, `{"user":%q,"last_viewed":%q}`+"\n", user, long)
				follows.WriteString(user + "\tann\n")
			}
			w.write(w.users, seen.String())
			require.Contains(t, w.fanmail(ctx, "import", "users", w.users), "imported 300 users")
			w.follows = w.dir + "/follows.tsv"
			w.write(w.follows, follows.String())
			require.Contains(t, w.fanmail(ctx, "import", "follows", w.follows), "imported 300 edges")
			publish := func() {
				t.Helper()
				var receipt struct{ Fanout client.Fanout }
				out := w.fanmail(ctx, "publish", "--from", "ann", "--body", "x", "--followers", "--wait", "--json")
				require.NoError(t, json.Unmarshal([]byte(out), &receipt))
				require.Equal(t, client.Fanout{State: client.StateDone, Recipients: 300, Skipped: 300}, receipt.Fanout)
			}
			states := func() (found []userstate.State) {
				w.left(ctx, func(s stores) {
					var err error
					found, err = userstate.States(s.users.Lookup(ctx, users))
					require.NoError(t, err)
				})
				return found
			}
			publish()
			server.Stop(ctx)
			before := states()

			server = w.start(ctx)
			c := w.client()
			for range 3 {
				counts, err := c.Counts(ctx, users)
				require.NoError(t, err)
				require.Len(t, counts, len(users))
				for i, count := range counts {
					require.Equal(t, client.InboxCount{User: users[i]}, count)
				}
				values, err := c.CountByAuthor(ctx, users[0])
				require.NoError(t, err)
				require.Equal(t, client.ValueCounts{Counts: []client.ValueCount{}}, values)
			}
			publish()
			server.Stop(ctx)
			after := states()
			require.Len(t, after, len(users))
			for i := range users {
				require.True(t, before[i].Known())
				require.Equal(t, before[i], after[i])
			}
		})
	}
}
