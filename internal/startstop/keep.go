package startstop

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/panics"
)

// restartPause is how long a loop that panicked waits before it runs again.
const restartPause = time.Second

// Keep runs a loop until it returns. If the loop panics, Keep records the panic under the given name, waits for a second and runs
// the loop again. The last run begins after intake has ended, so that the loop can hand back what it holds.
func Keep(intake, work context.Context, recorder *panics.Recorder, name string, loop Loop) {
	for {
		last := intake.Err() != nil
		err := panics.Do(func() error {
			loop(intake, work)
			return nil
		})
		if err == nil {
			return
		}
		recorder.Record(err, func(line *zerolog.Event) *zerolog.Event { return line.Str("loop", name) })
		if last {
			return
		}
		Pause(intake, restartPause)
	}
}
