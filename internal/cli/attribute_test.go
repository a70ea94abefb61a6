package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/client"
)

func attributeCommands(t *testing.T, url string) {
	t.Helper()
	ask := func(args ...string) string { return fanmail(t, append(args, "--server", url)...) }
	fail := func(code int, args ...string) string {
		got := run{args: append(args, "--server", url)}.do(t.Context(), t)
		require.Equal(t, code, got.code)
		return got.stderr
	}
	require.Empty(t, ask("attribute", "declare", "total", "number"))
	require.Empty(t, ask("attribute", "declare", "total", "number"))
	require.Empty(t, ask("attribute", "declare", "due", "time"))
	require.Contains(t, fail(program.ExitFailed, "attribute", "declare", "total", "string"), "the attribute total is declared as number: delete it first")
	require.Equal(t, "NAME   TYPE\ndue    time\ntotal  number\n", ask("attribute", "list"))
	require.Equal(t, []client.Attribute{{Name: "due", Type: attribute.Time}, {Name: "total", Type: attribute.Number}},
		fromJSON[client.AttributeList](t, ask("attribute", "list", "--json")).Attributes)
	require.Contains(t, fail(program.ExitFailed, "publish", "--from", "ann", "--to", "ben", "--attrs", `{"total":"many"}`),
		"attrs.total is declared as number, and is not a number")
	require.NotEmpty(t, ask("publish", "--from", "ann", "--to", "ben", "--attrs", `{"total":64.5}`))
	require.Contains(t, fail(program.ExitFailed, "inbox", "ben", "--count-by", "attr:totl"), "do you mean total?")
	require.Contains(t, fail(program.ExitFailed, "inbox", "zoe", "--count-by", "from"), "this user was never seen")
	require.Empty(t, ask("attribute", "delete", "total"))
	require.Empty(t, ask("attribute", "delete", "total"))
	require.NotEmpty(t, ask("publish", "--from", "ann", "--to", "ben", "--attrs", `{"total":"many"}`))
	require.Equal(t, "NAME  TYPE\ndue   time\n", ask("attribute", "list"))
	for _, bad := range [][]string{
		{"attribute"},
		{"attribute", "add"},
		{"attribute", "declare", "total"},
		{"attribute", "declare", "to tal", "number"},
		{"attribute", "declare", "total", "float"},
		{"attribute", "delete", ""},
		{"attribute", "list", "total"},
	} {
		require.NotEmpty(t, fail(program.ExitUsage, bad...), "%v", bad)
	}
}
