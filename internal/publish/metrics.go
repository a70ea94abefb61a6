package publish

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/fanmail/fanmail/internal/meter"
	"github.com/fanmail/fanmail/pkg/message"
)

// The reasons for refusing a message, as values of a metric label.
const (
	refusedBusy        = "busy"
	refusedInvalid     = "invalid"
	refusedKeyReused   = "key_reused"
	refusedLate        = "late"
	refusedClockAhead  = "clock_ahead"
	refusedCanceled    = "canceled"
	refusedUnavailable = "unavailable"
)

// refusal returns the reason for an error of a Result.
func refusal(err error) string {
	_, invalid := errors.AsType[*message.InvalidError](err)
	switch {
	case invalid:
		return refusedInvalid
	case errors.Is(err, ErrBusy):
		return refusedBusy
	case errors.Is(err, message.ErrKeyReused):
		return refusedKeyReused
	case errors.Is(err, ErrLate):
		return refusedLate
	case errors.Is(err, ErrAhead):
		return refusedClockAhead
	case errors.Is(err, context.Canceled):
		return refusedCanceled
	default:
		return refusedUnavailable
	}
}

// metrics counts what Publish does.
type metrics struct {
	accepted, unemitted prometheus.Counter
	refused             map[string]prometheus.Counter
	single, batch       prometheus.Observer
}

func newMetrics(registerer prometheus.Registerer) metrics {
	factory := promauto.With(registerer)
	refused := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "fanmail_messages_refused_total", Help: "Messages that were not accepted.",
	}, []string{"reason"})
	duration := factory.NewHistogramVec(prometheus.HistogramOpts{
		Name: "fanmail_publish_duration_seconds", Help: "Time to accept or refuse one message, or one part of a batch.",
		Buckets: meter.Requests(),
	}, []string{"request"})
	m := metrics{
		accepted: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_messages_accepted_total", Help: "Messages that were accepted: stored, or found stored under their idempotency key.",
		}),
		unemitted: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_messages_unemitted_total", Help: "Messages that were accepted although the bus did not take their events.",
		}),
		refused: make(map[string]prometheus.Counter),
		single:  duration.WithLabelValues("single"),
		batch:   duration.WithLabelValues("batch"),
	}
	for _, reason := range []string{refusedBusy, refusedInvalid, refusedKeyReused, refusedLate, refusedClockAhead, refusedCanceled, refusedUnavailable} {
		m.refused[reason] = refused.WithLabelValues(reason)
	}
	return m
}

// count counts the results of one call.
func (m *metrics) count(results []Result, took time.Duration) {
	duration := m.batch
	if len(results) == 1 {
		duration = m.single
	}
	duration.Observe(took.Seconds())
	accepted := 0
	for _, r := range results {
		if r.Err == nil {
			accepted++
			continue
		}
		m.refused[refusal(r.Err)].Inc()
	}
	m.accepted.Add(float64(accepted))
}
