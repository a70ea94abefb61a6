package inbox

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanmail/fanmail/internal/meter"
)

// metrics is what is counted of reading.
type metrics struct {
	meter.Group
	// warm and cold are first pages: of an inbox that is kept warm, and of one that is answered by fan out on read.
	warm, cold prometheus.Observer
	buckets    *meter.Sizes
}

func newMetrics() metrics {
	first := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "fanmail_first_page_duration_seconds", Help: "How long the first page of an inbox took, also of one that is being rebuilt.",
		Buckets: meter.Requests(),
	}, []string{"complete"})
	m := metrics{
		warm: first.WithLabelValues("true"), cold: first.WithLabelValues("false"),
		buckets: meter.NewSizes("fanmail_page_buckets", "Buckets that were read for a page.", 0, 1, 2, 3, 4, 8, 16, 32),
	}
	m.Group = meter.Group{first, m.buckets}
	return m
}

// count counts a page.
func (m *metrics) count(p Page, first bool, took time.Duration) {
	var buckets meter.Tally
	buckets.Count(p.Buckets)
	m.buckets.Add(&buckets)
	switch {
	case first && p.Complete:
		m.warm.Observe(took.Seconds())
	case first:
		m.cold.Observe(took.Seconds())
	}
}

// Describe implements prometheus.Collector.
func (s *Service) Describe(descs chan<- *prometheus.Desc) { s.metrics.Describe(descs) }

// Collect implements prometheus.Collector.
func (s *Service) Collect(metrics chan<- prometheus.Metric) { s.metrics.Collect(metrics) }
