package cli_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

func userCommands(t *testing.T, url string) {
	t.Helper()
	ask := func(args ...string) string { return fanmail(t, append(args, "--server", url)...) }
	fail := func(args ...string) string {
		got := run{args: append(args, "--server", url)}.do(t.Context(), t)
		require.Equal(t, program.ExitFailed, got.code)
		return got.stderr
	}
	require.Contains(t, fail("user", "get", "kim"), "this user was never seen")
	require.Empty(t, ask("user", "set", "kim", "--last-viewed", "2026-01-02T15:04:05Z"))
	require.Contains(t, fail("user", "set", "kim", "--last-viewed", "2026-01-02T15:04:04Z"), "give that time or a later one")
	require.Regexp(t, `^user         kim\nstate        \w+\nlast viewed  2026-01-02 15:04:05\nmessages     0\n$`, ask("user", "get", "kim"))
	require.Equal(t, 2026, fromJSON[client.User](t, ask("user", "get", "kim", "--json")).LastViewed.Year())

	require.Equal(t, "kim keeps what the deployment keeps\n", ask("user", "retention", "kim"))
	require.Equal(t, "user     kim\nmax age  960h\nnewest   as many as the deployment keeps\n", ask("user", "retention", "kim", "--max-age", "40d"))
	require.Equal(t, "user     kim\nmax age  that of the deployment\nnewest   1,000\n", ask("user", "retention", "kim", "--newest", "1000"))
	require.JSONEq(t, `{"newest":1000}`, ask("user", "retention", "kim", "--json"))
	require.JSONEq(t, `{}`, ask("user", "retention", "kim", "--default", "--json"))

	require.NotEmpty(t, ask("login", "kim"))
	require.Empty(t, ask("follow", "kim", "lea", "mia", "noa"))
	require.Empty(t, ask("follow", "kim", "lea"))
	require.Empty(t, ask("unfollow", "kim", "mia", "noa"))
	for author, recipients := range map[string]string{"lea": "1 recipient", "mia": "0 recipients"} {
		require.Contains(t, ask("publish", "--from", author, "--followers", "--body", "x", "--wait"), recipients)
	}
}

func TestVersionCommand(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^fanmail  \S+\ngo       go\S+\ncommit   `, fanmail(t, "version"))
	got := fromJSON[struct{ Version, Go, Commit string }](t, fanmail(t, "version", "--json"))
	require.Equal(t, runtime.Version(), got.Go)
	require.NotEmpty(t, got.Version)
}
