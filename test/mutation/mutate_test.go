//go:build mutate

package mutation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// patience bounds one run of a test. One that hangs under a mutation has not caught it.
	patience = 15 * time.Minute
	// randomness is what tests with random input are told: always the same seed, and no effort for a small example.
	randomness = "-rapid.nofailfile -rapid.seed=1 -rapid.checks=400 -rapid.shrinktime=1ms"
)

// overlay writes the mutated files, and returns the file that tells the go command of them.
func (m mutation) overlay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	abs, err := filepath.Abs(root)
	require.NoError(t, err)
	replace := make(map[string]string)
	for file, content := range m.mutated(t) {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		require.NoError(t, os.WriteFile(to, []byte(content), 0o600))
		replace[filepath.Join(abs, file)] = to
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	path := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// build compiles the tests of a package, and returns the program.
func build(t *testing.T, pkg, overlay string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "mutated.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay="+overlay, "-o", program, pkg)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "it does not compile:\n%s", out)
	return program
}

// run runs the tests of a package, and returns what they wrote and whether they failed.
func run(t *testing.T, program, pkg, pattern string) (out string, failed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	args := []string{"-test.failfast", "-test.v", "-test.run=" + pattern}
	if usesRapid(t, pkg) {
		args = append(args, strings.Fields(randomness)...)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = filepath.Join(root, pkg)
	written, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err(), "it hangs:\n%s", tail(string(written)))
	exit := new(exec.ExitError)
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return string(written), err != nil
}

// usesRapid reports whether the tests of a package know rapid's flags.
func usesRapid(t *testing.T, pkg string) bool {
	t.Helper()
	return slices.Contains([]string{suite, pebble, pipeline, "./pkg/userstate"}, pkg)
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// catcher returns the name of the innermost test that failed.
func catcher(out string) string {
	name := ""
	for _, match := range failedTest.FindAllStringSubmatch(out, -1) {
		if strings.Count(match[1], "/") >= strings.Count(name, "/") {
			name = match[1]
		}
	}
	return name
}

func TestMutationsAreCaught(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	caught := make(map[string]string)
	t.Cleanup(func() {
		var table strings.Builder
		for _, m := range mutations() {
			if by, ok := caught[m.name]; ok {
				fmt.Fprintf(&table, "%-58s %s\n", m.name, by)
			}
		}
		t.Logf("caught by:\n%s", table.String())
	})
	baseline := new(baselines)
	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			baseline.pass(t, m)
			out, failed := run(t, build(t, m.pkg, m.overlay(t)), m.pkg, m.run)
			require.True(t, failed, "nothing catches it (%s):\n%s", m.trap, tail(out))
			require.NotEmpty(t, catcher(out), "no test has failed, but the program has:\n%s", tail(out))
			mu.Lock()
			defer mu.Unlock()
			caught[m.name] = strings.TrimPrefix(m.pkg, "./") + " " + catcher(out)
		})
	}
}

// baselines are the tests that were found to pass without a mutation.
type baselines struct {
	mu   sync.Mutex
	done map[string]*sync.Once
}

// pass demands that the test which is to catch a mutation passes without it.
func (b *baselines) pass(t *testing.T, m mutation) {
	t.Helper()
	b.mu.Lock()
	if b.done == nil {
		b.done = make(map[string]*sync.Once)
	}
	key := m.pkg + " " + m.run
	if b.done[key] == nil {
		b.done[key] = new(sync.Once)
	}
	once := b.done[key]
	b.mu.Unlock()
	once.Do(func() {
		empty := filepath.Join(t.TempDir(), "overlay.json")
		require.NoError(t, os.WriteFile(empty, []byte("{}"), 0o600))
		out, failed := run(t, build(t, m.pkg, empty), m.pkg, m.run)
		require.False(t, failed, "it fails without a mutation:\n%s", tail(out))
		require.Contains(t, out, "--- PASS", "%s runs nothing", m.run)
		require.NotContains(t, out, "no tests to run", "%s runs a test, but none within it", m.run)
	})
}
