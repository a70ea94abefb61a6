package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/internal/cli/program"
)

// small reduces the space that a benchmark reserves.
var small = []string{
	"--nats-max-published", "16MiB", "--nats-max-fanout", "16MiB", "--nats-max-login", "16MiB", "--nats-max-dlq", "16MiB",
	"--embedded-cache", "8MiB", "--embedded-memtable", "4MiB",
}

// The figures of a benchmark are text, or JSON with their medians.
func TestBench(t *testing.T) {
	t.Parallel()
	command := append(strings.Fields("bench read --entries 60,600 --pages 3 --dir "+t.TempDir()), small...)
	text := fanmail(t, command...)
	require.Regexp(t, `(?s)^read, store embedded\n60 messages\n  page p50 +[0-9.]+ ms\n.*600 messages\n.*  times the first, p50 +[0-9.]+ \n$`, text)
	report := fromJSON[bench.Report](t, fanmail(t, append(command, "--json", "--runs", "2")...))
	require.Equal(t, 2, report.Runs)
	require.Len(t, report.Rows, 2)
}

// What a benchmark would not measure is refused before it begins.
func TestBenchIsRefused(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"fanout --dormant NaN":                          "--dormant is NaN: give a number from 0 to 1",
		"fanout --dormant 0.001 --followers 1000,100":   "--dormant is 0.001: none of 100 --followers is dormant",
		"fanout --dormant 0.5 --messages 2":             "leave --messages and --there out",
		"fanout --rounds 2 --authors 16 --followers 10": "--authors is 16: give at most 10",
		"fanout --body 0":                               "--body is 0: give 1 or more",
		"burst --apart -5s":                             "--apart is -5s: give a time that is not negative",
	} {
		got := run{args: append([]string{"bench"}, strings.Fields(args)...)}.do(t.Context(), t)
		require.Equal(t, program.ExitUsage, got.code, args)
		require.Contains(t, got.stderr, want)
	}
}
