package embedded

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns the time since the host was booted, and whether the system knows it. It includes the time for which the host was
// suspended, which monotonic readings of the time package leave out.
func sinceBoot() (time.Duration, bool) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return time.Duration(t.Nano()), err == nil
}
