//go:build mongodb

package cli_test

import (
	"math"
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

// TestBenchCounts counts the commands that count many inboxes, and those of a page.
func TestBenchCounts(t *testing.T) {
	t.Parallel()
	uri, database := testenv.MongoDB(t)
	command := append(strings.Fields("bench counts --users 30 --messages 120 --requests 3 --dormant 1200 --json --store mongodb --mongodb-timeout 30s"),
		"--mongodb-uri", uri, "--mongodb-database", database[:min(len(database), 20)])
	report := fromJSON[bench.Report](t, fanmail(t, append(command, small...)...))
	require.Len(t, report.Rows, 6)
	require.Equal(t, bench.Figure{Name: "skipped by the next message", Value: 1200}, report.Rows[0].Figures[3])
	for _, row := range report.Rows {
		commands := row.Figures[len(row.Figures)-1]
		require.Equal(t, "commands", commands.Name, row.Case)
		require.GreaterOrEqual(t, commands.Value, 2., row.Case)
	}
}

// TestBenchFindOnMongoDB finds as many messages as match, and lists every index of the inboxes and of the other layout.
func TestBenchFindOnMongoDB(t *testing.T) {
	t.Parallel()
	uri, database := testenv.MongoDB(t)
	report := benchFind(t, append([]string{
		"--late", "--store", "mongodb", "--mongodb-timeout", "30s", "--mongodb-uri", uri, "--mongodb-database", database[:min(len(database), 20)],
	}, small...)...)
	require.Contains(t, fact(report, "durability"), "majority")
	require.NotEqual(t, "none", fact(report, "server"))
	for name, indexes := range map[string][]string{
		"stored":                          {"index _id_", "index owner_sequence"},
		"stored, a record for each entry": {"index _id_", "index owner_kind_id", "index owner_serial_id"},
	} {
		sizes := figures(report, name)
		var sum float64
		for figure, size := range sizes {
			if strings.HasPrefix(figure, "index ") {
				sum += size
			}
		}
		require.InEpsilon(t, sizes["all indexes"], sum, 1e-9, name)
		require.Positive(t, sizes["on disk"], name)
		for _, index := range indexes {
			require.Positive(t, sizes[index], "%s: %s", name, index)
		}
	}
}

// TestBenchLayoutsOnMongoDB compares the layouts of MongoDB, and lists the indexes of each.
func TestBenchLayoutsOnMongoDB(t *testing.T) {
	t.Parallel()
	uri, database := testenv.MongoDB(t)
	layouts := []string{"on-read", "on-write", "counter", "open-bucket", "newest-n", "dated", "buckets"}
	report := benchLayouts(t, layouts, "--store", "mongodb", "--mongodb-timeout", "30s", "--mongodb-uri", uri, "--mongodb-database", database[:min(len(database), 20)])
	require.Contains(t, fact(report, "durability"), "majority")
	require.InDelta(t, 1, figures(report, "on-read send")["documents"], 0)
	require.InDelta(t, 24, figures(report, "counter send")["documents"], 0, "a counter and a push for each recipient")
	require.Contains(t, names(report)["dated size"], "index inbox.expires_1")
	require.True(t, math.IsNaN(figures(report, "buckets read 50")["cold p50"]), "the server is not restarted")
	require.Equal(t, strings.HasPrefix(fact(report, "server"), "MongoDB "), fact(report, "valid for") == "")
}
