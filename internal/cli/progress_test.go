package cli_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
)

func progressOnTerminal(t *testing.T, url string) {
	t.Helper()
	path := file(t, "edges", "ben\tann\n")
	got := run{args: []string{"import", "follows", path, "--server", url}, width: 80}.do(t.Context(), t)
	require.Equal(t, program.ExitDone, got.code, got.stderr)
	require.Contains(t, got.stderr, "\r\x1b[Kimporting edges: 0 of 1 (0%)\r\x1b[K")
	require.Contains(t, got.stdout, "imported 1 edge in ")
}

func progressWithoutTerminal(t *testing.T, url string) {
	t.Helper()
	var edges strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&edges, "fan-%d\tann\n", i)
	}
	args := []string{"import", "follows", file(t, "edges", edges.String()), "--server", url}
	// Between two readings of the clock, more than plainEvery passes.
	var looks atomic.Int64
	begun := time.Now()
	now := func() time.Time { return begun.Add(time.Duration(looks.Add(1)) * time.Minute) }
	got := run{args: args, now: now}.do(t.Context(), t)
	require.Equal(t, program.ExitDone, got.code, got.stderr)
	lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
	require.Len(t, lines, 3, "one for each request")
	for _, line := range lines {
		require.Regexp(t, `^importing edges: [0-9],000 of 5,000 \([0-9]+%\)$`, line)
	}
	require.Equal(t, "importing edges: 5,000 of 5,000 (100%)", lines[2])
	require.Regexp(t, `^imported 5,000 edges in `, got.stdout)
}
