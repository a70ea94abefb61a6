//go:build mongodb

package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestBenchIdentities compares two layouts of identities. Only a sharded cluster says how many shards a lookup asks.
func TestBenchIdentities(t *testing.T) {
	t.Parallel()
	uri, database := testenv.MongoDB(t)
	command := append(strings.Fields("bench identities --users 300 --lookups 10 --together 200 --json --store mongodb --mongodb-timeout 30s"),
		"--mongodb-uri", uri, "--mongodb-database", database[:min(len(database), 20)])
	report := fromJSON[bench.Report](t, fanmail(t, append(command, small...)...))
	require.Len(t, report.Rows, 2)
	for _, row := range report.Rows {
		require.GreaterOrEqual(t, len(row.Figures), 5, row.Case)
		for _, f := range row.Figures {
			require.Positive(t, f.Value, f.Name)
		}
	}
}
