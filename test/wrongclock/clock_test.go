package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClock(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string][]time.Duration{
		"0s":               {0, 0, 0, 0},
		"30s":              {30 * time.Second, 30 * time.Second, 30 * time.Second, 30 * time.Second},
		"30s,-20s/1s":      {30 * time.Second, -20 * time.Second, 30 * time.Second, -20 * time.Second},
		"1s,2s,-3s/1000ms": {time.Second, 2 * time.Second, -3 * time.Second, time.Second},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			at := began
			clock, err := newClock(text, func() time.Time { return at })
			require.NoError(t, err)
			for _, offset := range want {
				require.Equal(t, at.Add(offset), clock.now())
				at = at.Add(time.Second)
			}
		})
	}
	for _, text := range []string{"", "x", "30", "30s/1s", "30s,20s", "30s,20s/0s", "30s,20s/x", "30s,/1s", "30s/signal", "30s,20s/signals"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, err := newClock(text, time.Now)
			require.ErrorContains(t, err, "-clock is")
		})
	}
}

func TestClockThatStepsAtSignals(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock, err := newClock("0s,1h,-1h/signal", func() time.Time { return at })
	require.NoError(t, err)
	require.Equal(t, at, clock.now())
	for _, offset := range []time.Duration{time.Hour, -time.Hour, 0, time.Hour} {
		require.Equal(t, offset, clock.step())
		require.Equal(t, at.Add(offset), clock.now())
		at = at.Add(time.Minute)
		require.Equal(t, at.Add(offset), clock.now())
	}
}

// TestSet sets the wall clock of a time with a monotonic reading, and of a time without.
func TestSet(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Hour, -time.Hour, 1500 * time.Millisecond, 0} {
		began := time.Now()
		moved := set(began, by)
		require.Equal(t, by, moved.Round(0).Sub(began.Round(0)), "the wall clock")
		require.Zero(t, moved.Sub(began), "the monotonic clock")
		require.Equal(t, time.Minute, moved.Add(time.Minute).Sub(began))
		require.Equal(t, began.Location(), moved.Location())
		require.Equal(t, began.Round(0).Add(by), set(began.Round(0), by))
	}
}
