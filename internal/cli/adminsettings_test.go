package cli_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

// TestAdminSettings shows and changes settings on a real server.
func TestAdminSettings(t *testing.T) {
	t.Parallel()
	server := []string{"--server", serve(t)}
	ask := func(args ...string) string { return fanmail(t, append(args, server...)...) }
	fail := func(args ...string) result { return run{args: append(args, server...)}.do(t.Context(), t) }
	require.Regexp(t, `(?m)^KEY +RECORDED +SINCE +CONFIGURED\n(.*\n)*dormant_after +720h +\S+ \S+$`, ask("admin", "settings"))
	list := fromJSON[client.SettingList](t, ask("admin", "settings", "--json")).Settings
	require.Len(t, list, 7)
	require.Equal(t, "retention.canonical", list[4].Key)
	require.Equal(t, "720h", list[4].Recorded)

	ask("import", "users", file(t, "users", `{"user":"ben","last_viewed":"`+time.Now().AddDate(0, 0, -40).UTC().Format(time.RFC3339)+`"}`+"\n"))
	require.Equal(t, "dormant_after would become 60d\n", ask("admin", "settings", "dormant_after", "60d", "--dry-run"))
	require.Equal(t, "dormant_after is 50d now\n", ask("admin", "settings", "dormant_after", "50d"))
	require.Equal(t, "dormant_after is 60d now\n", ask("admin", "settings", "dormant_after", "60d", "--yes"))
	require.Equal(t, "dormant_after is 60d already\n", ask("admin", "settings", "dormant_after", "60d"))
	require.Regexp(t, `(?m)^dormant_after +1440h +\S+ \S+  720h$`, ask("admin", "settings"))
	require.Contains(t, fail("admin", "settings", "dormant_after", "soon").stderr, "is not a duration such as")
	require.Contains(t, fail("admin", "settings", "addr", "x").stderr, "addr is no recorded setting: those are dormant_after")
	require.Equal(t, program.ExitUsage, fail("admin", "settings", "dormant_after").code)
	require.Equal(t, "publish_slack would become 3m\n", ask("admin", "settings", "publish_slack", "3m", "--dry-run"))
	require.Equal(t, "publish_slack is 3m now\n", ask("admin", "settings", "publish_slack", "3m"))
	require.Regexp(t, `(?m)^publish_slack +3m +\S+ \S+  2m$`, ask("admin", "settings"))
	require.Contains(t, fail("admin", "settings", "retention.max_age", "3m").stderr,
		"retention.max_age is 3m: it must be 0, or at least publish_slack and clock_tolerance together, which are 5m")

	require.Regexp(t, `^NAME +STATE +VERSION +ADDRESS +STARTED +SEEN +ROLES\n`+
		`\S+-\w{8} +running +\S+ +127\.0\.0\.1:\d+ +\S+ \S+ +\S+ \S+ +publisher\+fanout-worker\+rehydrator\n$`, ask("admin", "processes"))
}
