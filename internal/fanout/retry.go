package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/pkg/event"
)

// Action is what happens next to a task or event.
type Action int

const (
	// Acknowledge removes the task: it succeeded.
	Acknowledge Action = iota
	// Retry tries the task again: the failure may be temporary.
	Retry
	// Continue processes the held tasks again at once: the task stream has no room for their continuations.
	Continue
	// HandBack hands the task or event back to the bus, which counts its attempts: the code panicked.
	HandBack
	// DeadLetter makes the task a dead letter: another try cannot succeed.
	DeadLetter
)

// errQueueFull says that the task stream is full. Waiting for room could deadlock, because only finished scans free
// space. A worker that continues with the tasks it holds finishes their scans.
var errQueueFull = errors.New("the task stream is full")

// Classify returns what happens next to a task or event that ended with err. An unknown error means Retry, so an
// outage of the store never makes dead letters.
func Classify(err error) Action {
	switch {
	case err == nil:
		return Acknowledge
	case reason(err) != "":
		return DeadLetter
	case errors.Is(err, errQueueFull):
		return Continue
	case panics.Is(err):
		return HandBack
	default:
		return Retry
	}
}

// emitTasks appends tasks to their queues. If the task stream is full, its error wraps errQueueFull.
func emitTasks(ctx context.Context, bus bus.Emitter, tasks []event.Task) error {
	err := bus.EmitTasks(ctx, tasks)
	if errors.Is(err, event.ErrFull) {
		return fmt.Errorf("%w: %w", errQueueFull, err)
	}
	return err
}

// retry calls attempt again while its error is one to Retry. Between calls it pauses: the pauses grow exponentially up to 10 seconds. It counts the
// repetitions. It returns nil, an error with another action, or the last error when ctx ends.
func retry(ctx context.Context, logger zerolog.Logger, retries prometheus.Counter, what string, attempt func() error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = 50*time.Millisecond, 10*time.Second
	for {
		err := attempt()
		if Classify(err) != Retry || ctx.Err() != nil {
			return err
		}
		next := pauses.NextBackOff()
		if !errors.Is(err, context.Canceled) {
			retries.Inc()
			logger.Warn().Err(err).Str("work", what).Stringer("again_in", next.Round(time.Millisecond)).Msg("fan-out work failed: trying again")
		}
		startstop.Pause(ctx, next)
	}
}
