package inbox

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/fanmail/fanmail/internal/meter"
)

// metrics counts the pages that are read.
type metrics struct {
	// warm measures the first pages of inboxes that are kept warm, cold those that are answered by fan out on read.
	warm, cold prometheus.Observer
	buckets    *meter.Sizes
	looks      prometheus.Observer
	resets     *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) metrics {
	factory := promauto.With(registerer)
	first := factory.NewHistogramVec(prometheus.HistogramOpts{
		Name: "fanmail_first_page_duration_seconds", Help: "How long the first page of an inbox took, also of one that is being rebuilt. Pages with a filter do not count.",
		Buckets: meter.Requests(),
	}, []string{"complete"})
	resets := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "fanmail_stream_resets_total", Help: "Frames that made a client begin anew, by reason.",
	}, []string{"reason"})
	for _, reason := range Resets() {
		resets.WithLabelValues(string(reason))
	}
	return metrics{
		resets: resets,
		looks: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "fanmail_stream_look_duration_seconds", Help: "How long it took to find what had changed in an inbox since a position.",
			Buckets: meter.Requests(),
		}),
		warm: first.WithLabelValues("true"), cold: first.WithLabelValues("false"),
		buckets: meter.NewSizes(registerer, "fanmail_page_buckets", "Buckets that were read for a page without a filter.", 0, 1, 2, 3, 4, 8, 16, 32),
	}
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
