//go:build hosttools

package monitoring_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/services"
)

// promtool runs promtool, which has to have nothing to complain of.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	path, err := services.Promtool(t.Context())
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), path, args...)
	command.Stdin = strings.NewReader(stdin)
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	require.NoError(t, command.Run(), "promtool %s: %s", strings.Join(args, " "), &said)
	t.Logf("promtool %s\n%s", strings.Join(args, " "), strings.TrimSpace(said.String()))
}

func TestPromtool(t *testing.T) {
	t.Parallel()
	promtool(t, "", "check", "rules", "--lint=all", "--lint-fatal", rulesFile)
	promtool(t, "", "check", "config", "--lint=all", "--lint-fatal", configFile)
	promtool(t, "", "test", "rules", "testdata/rules_test.yaml", "testdata/days_test.yaml")
	promtool(t, scrape(t), "check", "metrics")
}

// Expressions are ones that Prometheus can read: it is asked as if they were rules.
func TestDashboardCanBeEvaluated(t *testing.T) {
	t.Parallel()
	type recording struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	queries := make(map[string]bool)
	for _, p := range dashboard(t) {
		for _, target := range p.Targets {
			queries[strings.ReplaceAll(target.Expr, "$__rate_interval", "1m")] = true
		}
	}
	var all []recording
	for _, query := range slices.Sorted(maps.Keys(queries)) {
		all = append(all, recording{Record: "dashboard:query", Expr: query})
	}
	file, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": all}}}) // which is YAML, too
	require.NoError(t, err)
	promtool(t, "", "check", "rules", "--lint=none", writeFile(t, "dashboard.yaml", file))
}
