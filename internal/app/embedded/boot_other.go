//go:build !linux

package embedded

import "time"

// sinceBoot reports that the system does not know the time since the host was booted.
func sinceBoot() (time.Duration, bool) { return 0, false }
