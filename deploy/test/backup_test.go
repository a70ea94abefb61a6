package deploy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A copy of the data folder of a server that has stopped is a backup: what is served from it is what was accepted, and every inbox is
// as it should be. The bus may be missing from it.
func TestBackupOfTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	fanmail, stop := serveFrom(t, data)
	follow(t, fanmail)
	for range 20 {
		fanmail("publish", "--from", "ann", "--followers", "--body", "good morning")
	}
	stop() // at once: some of it is still on its way

	for name, without := range map[string]string{"whole": "", "without the bus": "nats"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restored := filepath.Join(t.TempDir(), "restored")
			require.NoError(t, os.CopyFS(restored, os.DirFS(data)))
			if without != "" {
				require.NoError(t, os.RemoveAll(filepath.Join(restored, without)))
			}
			fanmail, _ := serveFrom(t, restored, "FANMAIL_FANOUT_RESUME_AFTER=1s", "FANMAIL_FANOUT_RESUME_EVERY=1s")
			fanmail("publish", "--from", "ann", "--followers", "--body", "good evening", "--wait")
			require.Eventually(t, func() bool { // what was on its way arrives
				return strings.Contains(fanmail("inbox", "ben", "--json"), `"total":21`)
			}, patience, tick)
			fanmail("audit")
		})
	}
}

func follow(t *testing.T, fanmail func(args ...string) string) {
	t.Helper()
	edges := filepath.Join(t.TempDir(), "follows.tsv")
	require.NoError(t, os.WriteFile(edges, []byte("ben\tann\ncleo\tann\n"), 0o600))
	fanmail("import", "follows", edges)
	fanmail("login", "ben")
	fanmail("login", "cleo")
}
