package services_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// docker stands in for the program where there is none: it writes down what is asked of it, and every server is ready at once.
const docker = `#!/bin/sh
echo "$*" >> "$DOCKER_LOG"
case $1 in
	exec) echo true ;;
esac
`

// The script of the containers starts what the topology needs, hands the command a URI, keeps its exit code, and removes what it
// started.
func TestContainers(t *testing.T) {
	t.Parallel()
	for topology, want := range map[string]struct {
		hosts    []string
		servers  int
		replicas string
	}{
		"replica-set": {[]string{"127.0.0.1:27101", "127.0.0.1:27102", "127.0.0.1:27103"}, 3, "fanmail"},
		"sharded":     {[]string{"127.0.0.1:27100"}, 4, ""},
	} {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			log := filepath.Join(folder, "log")
			require.NoError(t, os.WriteFile(filepath.Join(folder, "docker"), []byte(docker), 0o755))
			cmd := exec.CommandContext(t.Context(), "containers/run", topology, "sh", "-c", `echo "$FANMAIL_TEST_MONGODB_URI"; exit 7`)
			cmd.Env = append(os.Environ(), "PATH="+folder+string(filepath.ListSeparator)+os.Getenv("PATH"), "DOCKER_LOG="+log)
			out, err := cmd.Output()
			failed := new(exec.ExitError)
			require.ErrorAs(t, err, &failed)
			require.Equal(t, 7, failed.ExitCode(), string(failed.Stderr))
			uri := options.Client().ApplyURI(strings.TrimSpace(string(out)))
			require.NoError(t, uri.Validate())
			require.Equal(t, want.hosts, uri.Hosts)
			if want.replicas != "" {
				require.Equal(t, want.replicas, *uri.ReplicaSet)
			}

			text, err := os.ReadFile(log)
			require.NoError(t, err)
			var started, removed []string
			for line := range strings.Lines(string(text)) {
				words := strings.Fields(line)
				switch words[0] {
				case "run":
					require.Equal(t, "--name", words[2])
					started = append(started, words[3])
				case "rm":
					removed = words[3:]
				}
			}
			require.Len(t, started, want.servers)
			require.Equal(t, started, removed)
		})
	}
}

func TestContainersRefuse(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"sharded"}, {"standalone", "true"}} {
		out, err := exec.CommandContext(t.Context(), "containers/run", args...).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "replica-set")
	}
}
