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
				require.Equal(t, at.Add(offset), clock())
				at = at.Add(time.Second)
			}
		})
	}
	for _, text := range []string{"", "x", "30", "30s/1s", "30s,20s", "30s,20s/0s", "30s,20s/x", "30s,/1s"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, err := newClock(text, time.Now)
			require.ErrorContains(t, err, "-clock is")
		})
	}
}
