package bench

import (
	"context"
	"syscall"
	"time"

	"github.com/fanmail/fanmail/internal/startstop"
)

// Settle waits until this process is idle, but at most a minute. So work that is left from filling a world, such as compactions, is not measured.
func Settle(ctx context.Context) error { return Idle(ctx, 500*time.Millisecond, time.Minute) }

// settle is Settle, unless the process is never idle.
func (w *World) settle(ctx context.Context) error {
	if w.Env.Busy {
		return nil
	}
	return Settle(ctx)
}

// Idle waits until this process uses less than a tenth of a processor during a window, but at most so long.
func Idle(ctx context.Context, window, most time.Duration) error {
	for waited := time.Duration(0); waited < most; waited += window {
		before := ProcessorTime()
		startstop.Pause(ctx, window)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if ProcessorTime()-before < window/10 {
			return nil
		}
	}
	return nil
}

// ProcessorTime returns the processor time that this process has used.
func ProcessorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
