package retention

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/fanmail/fanmail/pkg/message"
)

// metrics counts what a Walker has done.
type metrics struct {
	users, expired, damaged, rounds prometheus.Counter
	duration, lowWater, asOf        prometheus.Gauge
	buckets, entries, bytes         prometheus.Counter
	trimmed, trimmedMessages        prometheus.Counter
	full, skipped                   prometheus.Counter
	removed, failures               *prometheus.CounterVec
}

// newMetrics registers what every process counts, and at walk what only a process counts that walks over all users.
func newMetrics(registerer, walk prometheus.Registerer, waiting func() float64) metrics {
	queue, walking := promauto.With(registerer), promauto.With(walk)
	counter := func(factory promauto.Factory, name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: "fanmail_retention_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return walking.NewGauge(prometheus.GaugeOpts{Name: "fanmail_retention_" + name, Help: help})
	}
	byKind := func(name, help string) *prometheus.CounterVec {
		vec := walking.NewCounterVec(prometheus.CounterOpts{Name: "fanmail_retention_" + name, Help: help}, []string{"what"})
		for _, what := range []string{plans, letters, messages, edges} {
			vec.WithLabelValues(what)
		}
		return vec
	}
	queue.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fanmail_retention_waiting", Help: "Users who wait in this process to be trimmed or emptied.",
	}, waiting)
	return metrics{
		users:           counter(walking, "users_total", "Users at whom the walk over all users has looked."),
		expired:         counter(walking, "expired_total", "Messages in inboxes that have expired by the walk over all users."),
		damaged:         counter(walking, "damaged_total", "Users of whom the walk has removed nothing, because their records are damaged."),
		rounds:          counter(walking, "rounds_total", "Rounds through all users that this process has ended."),
		duration:        gauge("round_seconds", "From the beginning to the end of the last round that this process has ended."),
		lowWater:        gauge("low_water_seconds", "The time of the low-water mark: what was sent up to it has expired for all users; 0 if there is none."),
		asOf:            gauge("as_of_seconds", "The time as of which messages expire by age, which the last round has; 0 if there is none."),
		buckets:         counter(queue, "buckets_total", "Buckets that this process has emptied, whole or in part."),
		entries:         counter(queue, "entries_total", "Entries whose contents this process has removed."),
		bytes:           counter(queue, "freed_bytes_total", "How much less the store holds since, before compression."),
		trimmed:         counter(queue, "trimmed_total", "Inboxes that this process has trimmed to their newest messages."),
		trimmedMessages: counter(queue, "trimmed_messages_total", "Messages that have expired by it."),
		full:            counter(queue, "queue_full_total", "Users who found the queue full, and are left to the walk over all users."),
		skipped:         counter(walking, "plans_damaged_total", "Looks at plans that stay because they, or their messages, are damaged."),
		removed:         byKind("removed_total", "What this process has removed because it was not needed any more, or found to be removed by another one just then, by what it is."),
		failures:        byKind("failures_total", "Attempts of this process to remove what has ended that failed, by what it is."),
	}
}

// seconds returns the time of an id.
func seconds(id message.ID) float64 {
	if id.IsZero() {
		return 0
	}
	return float64(id.Time().UnixMilli()) / 1000
}

// found shows the record.
func (m metrics) found(r Round) {
	m.lowWater.Set(seconds(r.LowWater))
	if !r.AsOf.IsZero() {
		m.asOf.Set(float64(r.AsOf.UnixMilli()) / 1000)
	}
}

// ended counts a round that has ended.
func (m metrics) ended(r Round, now time.Time) {
	m.rounds.Inc()
	m.found(r)
	m.duration.Set(max(0, now.Sub(r.Began).Seconds()))
}
