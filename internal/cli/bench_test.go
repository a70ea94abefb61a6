package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bench"
)

// small reduces the space that a benchmark reserves.
var small = []string{
	"--nats-max-published", "16MiB", "--nats-max-fanout", "16MiB", "--nats-max-login", "16MiB", "--nats-max-dlq", "16MiB",
	"--embedded-cache", "8MiB", "--embedded-memtable", "4MiB",
}

// TestBench runs every benchmark with small numbers. A benchmark fails unless its deliveries are exact.
func TestBench(t *testing.T) {
	t.Parallel()
	inboxFigures := []string{
		"page p50", "page p99", "view p50", "view p99", "between p50", "between p99", "login p50", "login p99", "first login p50", "first login p99", "times the first, p50",
	}
	for args, figures := range map[string]map[string][]string{
		"fanout --followers 100,1500 --messages 2 --runs 2": {
			"100 followers":  {"deliveries", "raw", "of raw", "took", "resident"},
			"1500 followers": {"deliveries", "raw", "of raw", "took", "resident"},
		},
		"fanout --followers 2000 --dormant 0.5": {
			"2000 followers": {"followers", "raw scan", "times a raw scan", "took", "resident"},
		},
		"burst --followers 1200 --celebrities 3 --graded --overlap 0.5 --apart 10ms": {
			"6 by 3 celebrities": {
				"deliveries", "raw, one by one", "times that", "raw, all at once", "of that", "entries per push", "at most", "of it", "first done", "last done",
				"last to first", "resident",
			},
			"named beside the audience": {"in the inbox after p50", "in the inbox after p99"},
			"following celebrity":       {"in the inbox after p50", "in the inbox after p99"},
		},
		"mixed --followers 3000 --medium 1100 --probes 5 --messages 1 --named 2 --celebrities 2 --fanout-class-ttl 1ms": {
			"direct message, idle":       {"readable after p50", "readable after p99"},
			"direct message, under bulk": {"readable after p50", "readable after p99"},
			"to 1100, idle":              {"done after p50", "done after p99"},
			"to 1100, under bulk":        {"done after p50", "done after p99"},
			"publishing to one":          {"accepted after p50", "accepted after p99"},
			"publishing to 3000":         {"accepted after p50", "accepted after p99", "times one, p50", "times one, p99"},

			"direct message beside these": {"in the inbox after p50", "in the inbox after p99"},
			"named beside the audience":   {"in the inbox after p50", "in the inbox after p99", "times direct, p50", "times direct, p99"},
			"following celebrity":         {"in the inbox after p50", "in the inbox after p99", "of a lap, p99"},
			"lap of the scan":             {"took p50", "took p99"},
		},
		"publish --connections 2 --messages 20": {"2 connections": {"accepted", "raw", "of raw", "took p50", "took p99"}},
		"read --entries 60,5100 --pages 3": {
			"60 messages":   inboxFigures,
			"5100 messages": inboxFigures,
		},
		"rehydrate --users 2 --authors 20 --missed 3,60": {
			"3 missed":  {"first page p50", "first page p99", "rebuilt p50", "rebuilt p99"},
			"60 missed": {"first page p50", "first page p99", "rebuilt p50", "rebuilt p99"},
		},
		"rehydrate --users 2 --authors 20 --missed 60 --topics 3": {
			"60 missed":         {"first page p50", "first page p99", "rebuilt p50", "rebuilt p99"},
			"60 missed, topics": {"first page p50", "first page p99", "rebuilt p50", "rebuilt p99"},
		},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			command := append(strings.Fields("bench "+args+" --json --dir "+dir), small...)
			report := fromJSON[bench.Report](t, fanmail(t, command...))
			got := make(map[string][]string)
			for _, row := range report.Rows {
				for _, f := range row.Figures {
					got[row.Case] = append(got[row.Case], f.Name)
					require.Positive(t, f.Value, f.Name)
				}
			}
			require.Equal(t, figures, got)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left, "nothing is left behind")
		})
	}
}

func TestBenchPrints(t *testing.T) {
	t.Parallel()
	text := fanmail(t, append(strings.Fields("bench read --entries 60,600 --pages 3 --dir "+t.TempDir()), small...)...)
	require.Regexp(t, `(?s)^read, store embedded\n60 messages\n  page p50 +[0-9.]+ ms\n.*600 messages\n.*  times the first, p50 +[0-9.]+ \n$`, text)
}
