package storemetrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/fanmail/fanmail/internal/meter"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/pulse"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Metrics measures the store of a process.
type Metrics struct {
	now      func() time.Time
	duration *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	appends  appends
}

// New registers the metrics and returns Metrics. now is the clock that measures durations.
func New(registerer prometheus.Registerer, now func() time.Time) *Metrics {
	factory := promauto.With(registerer)
	return &Metrics{
		now: now,
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fanmail_store_duration_seconds", Help: "Duration of a call of a store. One call can handle many records.",
			Buckets: meter.Calls(),
		}, []string{"operation"}),
		errors: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "fanmail_store_errors_total", Help: "Failed calls of a store. Calls that were canceled or found nothing are not counted.",
		}, []string{"operation"}),
		appends: newAppends(registerer),
	}
}

// Done records the duration and the error of a call that began at the given time. It counts the call in the pulse.Pulse of ctx.
func (m *Metrics) Done(ctx context.Context, operation string, began time.Time, err error) {
	defer pulse.Beat(ctx)
	m.duration.WithLabelValues(operation).Observe(m.now().Sub(began).Seconds())
	if failed := m.errors.WithLabelValues(operation); err != nil && !answer(err) { // it shows 0 before the first failure
		failed.Inc()
	}
}

// answer reports whether an error is no failure of the store: a regular answer such as message.ErrNotFound, or a cancellation by the
// caller.
func answer(err error) bool {
	for _, expected := range []error{
		message.ErrNotFound, message.ErrKeyChanged, bucket.ErrNotFound, progress.ErrNotFound, userstate.ErrNotFound,
		retention.ErrChanged, settings.ErrChanged, context.Canceled,
	} {
		if errors.Is(err, expected) {
			return true
		}
	}
	return false
}
