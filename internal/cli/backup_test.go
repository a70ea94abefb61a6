package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

// TestBackup saves a running server while messages are published and delivered, and restores it to another folder. What was answered
// before is there, and the audit finds every inbox right.
func TestBackup(t *testing.T) {
	t.Parallel()
	backups := t.TempDir()
	server := []string{"--server", serveAs(t, nil, func(c *config.Config) { c.Backup.Dir = backups })}
	ask := func(args ...string) string { return fanmail(t, append(args, server...)...) }
	fail := func(args ...string) result { return run{args: append(args, server...)}.do(t.Context(), t) }
	ask("import", "follows", file(t, "follows", "ben\tann\ncleo\tann\n"))
	ask("login", "ben")
	ask("login", "cleo")
	const before = 20
	for range before {
		ask("publish", "--from", "ann", "--followers", "--body", "good morning")
	}
	dir, data := filepath.Join(backups, "backup"), filepath.Join(t.TempDir(), "data")
	require.Regexp(t, `^the backup in \S+ is complete; the slowest write meanwhile took \S+s\n$`, ask("backup", dir))
	ask("publish", "--from", "ann", "--followers", "--body", "too late", "--wait")
	made := fromJSON[client.Backup](t, ask("backup", filepath.Join(backups, "second"), "--json"))
	pause, err := time.ParseDuration(made.LongestPause)
	require.NoError(t, err)
	require.Positive(t, pause)

	require.Contains(t, fail("backup", dir).stderr, "is not empty on the server")
	require.Contains(t, fail("backup", t.TempDir()).stderr, "is not below backup.dir, which is "+backups)
	require.Equal(t, program.ExitUsage, fail("backup", "backup").code)
	require.Equal(t, program.ExitUsage, fail("backup").code)

	restore := func(args ...string) result { return run{args: append([]string{"restore"}, args...)}.do(t.Context(), t) }
	require.Equal(t, program.ExitUsage, restore(dir).code)
	require.Contains(t, restore(t.TempDir(), "--data", data).stderr, "is not a complete backup")
	require.NoDirExists(t, data)
	require.Contains(t, restore(dir, "--data", dir).stderr, "is not empty")
	require.Contains(t, restore(dir, "--data", data).stdout, "fanmail serve --data "+data)
	bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stranded := run{args: []string{"serve", "--addr", "127.0.0.1:0", "--data", data, "--nats-url", "nats://127.0.0.1:1"}}.do(bounded, t)
	require.Equal(t, program.ExitFailed, stranded.code)
	require.Contains(t, stranded.stderr, "with nats.url no server reads the logins and dead letters in "+filepath.Join(data, "nats"))
	require.Contains(t, restore(dir, "--data", data).stderr, "is not empty")

	server = []string{"--server", serveAs(t, nil, func(c *config.Config) {
		c.Data, c.Fanout.ResumeAfter, c.Fanout.ResumeEvery = data, time.Second, 100*time.Millisecond
	})}
	require.Eventually(t, func() bool { // what was on its way arrives
		var page struct{ Total int }
		require.NoError(t, json.Unmarshal([]byte(ask("inbox", "ben", "--json")), &page))
		return page.Total == before
	}, time.Minute, 10*time.Millisecond)
	ask("audit")
	_, err = os.Stat(filepath.Join(dir, "backup.json"))
	require.NoError(t, err, "the backup stays")
}
