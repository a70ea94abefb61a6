package bench

import (
	"context"
	"syscall"
	"time"

	"github.com/fanmail/fanmail/internal/startstop"
)

// settle waits until this process has next to nothing to do any more, so that what filling a world has left behind, such as
// compactions, is not measured; or for a minute.
func settle(ctx context.Context) error {
	const window, most = 500 * time.Millisecond, time.Minute
	for waited := time.Duration(0); waited < most; waited += window {
		before := processorTime()
		startstop.Pause(ctx, window)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if processorTime()-before < window/10 {
			return nil
		}
	}
	return nil
}

// processorTime returns how long processors have worked for this process so far.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
