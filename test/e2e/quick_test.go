//go:build long

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestFromPublishToInbox tests messages from publishing to the inbox, with a restart between.
func TestFromPublishToInbox(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t, 2*time.Minute)
			w := newWorld(ctx, t, on, nil)
			server := w.start(ctx)
			c := w.client()
			if threads := runtime.GOMAXPROCS(0); threads == runtime.NumCPU() && os.Getenv("GOMAXPROCS") == "" {
				require.GreaterOrEqual(t, w.metric(ctx, "go_sched_gomaxprocs_threads"), 8, "few cores are shared by the system")
			}

			long := time.Now().Add(-31 * 24 * time.Hour).UTC().Format(time.RFC3339)
			now := time.Now().UTC().Format(time.RFC3339)
			w.write(w.users, fmt.Sprintf(`{"user":"ben","last_viewed":%q}
		{"user":"cleo","last_viewed":%q}
		{"user":"dora","last_viewed":%q}
		`, now, now, long))
			require.Contains(t, w.fanmail(ctx, "import", "users", w.users), "imported 3 users")
			w.follows = w.dir + "/follows.tsv"
			w.write(w.follows, "ben\tann\ncleo\tann\ndora\tann\n")
			require.Contains(t, w.fanmail(ctx, "import", "follows", w.follows), "imported 3 edges")

			publish := func(body string, recipients, delivered, neverSeen int64, args ...string) message.ID {
				var receipt struct {
					ID     message.ID
					Fanout client.Fanout
				}
				out := w.fanmail(ctx, append([]string{"publish", "--from", "ann", "--body", body, "--wait", "--json"}, args...)...)
				require.NoError(t, json.Unmarshal([]byte(out), &receipt))
				require.Equal(t, client.Fanout{
					State: message.StateDone, Lane: event.Direct, Recipients: recipients, Delivered: delivered, Skipped: recipients - delivered, NeverSeen: neverSeen,
				}, receipt.Fanout, body)
				return receipt.ID
			}
			toFollowers := publish("to followers", 3, 2, 0, "--followers")
			named := publish("named", 3, 1, 1, "--to", "ben,dora,nobody")
			both := publish("both", 4, 2, 1, "--followers", "--to", "ben,nobody")

			read := func(user message.UserID, complete bool) []string {
				page, err := c.Inbox(ctx, user, client.InboxOptions{Peek: true})
				require.NoError(t, err)
				require.EqualValues(t, len(page.Messages), page.Total)
				require.Equal(t, complete, page.Complete, user)
				bodies := make([]string, len(page.Messages))
				for i, m := range page.Messages {
					bodies[i] = m.Body
				}
				return bodies
			}
			bodies := func(user message.UserID) []string { return read(user, true) }
			require.Equal(t, []string{"both", "named", "to followers"}, bodies("ben"))
			require.Equal(t, []string{"both", "to followers"}, bodies("cleo"))
			require.Equal(t, []string{"both", "named", "to followers"}, read("dora", false), "found by fan out on read")
			_, err := c.Inbox(ctx, "nobody", client.InboxOptions{Peek: true})
			require.ErrorContains(t, err, "this user was never seen")
			require.Contains(t, w.fanmail(ctx, "inbox", "ben"), "3 unread")
			require.Contains(t, w.fanmail(ctx, "status", both.String()), "done")

			require.NoError(t, c.MarkRead(ctx, "ben", named))
			require.NoError(t, c.Delete(ctx, "ben", toFollowers))
			require.NoError(t, c.Unfollow(ctx, "cleo", "ann"))
			page, err := c.Inbox(ctx, "ben", client.InboxOptions{Limit: 1})
			require.NoError(t, err)
			require.Len(t, page.Messages, 1)
			require.Equal(t, []int64{2, 1}, []int64{page.Total, page.Unread})
			publish("after cleo left", 2, 1, 0, "--followers")
			require.Equal(t, []string{"after cleo left", "both", "named", "to followers"}, read("dora", false), "peeking is not looking")
			back, err := c.Login(ctx, "dora", client.MaxLoginWait)
			require.NoError(t, err)
			require.Equal(t, client.Login{User: "dora", State: client.Active, Was: client.WasDormant, Recovered: 4}, back)

			server.Stop(ctx)
			server = w.start(ctx)
			require.Equal(t, []string{"after cleo left", "both", "named"}, bodies("ben"))
			require.Equal(t, []string{"both", "to followers"}, bodies("cleo"))
			publish("after a restart", 2, 2, 0, "--followers")
			require.Equal(t, []string{"after a restart", "after cleo left", "both", "named"}, bodies("ben"))
			require.Equal(t, []string{"after a restart", "after cleo left", "both", "named", "to followers"}, bodies("dora"))
			server.Stop(ctx)
		})
	}
}
