package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpread(t *testing.T) {
	t.Parallel()
	require.Equal(t, spread{Median: 2, Min: 1, Max: 9}, newSpread([]float64{9, 1, 2}))
	require.Equal(t, spread{Median: 2, Min: 1, Max: 9}, newSpread([]float64{9, 1, 2, 3}))
	require.Equal(t, spread{Median: 4, Min: 4, Max: 4}, newSpread([]float64{4}))
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i) // 100 to 1
	}
	require.InDelta(t, 50, percentile(hundred, 50), 0)
	require.InDelta(t, 99, percentile(hundred, 99), 0)
	require.InDelta(t, 7, percentile([]float64{7}, 99), 0)
	require.InDelta(t, 1, percentile([]float64{3, 1, 2}, 1), 0)
	require.InDelta(t, 3, percentile([]float64{3, 1, 2}, 99), 0)
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	require.Equal(t, []int{0, 3, 6, 9}, places(4, 10))
	require.Equal(t, []int{0, 1, 2}, places(100, 3))
	require.Equal(t, []int{0}, places(1, 10))
	many := places(100, 10_000)
	require.Len(t, many, 100)
	require.Equal(t, 0, many[0])
	require.Equal(t, 9_999, many[99])
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{0: "0", 7.4: "7", 999: "999", 1234: "1,230", 45_678: "45,700", 1_999_999: "2,000,000"} {
		require.Equal(t, want, number(value))
	}
	for value, want := range map[float64]string{0.0123: "12 ms", 0.25: "0.25 s", 9.876: "9.88 s", 61.4: "61 s"} {
		require.Equal(t, want, seconds(value))
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	runs := []measured{
		{all: 2, first: 0.01, counting: 0.02, complete: []float64{1, 2}},
		{all: 4, first: 0.03, counting: 0.04, complete: []float64{3, 4}},
		{all: 3, first: 0.02, counting: 0.03, complete: []float64{2, 3}},
	}
	r := report{
		Facts: []fact{{"processors", "2"}}, Followers: 10, Messages: 3, Body: 200, Runs: 3,
		Rows: []row{newRow(peer{name: "someone", delivered: "it is there", durable: "for long"}, 30, runs)},
	}
	require.Equal(t, spread{Median: 3, Min: 2, Max: 4}, r.Rows[0].Seconds)
	require.Equal(t, spread{Median: 10, Min: 7.5, Max: 15}, r.Rows[0].DeliveriesPerSecond)
	require.Equal(t, spread{Median: 2, Min: 1, Max: 3}, r.Rows[0].P50Seconds)
	require.Equal(t, spread{Median: 3, Min: 2, Max: 4}, r.Rows[0].P99Seconds)

	var text strings.Builder
	require.NoError(t, r.print(&text, false))
	for _, part := range []string{
		"3 messages of 200 bytes to 10 followers: 30 deliveries. Medians of 3 runs", "processors: 2",
		"10 (8 to 15)", "3.00 s (2.00 s to 4.00 s)", "30 ms", "20 ms", "delivered: it is there", "durable: for long",
	} {
		require.Contains(t, text.String(), part)
	}

	text.Reset()
	require.NoError(t, r.print(&text, true))
	var again report
	require.NoError(t, json.Unmarshal([]byte(text.String()), &again))
	require.Equal(t, r, again)
}
