//go:build long

package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestStoredButNotEmitted kills the server between storing a message and emitting its event. No client publishes the message again.
// The next server must find it by itself.
func TestStoredButNotEmitted(t *testing.T) {
	t.Parallel()
	for _, on := range everyStore() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t, 2*time.Minute)
			w := newWorld(ctx, t, on, impatient(nil))
			faulty := w.site.StartProgram(ctx, t, w.programs.Faulty, "-at", "emit-published", "-when", "before")
			c := w.client()
			require.NoError(t, c.SetSeen(ctx, "ben", time.Now()))
			_, err := c.Publish(ctx, message.Draft{From: "ann", To: []message.UserID{"ben"}, Body: "hello"}, "")
			require.Error(t, err, "the server has died before it could answer")
			require.True(t, faulty.Killed())

			server := w.start(ctx)
			var page client.InboxPage
			testenv.Eventually(ctx, t, "the message arrives", func() bool {
				page, err = c.Inbox(ctx, "ben", client.InboxOptions{})
				require.NoError(t, err)
				return page.Total > 0
			})
			require.Len(t, page.Messages, 1)
			require.Equal(t, "hello", page.Messages[0].Body)
			status, err := c.WaitDone(ctx, page.Messages[0].ID, 0)
			require.NoError(t, err)
			require.Equal(t, client.Fanout{State: client.StateDone, Recipients: 1, Delivered: 1}, status.Fanout)
			server.Stop(ctx)
		})
	}
}
