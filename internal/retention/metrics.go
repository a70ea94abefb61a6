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
	duration, lowWater              prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) metrics {
	factory := promauto.With(registerer)
	return metrics{
		users: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_retention_users_total", Help: "Users at whom the walk over all users has looked.",
		}),
		expired: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_retention_expired_total", Help: "Messages in inboxes that have expired by the walk over all users.",
		}),
		damaged: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_retention_damaged_total", Help: "Users of whom the walk has removed nothing, because their records are damaged.",
		}),
		rounds: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_retention_rounds_total", Help: "Rounds through all users that this process has ended.",
		}),
		duration: factory.NewGauge(prometheus.GaugeOpts{
			Name: "fanmail_retention_round_seconds", Help: "From the beginning to the end of the last round that this process has ended.",
		}),
		lowWater: factory.NewGauge(prometheus.GaugeOpts{
			Name: "fanmail_retention_low_water_seconds", Help: "The time of the low-water mark: what was sent up to it has expired for all users; 0 if there is none.",
		}),
	}
}

// seconds returns the time of an id.
func seconds(id message.ID) float64 {
	if id.IsZero() {
		return 0
	}
	return float64(id.Time().UnixMilli()) / 1000
}

// ended counts a round that has ended.
func (m metrics) ended(r Round, now time.Time) {
	m.rounds.Inc()
	m.lowWater.Set(seconds(r.LowWater))
	m.duration.Set(max(0, now.Sub(r.Began).Seconds()))
}

// emptierMetrics counts what an Emptier has done.
type emptierMetrics struct{ buckets, entries, bytes, full prometheus.Counter }

func newEmptierMetrics(registerer prometheus.Registerer, waiting func() float64) emptierMetrics {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fanmail_retention_waiting", Help: "Users who wait in this process to be emptied.",
	}, waiting)
	return emptierMetrics{
		buckets: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_retention_buckets_total", Help: "Buckets that this process has emptied, whole or in part.",
		}),
		entries: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_retention_entries_total", Help: "Entries whose contents this process has removed.",
		}),
		bytes: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_retention_freed_bytes_total", Help: "How much less the store holds since, before compression.",
		}),
		full: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_retention_queue_full_total", Help: "Users who found the queue full, and are left to the walk over all users.",
		}),
	}
}

// trimmerMetrics counts what a Trimmer has done.
type trimmerMetrics struct{ inboxes, expired, full prometheus.Counter }

func newTrimmerMetrics(registerer prometheus.Registerer, waiting func() float64) trimmerMetrics {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fanmail_retention_trim_waiting", Help: "Users who wait in this process to be trimmed.",
	}, waiting)
	return trimmerMetrics{
		inboxes: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_retention_trimmed_total", Help: "Inboxes that this process has trimmed to their newest messages.",
		}),
		expired: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_retention_trimmed_messages_total", Help: "Messages that have expired by it.",
		}),
		full: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_retention_trim_queue_full_total", Help: "Users who found the queue for trimming full, and are left to the walk over all users.",
		}),
	}
}

func newDamagedPlans(registerer prometheus.Registerer) prometheus.Counter {
	return promauto.With(registerer).NewCounter(prometheus.CounterOpts{
		Name: "fanmail_retention_plans_damaged_total", Help: "Looks at plans that stay because they, or their messages, are damaged.",
	})
}

// collectorMetrics counts what a Collector has removed.
type collectorMetrics struct{ removed, failures *prometheus.CounterVec }

func newCollectorMetrics(registerer prometheus.Registerer) collectorMetrics {
	factory := promauto.With(registerer)
	m := collectorMetrics{
		removed: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "fanmail_retention_removed_total", Help: "What this process has removed because it was not needed any more, or found to be removed by another one just then, by what it is.",
		}, []string{"what"}),
		failures: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "fanmail_retention_failures_total", Help: "Attempts of this process to remove what has ended that failed, by what it is.",
		}, []string{"what"}),
	}
	for _, what := range []string{plans, letters, messages, edges} {
		m.removed.WithLabelValues(what)
		m.failures.WithLabelValues(what)
	}
	return m
}
