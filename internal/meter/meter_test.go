package meter_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/meter"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestSizes(t *testing.T) {
	t.Parallel()
	s := meter.NewSizes(nil, "entries", "What was pushed.", 1, 5, 50)
	var tally meter.Tally
	for _, size := range []int{1, 1, 5, 6, 50, 51, 1000} {
		tally.Count(size)
	}
	s.Add(&tally)
	s.Add(&tally)
	require.NoError(t, testutil.CollectAndCompare(s, strings.NewReader(`
# HELP entries What was pushed.
# TYPE entries histogram
entries_bucket{le="1"} 4
entries_bucket{le="5"} 6
entries_bucket{le="50"} 10
entries_bucket{le="+Inf"} 14
entries_sum 356
entries_count 14
`)))
}

// A Live collector may leave out a value in one scrape and send it in the next.
func TestLive(t *testing.T) {
	t.Parallel()
	desc := prometheus.NewDesc("depth", "How deep it is.", nil, nil)
	known := false
	registry := prometheus.NewRegistry()
	registry.MustRegister(meter.Live(func(values chan<- prometheus.Metric) {
		if known {
			values <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 7)
		}
	}))
	for _, known = range []bool{false, true, false} {
		n, err := testutil.GatherAndCount(registry)
		require.NoError(t, err)
		require.Equal(t, known, n == 1)
	}
}

// Counting must not allocate, because a fan-out counts every push.
func TestNothingIsAllocated(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the allocations of parallel tests too
	s := meter.NewSizes(nil, "entries", "What was pushed.", 1, 5, 50)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var tally meter.Tally
		for size := range 100 {
			tally.Count(size)
		}
		s.Add(&tally)
	}))
}
