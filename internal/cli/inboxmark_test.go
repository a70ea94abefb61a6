package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

// An operator marks messages by their ids, by a condition, and all of them.
func TestInboxMark(t *testing.T) {
	t.Parallel()
	url := serve(t)
	ask := func(args ...string) string { return fanmail(t, append(args, "--server", url)...) }
	require.NotEmpty(t, ask("login", "ben"))
	for _, from := range []string{"ann", "ann", "eve"} {
		ask("publish", "--from", from, "--to", "ben", "--body", "hi", "--wait")
	}
	page := fromJSON[client.InboxPage](t, ask("inbox", "ben", "--json"))
	require.Len(t, page.Messages, 3)
	id := page.Messages[0].ID.String()
	require.Equal(t, "ben: 1 message changed\n", ask("inbox", "mark", "ben", id, "--read"))
	require.Equal(t, "ben: 2 messages changed\n", ask("inbox", "mark", "ben", "--from", "ann", "--archive"))
	require.Contains(t, ask("inbox", "ben"), "ben: 1 message, 0 unread, 2 archived\n")
	require.Contains(t, ask("inbox", "ben", "--archived", "true"), "  ann  ")
	require.Equal(t, "ben: 2 messages changed\n", ask("inbox", "mark", "ben", "--all", "--unarchive"))
	require.Equal(t, "ben: 3 messages changed\n", ask("inbox", "mark", "ben", "--all", "--read", "--archive"))

	got := run{args: []string{"inbox", "mark", "ben", id, "019b7ca9-8c89-7000-8000-000000000001", "--unarchive", "--server", url}}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, got.code)
	require.Contains(t, got.stdout, "ben: 1 message changed\n")
	require.Contains(t, got.stderr, "not in the inbox, or not any more: 019b7ca9-8c89-7000-8000-000000000001")
	for _, bad := range [][]string{
		{},
		{"ben", "--read"},
		{"ben", "--all"},
		{"ben", "x", "--read"},
		{"ben", id, "--all", "--read"},
		{"ben", "--all", "--from", "ann", "--read"},
		{"ben", "--all", "--read", "--unread"},
		{"ben", "--all", "--archive", "--unarchive"},
	} {
		got := run{args: append([]string{"inbox", "mark", "--server", url}, bad...)}.do(t.Context(), t)
		require.Equal(t, program.ExitUsage, got.code, "%v", bad)
	}
}
