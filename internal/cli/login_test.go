package cli_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
)

const benLongAgo = `{"user":"ben","last_viewed":"2020-01-02T03:04:05Z"}`

func TestLogin(t *testing.T) {
	t.Parallel()
	url := serve(t)
	fanmail(t, "import", "users", file(t, "users", benLongAgo), "--server", url)
	for _, to := range []string{"ben,cleo", "ben"} {
		fanmail(t, "publish", "--from", "ann", "--to", to, "--body", "x", "--wait", "--server", url)
	}
	for _, step := range []struct{ user, want string }{
		{"ben", "ben was dormant: 2 messages recovered\n"},
		{"ben", "ben is active\n"},
		{"cleo", "cleo is new: 1 message recovered\n"},
	} {
		require.Equal(t, step.want, fanmail(t, "login", step.user, "--server", url))
	}
	require.Equal(t, client.Login{User: "dan", State: client.Active, Was: client.WasNew},
		fromJSON[client.Login](t, fanmail(t, "login", "dan", "--wait", "60s", "--json", "--server", url)))
	require.Contains(t, fanmail(t, "inbox", "ben", "--server", url), "ben: 2 messages, 2 unread\n")
}

// heldInbox is a bucket store that blocks every write until the test releases it.
type heldInbox struct {
	bucket.Store
	write <-chan struct{}
}

func (h heldInbox) Push(ctx context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	select {
	case <-h.write:
		return h.Store.Push(ctx, pushes)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestLoginThatTakesLonger(t *testing.T) {
	t.Parallel()
	write := make(chan struct{})
	url := serveWith(t, func(p app.Parts) app.Parts {
		p.Inbox = heldInbox{p.Inbox, write}
		return p
	})
	release := sync.OnceFunc(func() { close(write) })
	t.Cleanup(release)
	fanmail(t, "import", "users", file(t, "users", benLongAgo), "--server", url)
	fanmail(t, "publish", "--from", "ann", "--to", "ben", "--body", "x", "--wait", "--server", url)

	for range 2 { // looking starts no rebuild
		require.Contains(t, fanmail(t, "inbox", "ben", "--server", url), "dormant or still loading")
	}
	args := []string{"login", "ben", "--wait", "1ms", "--server", url}
	const loading = "fanmail: ben was dormant, and the inbox is still loading: " +
		"repeat the command to wait for it, or read what is there with 'fanmail inbox ben'\n"
	got := run{args: args}.do(t.Context(), t)
	require.Equal(t, result{code: program.ExitFailed, stderr: loading}, got)
	got = run{args: append(args, "--json")}.do(t.Context(), t)
	require.Equal(t, result{
		code: program.ExitFailed, stdout: `{"user":"ben","state":"rehydrating","was":"dormant"}` + "\n", stderr: loading,
	}, got)
	require.Regexp(t, `^ben: 1 message, 1 unread, dormant or still loading\n.{19}  ann  x\n$`, fanmail(t, "inbox", "ben", "--server", url))
	require.False(t, fromJSON[client.InboxPage](t, fanmail(t, "inbox", "ben", "--json", "--server", url)).Complete)

	release()
	fanmail(t, "login", "ben", "--wait", "60s", "--server", url)
	require.Regexp(t, `^ben: 1 message, 1 unread\n.{19}  ann  x\n$`, fanmail(t, "inbox", "ben", "--server", url))
}
