package fanout

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/fanmail/fanmail/internal/meter"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// The reasons why a delivery is left to rehydration.
const (
	skipNeverSeen = iota
	skipDormant
	skipRehydrating
	skipGap
	skipReasons
)

// skipNames are the reasons as values of a metric's label.
var skipNames = [skipReasons]string{"never_seen", "dormant", "rehydrating", "gap"}

// skipReason returns why userstate.Rules.Deliver leaves a message, sent at the given time, to rehydration.
func skipReason(s userstate.State, sent time.Time) int {
	switch {
	case !s.Known():
		return skipNeverSeen
	case s.Mark != nil && sent.After(s.Mark.From):
		return skipRehydrating
	case s.InGap(sent):
		return skipGap
	default:
		return skipDormant
	}
}

// lane holds what a Deliverer counts for one lane, and the worker slots of the lane.
type lane struct {
	deliveries, duplicates prometheus.Counter
	skipped                [skipReasons]prometheus.Counter
	batches, messages      prometheus.Observer
	finished, continued    prometheus.Counter

	// slots holds one element for each worker slot that is acquired or kept.
	slots chan struct{}
	// rate is how many tasks are finished per second.
	rate meter.Rate
}

// delivererMetrics holds what a Deliverer counts.
type delivererMetrics struct {
	lanes   map[event.Lane]*lane
	retries prometheus.Counter
}

func newDelivererMetrics(registerer prometheus.Registerer, workers map[event.Lane]int) delivererMetrics {
	factory := promauto.With(registerer)
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"lane"}, labels...))
	}
	measure := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return factory.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"lane"})
	}
	deliveries := count("fanmail_deliveries_total", "Entries that fan-out has appended to inboxes.")
	duplicates := count("fanmail_duplicate_deliveries_total", "Entries that fan-out was to append, and that were in their inboxes already.")
	skipped := count("fanmail_skipped_deliveries_total", "Deliveries that fan-out has left to rehydration.", "reason")
	finished := count("fanmail_tasks_finished_total", "Tasks that have left the queue for good, for their scan was at its end.")
	continued := count("fanmail_tasks_continued_total", "Tasks that were put back into the queue to be continued.")
	batches := measure("fanmail_batch_duration_seconds", "How long a batch took, from reading its tasks to recording them.", meter.Journeys())
	messages := measure("fanmail_fanout_duration_seconds", "From sending a message to its end in all partitions.", meter.Journeys())
	most := factory.NewGaugeVec(prometheus.GaugeOpts{
		Name: "fanmail_workers", Help: "Batches of a lane that this process works on at a time, at most.",
	}, []string{"lane"})
	m := delivererMetrics{
		lanes:   make(map[event.Lane]*lane),
		retries: newRetries(registerer, "deliver"),
	}
	for _, name := range event.Lanes() {
		label := string(name)
		l := &lane{
			deliveries: deliveries.WithLabelValues(label), duplicates: duplicates.WithLabelValues(label),
			finished: finished.WithLabelValues(label), continued: continued.WithLabelValues(label),
			batches: batches.WithLabelValues(label), messages: messages.WithLabelValues(label),
			slots: make(chan struct{}, workers[name]),
		}
		for reason, word := range skipNames {
			l.skipped[reason] = skipped.WithLabelValues(label, word)
		}
		m.lanes[name] = l
		most.WithLabelValues(label).Set(float64(cap(l.slots)))
		factory.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fanmail_workers_busy", Help: "Batches of a lane that this process is working on.",
			ConstLabels: prometheus.Labels{"lane": label},
		}, func() float64 { return float64(len(l.slots)) })
	}
	return m
}

// newRetries returns the counter of the repeated attempts of a stage of fan-out.
func newRetries(registerer prometheus.Registerer, stage string) prometheus.Counter {
	return promauto.With(registerer).NewCounter(prometheus.CounterOpts{
		Name: "fanmail_fanout_retries_total", Help: "Attempts of fan-out that have failed and are repeated.",
		ConstLabels: prometheus.Labels{"stage": stage},
	})
}

// measure counts a batch that is done.
func (b *batch) measure(began time.Time) {
	if b.lane == nil {
		return
	}
	now := b.deliverer.opts.Now()
	b.lane.batches.Observe(now.Sub(began).Seconds())
	b.lane.continued.Add(float64(len(b.continuations)))
	b.lane.finished.Add(float64(len(b.ended)))
	b.lane.rate.Add(now, len(b.ended))
}

// measureMessage counts a message that is done in all partitions, if this batch has completed its scan in this
// partition. If two batches complete a message at the same time, both may count it.
func (b *batch) measureMessage(id message.ID) {
	if slices.Contains(b.endedHere, id) {
		b.lane.messages.Observe(b.deliverer.opts.Now().Sub(id.Time()).Seconds())
	}
}

// FinishRate returns how many tasks of a lane this process has finished per second in the last minutes.
func (d *Deliverer) FinishRate(name event.Lane) float64 {
	return d.metrics.lanes[name].rate.PerSecond(d.opts.Now())
}

// routerMetrics holds what a Router counts.
type routerMetrics struct {
	routed    map[event.Lane]prometheus.Counter
	void      prometheus.Counter
	retries   prometheus.Counter
	deferrals prometheus.Counter
}

func newRouterMetrics(registerer prometheus.Registerer) routerMetrics {
	factory := promauto.With(registerer)
	routed := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "fanmail_routed_messages_total", Help: "Messages whose tasks were put into the queues of a lane.",
	}, []string{"lane"})
	m := routerMetrics{
		routed: make(map[event.Lane]prometheus.Counter),
		void: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_void_messages_total", Help: "Messages that were stored too late to count, and are delivered to nobody.",
		}),
		retries: newRetries(registerer, "route"),
		deferrals: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_route_deferrals_total", Help: "Times that a message could not be routed, and has made way for others.",
		}),
	}
	for _, name := range event.Lanes() {
		m.routed[name] = routed.WithLabelValues(string(name))
	}
	return m
}

// newSwept returns the counter of the messages that a Sweeper has emitted again.
func newSwept(registerer prometheus.Registerer) prometheus.Counter {
	return promauto.With(registerer).NewCounter(prometheus.CounterOpts{
		Name: "fanmail_swept_messages_total", Help: "Messages that had not moved for too long, and were routed again.",
	})
}
