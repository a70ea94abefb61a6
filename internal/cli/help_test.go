package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"", "serve", "demo", "config", "import", "import follows", "import users", "import identities", "import topics", "import subscriptions", "publish", "login", "identity", "identity set", "identity get", "identity delete", "identity list", "topic", "topic create", "topic list", "topic delete", "subscribe", "unsubscribe", "inbox", "status", "explain", "audit", "bench", "bench fanout", "bench burst", "bench mixed", "bench publish", "bench read", "bench rehydrate", "bench expire", "bench identities", "bench find",
		"dlq", "dlq list", "dlq show", "dlq redrive", "dlq drop",
		"admin", "admin init", "admin settings", "admin processes", "admin upgrade",
	} {
		name := strings.TrimSpace("fanmail " + command)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := fanmail(t, append(strings.Fields(command), "--help")...)
			golden := filepath.Join("testdata", "help", strings.ReplaceAll(name, " ", "-")+".golden")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got, "if this is intended: go test ./internal/cli -run TestHelp -update")
			require.Equal(t, got, fanmail(t, append([]string{"help"}, strings.Fields(command)...)...))
		})
	}
}

func TestNoCommandPrintsHelp(t *testing.T) {
	t.Parallel()
	require.Equal(t, fanmail(t, "--help"), fanmail(t))
}

func TestVersion(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^fanmail \S+\n$`, fanmail(t, "--version"))
}
