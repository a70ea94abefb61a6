//go:build mongodb

package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestBenchRehydrate counts the commands of returns through authors and through topics.
func TestBenchRehydrate(t *testing.T) {
	t.Parallel()
	uri, database := testenv.MongoDB(t)
	command := append(strings.Fields("bench rehydrate --users 2 --authors 3 --topics 3 --missed 60 --json --store mongodb --mongodb-timeout 30s"),
		"--mongodb-uri", uri, "--mongodb-database", database[:min(len(database), 20)])
	report := fromJSON[bench.Report](t, fanmail(t, append(command, small...)...))
	require.Len(t, report.Rows, 2)
	for _, row := range report.Rows {
		commands := row.Figures[len(row.Figures)-1]
		require.Equal(t, "commands", commands.Name, row.Case)
		require.Greater(t, commands.Value, 1., row.Case)
	}
}
