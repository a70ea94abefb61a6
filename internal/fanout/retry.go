package fanout

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/pkg/event"
)

// retry repeats work as long as its errors are to be retried: see repeat.
func retry(ctx context.Context, logger zerolog.Logger, retries prometheus.Counter, what string, work func() error) error {
	return repeat(ctx, logger, retries, Retry, what, work)
}

// repeat repeats work, with exponentially growing pauses of up to 10 seconds, as long as its errors have a fate, and counts the
// repetitions. It returns nil, an error of another fate, or the last error when ctx ends.
func repeat(ctx context.Context, logger zerolog.Logger, retries prometheus.Counter, fate Fate, what string, work func() error) error {
	pauses := newPauses()
	for {
		err := work()
		if Classify(err) != fate || ctx.Err() != nil {
			return err
		}
		next := pauses.NextBackOff()
		if !errors.Is(err, context.Canceled) {
			retries.Inc()
			logger.Warn().Err(err).Str("work", what).Dur("again_in", next).Msg("fan-out work failed: trying again")
		}
		pause(ctx, next)
	}
}

func newPauses() *backoff.ExponentialBackOff {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = 50*time.Millisecond, 10*time.Second
	return pauses
}

// pause waits, or returns earlier when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// about tells in a line of the log which event it is about, but not what is in it: that may be anything.
func about(line *zerolog.Event, delivery event.Delivery) *zerolog.Event {
	line = line.Str("subject", delivery.Subject).Uint64("sequence", delivery.Sequence).Int("attempts", delivery.Attempts)
	if task, err := event.DecodeTask(delivery.Payload); err == nil {
		return line.Stringer("message_id", task.ID).Str("from", string(task.From))
	}
	if published, err := event.DecodePublished(delivery.Payload); err == nil {
		return line.Stringer("message_id", published.ID).Str("from", string(published.From))
	}
	return line
}

func deadLetter(delivery event.Delivery, err error) event.DeadLetter {
	return event.DeadLetter{
		Version: event.Version, Reason: reason(err), Error: err.Error(),
		Attempts: delivery.Attempts, Subject: delivery.Subject, Payload: delivery.Payload, Trace: delivery.Trace,
	}
}
