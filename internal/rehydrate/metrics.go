package rehydrate

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics counts rehydrations.
type metrics struct {
	finished, failed, lost prometheus.Counter // attempts
	full                   prometheus.Counter
	duration               prometheus.Histogram
	messages               prometheus.Counter
}

// newMetrics registers the metrics of a Service. A scrape calls its Load.
func newMetrics(registerer prometheus.Registerer, s *Service) metrics {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fanmail_rehydrations_waiting", Help: "Rehydrations that wait for a worker of this process.",
	}, func() float64 { return float64(s.Load().Waiting) })
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fanmail_rehydrations_running", Help: "Rehydrations that this process is carrying out.",
	}, func() float64 { return float64(s.Load().Running) })
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fanmail_rehydration_oldest_seconds",
		Help: "For how long the oldest rehydration that waits or runs in this process has been due; 0 if there is none.",
	}, s.oldest)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fanmail_damaged_rehydrations", Help: "Users whose rehydration is due and whose record is damaged, when this process last looked.",
	}, func() float64 { return float64(s.damaged.Load()) })
	attempts := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "fanmail_rehydration_attempts_total",
		Help: "Attempts at a rehydration: finished, failed (and tried again), or lost to another process.",
	}, []string{"outcome"})
	return metrics{
		finished: attempts.WithLabelValues("finished"), failed: attempts.WithLabelValues("failed"), lost: attempts.WithLabelValues("lost"),
		full: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_rehydration_queue_full_total", Help: "Rehydrations that found the queue full, and wait until they are looked for.",
		}),
		duration: factory.NewHistogram(prometheus.HistogramOpts{
			Name:    "fanmail_rehydration_duration_seconds",
			Help:    "From a user's coming back to their complete inbox.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), // 1 ms to 65 s
		}),
		messages: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_recovered_messages_total", Help: "Messages that rehydrations have found.",
		}),
	}
}

// oldest returns for how many seconds the oldest rehydration of this process has been due, or 0 if there is none.
func (s *Service) oldest() float64 {
	load := s.Load()
	if load.Oldest.IsZero() {
		return 0
	}
	return max(0, s.opts.Now().Sub(load.Oldest).Seconds())
}
