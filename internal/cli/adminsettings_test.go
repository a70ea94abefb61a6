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
	require.Regexp(t, `(?m)^dormant_after        720h           configured 720h       since \S+ \S+$`, ask("admin", "settings"))
	list := fromJSON[client.SettingList](t, ask("admin", "settings", "--json")).Settings
	require.Len(t, list, 9)
	require.Equal(t, "inbox.entry_bytes", list[4].Key)
	require.Equal(t, "81KiB", list[4].Recorded)

	ask("import", "users", file(t, "users", `{"user":"ben","last_viewed":"`+time.Now().AddDate(0, 0, -40).UTC().Format(time.RFC3339)+`"}`+"\n"))
	require.Equal(t, "dormant_after would become 60d: 0 users would change between active and dormant\n", ask("admin", "settings", "dormant_after", "60d", "--dry-run"))
	require.Equal(t, "dormant_after is 50d now: 0 users changed between active and dormant\n", ask("admin", "settings", "dormant_after", "50d"))
	require.Equal(t, "dormant_after is 60d now: 0 users changed between active and dormant\n", ask("admin", "settings", "dormant_after", "60d", "--yes"))
	require.Equal(t, "dormant_after is 60d already\n", ask("admin", "settings", "dormant_after", "60d"))
	require.Contains(t, ask("admin", "settings"), "dormant_after        1440h          configured 720h ")
	require.Contains(t, fail("admin", "settings", "dormant_after", "soon").stderr, "is not a duration such as")
	require.Contains(t, fail("admin", "settings", "addr", "x").stderr, "addr is no recorded setting: those are dormant_after")
	require.Equal(t, program.ExitUsage, fail("admin", "settings", "dormant_after").code)
	require.Equal(t, "inbox.bucket_size would become 20\n", ask("admin", "settings", "inbox.bucket_size", "20", "--dry-run"))
	require.Equal(t, "inbox.bucket_size is 20 now\n", ask("admin", "settings", "inbox.bucket_size", "20"))
	require.Contains(t, ask("admin", "settings"), "inbox.bucket_size    20             configured 50 ")
	require.Contains(t, fail("admin", "settings", "retention.max_age", "3m").stderr,
		"retention.max_age is 3m: it must be 0, or at least publish_slack and clock_tolerance together, which are 4m")
	require.Contains(t, fail("admin", "settings", "inbox.bucket_size", "256").stderr, "inbox.bucket_size is 256: it must be from 1 to 255")

	require.Regexp(t, `^\S+-\w{8}  publisher\+fanout-worker\+rehydrator  seen \S+ \S+\n$`, ask("admin", "processes"))
}
