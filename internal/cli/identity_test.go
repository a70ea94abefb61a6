package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

func identityCommands(t *testing.T, url string) {
	t.Helper()
	ask := func(args ...string) string { return fanmail(t, append(args, "--server", url)...) }
	fail := func(args ...string) string {
		got := run{args: append(args, "--server", url)}.do(t.Context(), t)
		require.Equal(t, program.ExitFailed, got.code)
		requireOneLine(t, got.stderr)
		return got.stderr
	}
	require.Empty(t, ask("identity", "set", "email:Joe@example.com", "joe"))
	require.Empty(t, ask("identity", "set", "url:https://example.com/joe", "joe"))
	require.Equal(t, "joe\n", ask("identity", "get", "email:joe@EXAMPLE.com"))
	require.JSONEq(t, `{"user":"joe"}`, ask("identity", "get", "email:joe@example.com", "--json"))
	require.Equal(t, "IDENTITY\nemail:joe@example.com\nurl:https://example.com/joe\n", ask("identity", "list", "joe"))
	require.Len(t, fromJSON[client.Identities](t, ask("identity", "list", "joe", "--json")).Identities, 2)
	require.Empty(t, ask("identity", "list", "ben"))
	require.Contains(t, fail("identity", "set", "email:joe@example.com", "ben"), "another user has this identity")
	require.Contains(t, fail("identity", "set", "fax:1", "ben"), "kind is unknown")

	require.NotEmpty(t, ask("publish", "--from", "ann", "--to-identity", "email:joe@example.com", "--body", "x"))
	require.Contains(t, fail("publish", "--from", "ann", "--to", "ben", "--to-identity", "email:ann@example.com", "--body", "x"), "to[1] is an identity of the kind email that no user has")

	require.Empty(t, ask("identity", "delete", "email:joe@example.com", "--user", "ben"))
	require.Equal(t, "joe\n", ask("identity", "get", "email:joe@example.com"))
	require.Empty(t, ask("identity", "delete", "email:joe@example.com"))
	require.Contains(t, fail("identity", "get", "email:joe@example.com"), "no user has this identity")
}

// Of two lines with the same identity the first counts, also across requests.
func TestImportIdentities(t *testing.T) {
	t.Parallel()
	url := serve(t)
	path := file(t, "in", "# names\n"+`{"kind":"email","value":"joe@example.com","user":"joe"}`+"\n"+
		`{"kind":"email","value":"JOE@example.com","user":"ben"}`+"\n"+`{"kind":"fax","value":"1","user":"ben"}`+"\n"+`{"kind":"handle","value":"@ben","user":"ben"}`)
	args := []string{"import", "identities", path, "--server", url}
	got := run{args: args}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, got.code)
	require.Contains(t, got.stdout, "imported 2 identities")
	require.Contains(t, got.stderr, path+":3: another user has this identity")
	require.Contains(t, got.stderr, path+":4: kind is unknown")
	require.NotContains(t, got.stderr, "joe@")
	got = run{args: append(args, "--skip-bad", "--json")}.do(t.Context(), t)
	require.Equal(t, program.ExitDone, got.code, got.stderr)
	require.Equal(t, 2, fromJSON[importResult](t, got.stdout).Imported)
	require.Equal(t, "joe\n", fanmail(t, "identity", "get", "email:joe@example.com", "--server", url))
}
