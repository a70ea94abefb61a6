//go:build long

package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
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
					State: client.StateDone, Recipients: recipients, Delivered: delivered, Skipped: recipients - delivered, NeverSeen: neverSeen,
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
			require.Equal(t, []string{"both", "named"}, read("nobody", false), "although nobody was never seen")
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

// TestPages reads an inbox of several buckets page by page. The pages must be newest first and complete.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t, 2*time.Minute)
			w := newWorld(ctx, t, on, nil)
			server := w.start(ctx)
			c := w.client()
			require.NoError(t, c.SetSeen(ctx, "ben", time.Now()))

			const messages = 130
			drafts := make([]message.Draft, messages)
			for i := range drafts {
				drafts[i] = message.Draft{From: "ann", To: []message.UserID{"ben"}, Body: strconv.Itoa(i)}
			}
			answers, err := c.PublishBatch(ctx, drafts, "")
			require.NoError(t, err)
			var ids []message.ID
			for _, answer := range answers {
				require.NoError(t, answer.Err)
				_, err := c.WaitDone(ctx, answer.ID, 0)
				require.NoError(t, err)
				ids = append(ids, answer.ID)
			}
			slices.Reverse(ids)
			for _, test := range []struct{ limit, most int }{{50, 2}, {100, 3}, {7, 2}, {200, 3}} {
				var got []message.ID
				for before := client.Cursor(""); ; {
					page, err := c.Inbox(ctx, "ben", client.InboxOptions{Limit: test.limit, Before: before})
					require.NoError(t, err)
					require.EqualValues(t, messages, page.Total)
					require.True(t, page.Complete)
					require.LessOrEqual(t, page.BucketsRead, test.most)
					for _, m := range page.Messages {
						got = append(got, m.ID)
					}
					if before = page.Next; before == "" {
						break
					}
					require.Len(t, page.Messages, test.limit)
				}
				require.Equal(t, ids, got, "pages of %d", test.limit)
			}
			server.Stop(ctx)
		})
	}
}

// TestOneProcessOwnsTheFolder starts a second server on a folder that another server uses.
func TestOneProcessOwnsTheFolder(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t, time.Minute)
			w := newWorld(ctx, t, on, nil)
			server := w.start(ctx)
			settings := map[string]string{"data": w.site.Data}
			maps.Copy(settings, w.site.Settings)
			second := testenv.Exec(ctx, t, settings, w.programs.Fanmail, "serve", "--addr", "127.0.0.1:0")
			require.Equal(t, 1, second.Code(ctx))
			require.Contains(t, second.Stderr(), "in use by another process")
			require.Equal(t, 1, strings.Count(second.Stderr(), "\n"), "the error is one line")
			require.NoError(t, w.client().SetSeen(ctx, "ben", time.Now()), "the first server is none the worse")
			server.Stop(ctx)
		})
	}
}
