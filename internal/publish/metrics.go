package publish

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanmail/fanmail/internal/meter"
	"github.com/fanmail/fanmail/pkg/message"
)

// Why a message was not accepted, as a metric's label.
const (
	refusedBusy        = "busy"
	refusedInvalid     = "invalid"
	refusedKeyReused   = "key_reused"
	refusedLate        = "late"
	refusedCanceled    = "canceled"
	refusedUnavailable = "unavailable"
)

// refusal returns the word for an error of a Result.
func refusal(err error) string {
	switch _, invalid := errors.AsType[*message.InvalidError](err); {
	case invalid:
		return refusedInvalid
	case errors.Is(err, ErrBusy):
		return refusedBusy
	case errors.Is(err, message.ErrKeyReused):
		return refusedKeyReused
	case errors.Is(err, ErrLate):
		return refusedLate
	case errors.Is(err, context.Canceled):
		return refusedCanceled
	default:
		return refusedUnavailable
	}
}

// metrics is what is counted of publishing.
type metrics struct {
	meter.Group
	accepted, unemitted prometheus.Counter
	refused             map[string]prometheus.Counter
	single, batch       prometheus.Observer
}

func newMetrics() metrics {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanmail_messages_refused_total", Help: "Messages that were not accepted.",
	}, []string{"reason"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "fanmail_publish_duration_seconds", Help: "How long it took to accept or refuse one message, or a part of a batch of them.",
		Buckets: meter.Requests(),
	}, []string{"request"})
	m := metrics{
		accepted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_messages_accepted_total", Help: "Messages that were accepted: stored, or found stored under their idempotency key.",
		}),
		unemitted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_messages_unemitted_total", Help: "Messages that were accepted although the bus did not take their events.",
		}),
		refused: make(map[string]prometheus.Counter),
		single:  duration.WithLabelValues("single"),
		batch:   duration.WithLabelValues("batch"),
	}
	for _, reason := range []string{refusedBusy, refusedInvalid, refusedKeyReused, refusedLate, refusedCanceled, refusedUnavailable} {
		m.refused[reason] = refused.WithLabelValues(reason)
	}
	m.Group = meter.Group{m.accepted, m.unemitted, refused, duration}
	return m
}

// count counts what became of a call.
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

// Describe implements prometheus.Collector.
func (s *Service) Describe(descs chan<- *prometheus.Desc) { s.metrics.Describe(descs) }

// Collect implements prometheus.Collector.
func (s *Service) Collect(metrics chan<- prometheus.Metric) { s.metrics.Collect(metrics) }
