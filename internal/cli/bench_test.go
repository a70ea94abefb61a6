package cli_test

import (
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
