package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
)

func topicCommands(t *testing.T, url string) {
	t.Helper()
	ask := func(args ...string) string { return fanmail(t, append(args, "--server", url)...) }
	fail := func(code int, args ...string) string {
		got := run{args: append(args, "--server", url)}.do(t.Context(), t)
		require.Equal(t, code, got.code)
		return got.stderr
	}
	require.Contains(t, fail(program.ExitFailed, "topic", "create", "programming/go"), `there is no topic "programming"`)
	require.Empty(t, ask("topic", "create", "programming/go", "--parents"))
	require.Empty(t, ask("topic", "create", "programming/go"))
	require.Empty(t, ask("topic", "create", "news"))
	require.Equal(t, "TOPIC\nnews\nprogramming\nprogramming/go\n", ask("topic", "list"))
	require.Equal(t, []string{`{"topic":"programming"}`, `{"topic":"programming/go"}`}, strings.Fields(ask("topic", "list", "programming", "--json")))
	require.Empty(t, ask("subscribe", "ben", "programming/go"))
	require.Equal(t, "TOPIC\nprogramming/go\n", ask("topic", "list", "--user", "ben"))
	require.Contains(t, fail(program.ExitFailed, "subscribe", "ben", "none"), "there is no such topic")
	require.Contains(t, fail(program.ExitFailed, "topic", "delete", "programming"), "there are topics below programming")
	require.Contains(t, fail(program.ExitFailed, "topic", "delete", "programming/go"), "users are subscribed")
	published := ask("publish", "--from", "ann", "--topic", "programming/go", "--topic", "news", "--body", "Go is out", "--wait")
	require.Contains(t, published, "1 recipient")
	require.Contains(t, fail(program.ExitFailed, "publish", "--from", "ann", "--topic", "none", "--body", "x"), `topics[0] is "none", and there is no such topic`)
	require.Empty(t, ask("unsubscribe", "ben", "programming/go"))
	require.Empty(t, ask("unsubscribe", "ben", "none"))
	require.Empty(t, ask("topic", "delete", "programming/go"))
	require.Equal(t, "TOPIC\nnews\nprogramming\n", ask("topic", "list"))
	for _, bad := range [][]string{
		{"topic"},
		{"topic", "create", "a//b"},
		{"topic", "list", "a", "b"},
		{"topic", "list", "a", "--user", "ben"},
		{"topic", "list", "--user", ""},
		{"subscribe", "", "a"},
		{"subscribe", "ben"},
		{"unsubscribe", "ben", "."},
	} {
		require.NotEmpty(t, fail(program.ExitUsage, bad...), "%v", bad)
	}
}

func TestImportTopicsAndSubscriptions(t *testing.T) {
	t.Parallel()
	url := serve(t)
	var lines strings.Builder
	lines.WriteString("{\"topic\":\"all\"}\n")
	for n := range 250 {
		fmt.Fprintf(&lines, "{\"topic\":\"all/%03d\"}\n", n)
	}
	topics := file(t, "topics", lines.String()+`{"topic":"none/x"}`)
	args := []string{"import", "topics", topics, "--server", url}
	got := run{args: args}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, got.code)
	require.Contains(t, got.stdout, "imported 251 topics")
	require.Contains(t, got.stderr, topics+`:252: topic is "none/x", and there is no topic "none"`)
	require.Len(t, strings.Fields(fanmail(t, "topic", "list", "--server", url)), 252, "a header, and several pages")
	require.Equal(t, 251, fromJSON[importResult](t, fanmail(t, append(args, "--skip-bad", "--json")...)).Imported)

	path := file(t, "subscriptions", `{"user":"ben","topic":"all"}`+"\n"+`{"user":"ben","topic":"none"}`+"\n"+`{"user":"ann","topic":"all/007"}`)
	got = run{args: []string{"import", "subscriptions", path, "--server", url}}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, got.code)
	require.Contains(t, got.stdout, "imported 2 subscriptions")
	require.Contains(t, got.stderr, path+":2: ")
	require.Equal(t, "TOPIC\nall\n", fanmail(t, "topic", "list", "--user", "ben", "--server", url))
}
