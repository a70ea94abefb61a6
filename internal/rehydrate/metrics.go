package rehydrate

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanmail/fanmail/internal/meter"
)

// metrics are the metrics of rehydrations.
type metrics struct {
	meter.Group
	finished, failed, lost prometheus.Counter // attempts
	full                   prometheus.Counter
	duration               prometheus.Histogram
	messages               prometheus.Counter
}

var (
	waitingDesc = prometheus.NewDesc("fanmail_rehydrations_waiting", "Rehydrations that wait for a worker of this process.", nil, nil)
	runningDesc = prometheus.NewDesc("fanmail_rehydrations_running", "Rehydrations that this process is carrying out.", nil, nil)
	oldestDesc  = prometheus.NewDesc("fanmail_rehydration_oldest_seconds",
		"For how long the oldest rehydration that waits or runs in this process has been due; 0 if there is none.", nil, nil)
)

func newMetrics() metrics {
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanmail_rehydration_attempts_total",
		Help: "Attempts at a rehydration: finished, failed (and tried again), or lost to another process.",
	}, []string{"outcome"})
	m := metrics{
		finished: attempts.WithLabelValues("finished"), failed: attempts.WithLabelValues("failed"), lost: attempts.WithLabelValues("lost"),
		full: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_rehydration_queue_full_total", Help: "Rehydrations that found the queue full, and wait until they are looked for.",
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "fanmail_rehydration_duration_seconds",
			Help:    "From a user's coming back to their complete inbox.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), // 1 ms to 65 s
		}),
		messages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_recovered_messages_total", Help: "Messages that rehydrations have found.",
		}),
	}
	m.Group = meter.Group{attempts, m.full, m.duration, m.messages}
	return m
}

// Describe implements prometheus.Collector.
func (s *Service) Describe(descs chan<- *prometheus.Desc) {
	descs <- waitingDesc
	descs <- runningDesc
	descs <- oldestDesc
	s.metrics.Describe(descs)
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(collected chan<- prometheus.Metric) {
	load := s.Load()
	oldest := 0.0
	if !load.Oldest.IsZero() {
		oldest = max(0, s.opts.Now().Sub(load.Oldest).Seconds())
	}
	collected <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(load.Waiting))
	collected <- prometheus.MustNewConstMetric(runningDesc, prometheus.GaugeValue, float64(load.Running))
	collected <- prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, oldest)
	s.metrics.Collect(collected)
}
