package program_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// engines are modules that only the program fanmail contains, not the programs of single roles: the embedded store and the embedded
// NATS server.
var engines = []string{"github.com/cockroachdb/pebble", "github.com/nats-io/nats-server"}

// linked returns the engines that a program links.
func linked(t *testing.T, name string) (found []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/fanmail/fanmail/cmd/"+name).Output()
	require.NoError(t, err)
	for _, engine := range engines {
		if strings.Contains("\n"+string(out), "\n"+engine) {
			found = append(found, engine)
		}
	}
	return found
}

func TestRolesLinkNoEngines(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"publisher", "fanout-worker", "rehydrator"} {
		require.Empty(t, linked(t, role), role)
	}
	require.Equal(t, engines, linked(t, "fanmail"))
}
