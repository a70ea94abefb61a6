package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

// An operator looks at what is stored.
func TestStoredInbox(t *testing.T) {
	t.Parallel()
	url := serve(t)
	ask := func(args ...string) string { return fanmail(t, append(args, "--server", url)...) }
	ask("login", "ben")
	require.Regexp(t, `^ben: horizon .{19}, 0 slots seen\n$`, ask("inbox", "ben", "--stored"))
	for range 2 {
		ask("publish", "--from", "ann", "--to", "ben", "--body", "x", "--wait")
	}
	ask("inbox", "mark", "ben", "--all", "--archive")
	page := fromJSON[client.InboxPage](t, ask("inbox", "ben", "--archived", "true", "--json"))
	ask("inbox", "purge", "ben", "--until", page.Messages[1].Sent.Format(client.TimeLayout))
	stored := ask("inbox", "ben", "--stored")
	require.Regexp(t, `\nexpired up to \S{36}\nBUCKET  SLOTS  FIRST {33}LAST {34}TOMBSTONES  EXPIRED  FLAGS\n0 {7}2 {6}\S{36}  \S{36}  0 {11}\d {8}2\n$`, stored)
	require.Contains(t, stored, page.Messages[0].ID.String())
	got := fromJSON[client.StoredInbox](t, ask("inbox", "ben", "--stored", "--json"))
	require.Equal(t, 2, got.Buckets[0].Slots)
	require.Empty(t, got.Next)
	below := fromJSON[client.StoredInbox](t, ask("inbox", "ben", "--stored", "--before", "1", "--json"))
	require.Equal(t, got.Buckets, below.Buckets)
	failed := run{args: []string{"inbox", "ben", "--stored", "--before", "x", "--server", url}}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, failed.code)
	require.Contains(t, failed.stderr, "before is not the sequence of a bucket")
}
