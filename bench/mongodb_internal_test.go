//go:build mongodb

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// onMongoDB returns the flags of a benchmark on MongoDB.
func onMongoDB(t *testing.T) []string {
	t.Helper()
	uri, database := testenv.MongoDB(t)
	return []string{"--store", "mongodb", "--mongodb-timeout", "30s", "--mongodb-uri", uri, "--mongodb-database", database[:min(len(database), 20)]}
}

// TestCounts counts the commands that count many inboxes, and those of a page.
func TestCounts(t *testing.T) {
	t.Parallel()
	report := report(t, "counts --users 30 --messages 120 --requests 3 --dormant 1200", onMongoDB(t)...)
	require.Len(t, report.Rows, 6)
	require.Equal(t, figure("skipped by the next message", 1200, ""), report.Rows[0].Figures[3])
	for _, row := range report.Rows {
		commands := row.Figures[len(row.Figures)-1]
		require.Equal(t, "commands", commands.Name, row.Case)
		require.GreaterOrEqual(t, commands.Value, 2., row.Case)
	}
}

// TestFindOnMongoDB finds as many messages as match, and lists every index of the inboxes.
func TestFindOnMongoDB(t *testing.T) {
	t.Parallel()
	report := benchFind(t, append(onMongoDB(t), "--late")...)
	require.Contains(t, fact(report, "durability"), "majority")
	require.NotEqual(t, "none", fact(report, "server"))
	sizes := figures(report, "stored")
	var sum float64
	for figure, size := range sizes {
		if strings.HasPrefix(figure, "index ") {
			sum += size
		}
	}
	require.InEpsilon(t, sizes["all indexes"], sum, 1e-9)
	require.Positive(t, sizes["on disk"])
	require.Positive(t, sizes["index owner_sequence"])
}

// TestLayoutsOnMongoDB compares the layouts of MongoDB, and lists the indexes of each.
func TestLayoutsOnMongoDB(t *testing.T) {
	t.Parallel()
	layouts := []string{"on-read", "on-write", "counter", "open-bucket", "newest-n", "dated", "buckets"}
	report := benchLayouts(t, layouts, onMongoDB(t)...)
	require.Contains(t, fact(report, "durability"), "majority")
	require.InDelta(t, 1, figures(report, "on-read send")["documents"], 0)
	require.InDelta(t, 24, figures(report, "counter send")["documents"], 0, "a counter and a push for each recipient")
	require.Contains(t, names(report)["dated size"], "index inbox.expires_1")
	require.NotContains(t, figures(report, "buckets read 50"), "cold p50", "the server is not restarted")
	require.Equal(t, strings.HasPrefix(fact(report, "server"), "MongoDB "), fact(report, "valid for") == "")
}
