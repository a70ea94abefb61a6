package embedded

import "time"

// stampClock is the clock by which the embedded store stamps messages. It is the wall clock, unless the wall clock has been set forward
// by more than the tolerance since the process began. Then it is the time that the wall clock would show without that. So ids of the wall
// clock are from the future, and publishing fails, until the wall clock is back or the process is restarted. A wall clock that is set
// back is believed. It is safe for concurrent use.
type stampClock struct {
	wall func() time.Time
	// elapsed returns the time since began, by a clock that no process sets.
	elapsed   func() time.Duration
	began     time.Time
	tolerance func() time.Duration
}

// newStampClock returns a stampClock that begins now. With a nil elapsed it takes the time since the host was booted. Where the system does
// not know that, it takes the monotonic readings of the wall clock's times. A wall clock whose times have no such readings is not the
// system's: it is believed.
func newStampClock(wall func() time.Time, elapsed, tolerance func() time.Duration) *stampClock {
	began := wall()
	if elapsed == nil {
		elapsed = func() time.Duration {
			now := wall()
			if boot, known := sinceBoot(); known && now != now.Round(0) {
				return boot
			}
			return now.Sub(began)
		}
	}
	offset := elapsed()
	return &stampClock{
		wall: wall, elapsed: func() time.Duration { return elapsed() - offset }, began: began.Round(0), tolerance: tolerance,
	}
}

func (c *stampClock) now() time.Time {
	wall, steady := c.wall().Round(0), c.began.Add(c.elapsed())
	if wall.Sub(steady) > c.tolerance() {
		return steady
	}
	return wall
}
