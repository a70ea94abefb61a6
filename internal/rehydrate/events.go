package rehydrate

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/event"
)

const (
	// loginEvents is how many events one fetch takes from the bus.
	loginEvents = 128
	// loginConcurrency is how many events are recorded at a time, so that they share the store's syncs.
	loginConcurrency = 16
	// fetchPause is how long the loop waits after the bus has failed.
	fetchPause = time.Second
)

// RunLogins records the logins that other services announce on the bus, until intake ends. It acknowledges an event when the mark is
// set, because from then on the rehydration is due even after a crash. The end of work cancels the events in progress.
func (s *Service) RunLogins(intake, work context.Context, logins bus.Logins) {
	for intake.Err() == nil {
		received, err := logins.FetchLogins(intake, loginEvents)
		if err != nil {
			if intake.Err() == nil {
				s.opts.Logger.Error().Err(err).Msg("login events cannot be fetched")
				startstop.Pause(intake, fetchPause)
			}
			continue
		}
		var group errgroup.Group
		group.SetLimit(loginConcurrency)
		for _, r := range received {
			group.Go(func() error {
				err := panics.Do(func() error {
					s.note(work, logins, r)
					return nil
				})
				s.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return describe(line, r.Delivery()) })
				return nil
			})
		}
		_ = group.Wait() // note logs its errors
	}
}

// note records one login event. If that fails, the bus hands the event out again.
func (s *Service) note(ctx context.Context, logins bus.Logins, r bus.Received) {
	delivery := r.Delivery()
	ctx, span := s.opts.Tracer.Start(tracing.Within(ctx, delivery.Trace), "login", trace.WithSpanKind(trace.SpanKindConsumer))
	err := s.arriveBy(ctx, delivery, span)
	s.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return describe(line, delivery) })
	if reason := s.reason(err, delivery); reason != "" {
		describe(s.opts.Logger.Error().Err(err).Str("reason", reason), delivery).Msg("login event is a dead letter")
		err = logins.DeadLetter(ctx, event.DeadLetter{
			Version: event.Version, Reason: reason, Error: err.Error(),
			Attempts: delivery.Attempts, Subject: delivery.Subject, Payload: delivery.Payload, Trace: delivery.Trace,
		})
	}
	if err == nil {
		err = r.Ack()
	}
	span.Done(err)
	switch {
	case err == nil:
	case ctx.Err() == nil:
		s.opts.Logger.Error().Err(err).Str("subject", delivery.Subject).Uint64("sequence", delivery.Sequence).
			Msg("login event cannot be noted, and is handed out again")
	default: // the process is stopping
		if err := r.Release(0); err != nil {
			s.opts.Logger.Warn().Err(err).Uint64("sequence", delivery.Sequence).Msg("handing a login event back failed: it is handed out again later")
		}
	}
}

// arriveBy records the login of an event.
func (s *Service) arriveBy(ctx context.Context, delivery event.Delivery, span tracing.Work) (err error) {
	defer panics.Catch(&err)
	login, err := event.DecodeLogin(delivery.Payload)
	if err != nil {
		return err
	}
	if span.IsRecording() {
		span.SetAttributes(tracing.User.String(string(login.User)))
	}
	at := s.opts.Now()
	if delivery.Stored.Before(at) && !delivery.Stored.IsZero() {
		at = delivery.Stored
	}
	_, err = s.Arrive(ctx, login.User, at)
	return err
}

// reason returns the reason why an event is a dead letter, or "" if another try may succeed.
func (s *Service) reason(err error, delivery event.Delivery) string {
	switch {
	case errors.Is(err, event.ErrNewer):
		return event.ReasonNewer
	case errors.Is(err, event.ErrMalformed):
		return event.ReasonMalformed
	case panics.Is(err) && delivery.Attempts >= s.opts.MaxAttempts:
		return event.ReasonPanic
	default:
		return ""
	}
}

// describe adds to a log line which login event the line is about.
func describe(line *zerolog.Event, delivery event.Delivery) *zerolog.Event {
	return line.Str("subject", delivery.Subject).Uint64("sequence", delivery.Sequence).Int("attempts", delivery.Attempts)
}
