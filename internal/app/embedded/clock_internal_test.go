package embedded

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStampClock(t *testing.T) {
	t.Parallel()
	epoch := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	wall, elapsed := epoch, 7*time.Hour
	c := newStampClock(func() time.Time { return wall }, func() time.Duration { return elapsed }, func() time.Duration { return time.Minute })
	pass := func(d time.Duration) { wall, elapsed = wall.Add(d), elapsed+d }
	require.Equal(t, epoch, c.now())
	pass(time.Hour)
	require.Equal(t, wall, c.now())
	right := wall
	wall = right.Add(time.Minute)
	require.Equal(t, wall, c.now(), "within the tolerance")
	wall = right.Add(time.Minute + time.Millisecond)
	require.Equal(t, right, c.now(), "set forward")
	pass(time.Hour)
	require.Equal(t, right.Add(time.Hour), c.now(), "it goes on")
	wall = right.Add(time.Hour)
	require.Equal(t, wall, c.now(), "set right")
	wall = right.Add(-time.Hour)
	require.Equal(t, wall, c.now(), "set back")
}

func millisecond() time.Duration { return time.Millisecond }

func TestStampClockOfTheSystem(t *testing.T) {
	t.Parallel()
	before := time.Now()
	c := newStampClock(time.Now, nil, millisecond)
	require.WithinRange(t, c.now(), before.Round(0).Add(-time.Second), before.Round(0).Add(time.Minute))
	still := newStampClock(func() time.Time { return before.Round(0) }, nil, millisecond)
	require.Equal(t, before.Round(0), still.now(), "a clock without monotonic readings is believed")
}
