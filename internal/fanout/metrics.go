package fanout

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/fanmail/fanmail/internal/meter"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// The reasons why a delivery is left to rehydration or, if records of the recipient are damaged, to a dead letter.
const (
	skipNeverSeen = iota
	skipDormant
	skipRehydrating
	skipGap
	skipDamaged
	skipReasons
)

// skipNames are the reasons as values of a metric's label.
var skipNames = [skipReasons]string{"never_seen", "dormant", "rehydrating", "gap", "damaged"}

// skipReason returns why userstate.State.Deliver leaves a message, sent at the given time, to rehydration.
func skipReason(s *userstate.State, sent time.Time) int {
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

// passMetrics holds what passes count for one lane.
type passMetrics struct {
	deliveries, duplicates prometheus.Counter
	skipped                [skipReasons]prometheus.Counter
	messages               prometheus.Observer
}

func newPassMetrics(registerer prometheus.Registerer, lane event.Lane) passMetrics {
	factory, labels := promauto.With(registerer), prometheus.Labels{"lane": string(lane)}
	skipped := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "fanmail_skipped_deliveries_total", ConstLabels: labels,
		Help: "Deliveries that fan-out has left to rehydration, or to a dead letter because records of the recipient are damaged.",
	}, []string{"reason"})
	m := passMetrics{
		deliveries: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_deliveries_total", Help: "Entries that fan-out has appended to inboxes.", ConstLabels: labels,
		}),
		duplicates: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_duplicate_deliveries_total", ConstLabels: labels,
			Help: "Entries that fan-out was to append, and that were in their inboxes already. Head starts and their recipients do not count.",
		}),
		messages: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "fanmail_fanout_duration_seconds", Help: "From sending a message to its end.", ConstLabels: labels, Buckets: meter.Journeys(),
		}),
	}
	for reason, word := range skipNames {
		m.skipped[reason] = skipped.WithLabelValues(word)
	}
	return m
}

// lane holds what a Deliverer counts for one lane, and the worker slots of the lane.
type lane struct {
	passMetrics
	batches             prometheus.Observer
	finished, continued prometheus.Counter
	stuck               prometheus.Counter

	slots    *workerSlots
	underWay underWay
}

// delivererMetrics holds what a Deliverer counts.
type delivererMetrics struct {
	lanes   map[event.Lane]*lane
	retries prometheus.Counter
}

func newDelivererMetrics(opts Options) delivererMetrics {
	m := delivererMetrics{lanes: make(map[event.Lane]*lane), retries: newRetries(opts.Metrics, "deliver")}
	for _, name := range event.Lanes() {
		m.lanes[name] = newLane(opts, name)
	}
	return m
}

func newLane(opts Options, name event.Lane) *lane {
	factory, labels := promauto.With(opts.Metrics), prometheus.Labels{"lane": string(name)}
	count := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels})
	}
	measure := func(name, help string, value func() float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value)
	}
	l := &lane{
		passMetrics: newPassMetrics(opts.Metrics, name),
		finished:    count("fanmail_tasks_finished_total", "Tasks that have left the queue for good, for their scan was at its end."),
		continued:   count("fanmail_tasks_continued_total", "Tasks that were put back into the queue to be continued."),
		stuck:       count("fanmail_stuck_batches_total", "Batches that were given up, because no call of the store had returned for fanout.stuck_after."),
		batches: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "fanmail_batch_duration_seconds", Help: "How long a batch took, from reading its tasks to recording them.", ConstLabels: labels, Buckets: meter.Journeys(),
		}),
		slots: newWorkerSlots(opts.Workers[name]),
	}
	measure("fanmail_workers", "Batches of a lane that this process works on at a time, at most.", func() float64 { return float64(l.slots.size) })
	measure("fanmail_workers_busy", "Batches of a lane that this process is working on.", func() float64 { return float64(l.slots.inUse()) })
	measure("fanmail_batch_oldest_seconds", "Age of the oldest batch of a lane that this process is working on, or 0.", func() float64 {
		return l.underWay.oldest(opts.Now()).Seconds()
	})
	return l
}

// newRetries returns the counter of the repeated attempts of a stage of fan-out.
func newRetries(registerer prometheus.Registerer, stage string) prometheus.Counter {
	return promauto.With(registerer).NewCounter(prometheus.CounterOpts{
		Name: "fanmail_fanout_retries_total", Help: "Attempts of fan-out that have failed and are repeated.",
		ConstLabels: prometheus.Labels{"stage": stage},
	})
}

// The reasons why a head start is dropped.
const (
	droppedBusy = iota
	droppedError
	droppedDamaged
	droppedPanic
	dropReasons
)

// dropNames are the reasons as values of a metric's label.
var dropNames = [dropReasons]string{"busy", "error", "damaged", "panic"}

// headStartMetrics holds what a headStarter counts.
type headStartMetrics struct {
	lanes   map[event.Lane]*passMetrics
	wait    prometheus.Observer
	dropped [dropReasons]prometheus.Counter
}

func newHeadStartMetrics(registerer prometheus.Registerer) headStartMetrics {
	factory := promauto.With(registerer)
	deliveries := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "fanmail_head_start_deliveries_total", Help: "Entries that head starts have appended to inboxes. They are no part of the deliveries.",
	}, []string{"lane"})
	dropped := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "fanmail_head_starts_dropped_total", Help: "Head starts that were dropped: their recipients wait for the scan.",
	}, []string{"reason"})
	m := headStartMetrics{
		lanes: make(map[event.Lane]*passMetrics),
		wait: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "fanmail_head_start_wait_seconds", Help: "From sending a message to the end of its head start.", Buckets: meter.Journeys(),
		}),
	}
	for _, lane := range event.Lanes() {
		counts := newPassMetrics(nil, lane) // of which only one is registered: the scan counts the others
		counts.deliveries = deliveries.WithLabelValues(string(lane))
		m.lanes[lane] = &counts
	}
	for reason, word := range dropNames {
		m.dropped[reason] = dropped.WithLabelValues(word)
	}
	return m
}

// drop counts a head start that was dropped because of an error.
func (m headStartMetrics) drop(err error) {
	switch {
	case panics.Is(err):
		m.dropped[droppedPanic].Inc()
	case Classify(err) == DeadLetter:
		m.dropped[droppedDamaged].Inc()
	default:
		m.dropped[droppedError].Inc()
	}
}

// measure counts a batch that is done.
func (b *batch) measure(began time.Time) {
	if b.lane == nil {
		return
	}
	b.lane.batches.Observe(b.opts.Now().Sub(began).Seconds())
	b.lane.continued.Add(float64(len(b.continuations)))
	b.lane.finished.Add(float64(len(b.ended)))
}

// routerMetrics holds what a Router counts.
type routerMetrics struct {
	direct     *passMetrics
	routed     map[event.Lane]prometheus.Counter
	void       prometheus.Counter
	retries    prometheus.Counter
	handedOver prometheus.Counter
	deferrals  prometheus.Counter
}

func newRouterMetrics(registerer prometheus.Registerer) routerMetrics {
	factory := promauto.With(registerer)
	routed := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "fanmail_routed_messages_total", Help: "Messages that the router has delivered itself (direct), or whose tasks it has put into the queues of a lane.",
	}, []string{"lane"})
	direct := newPassMetrics(registerer, event.Direct)
	m := routerMetrics{
		direct: &direct, routed: make(map[event.Lane]prometheus.Counter),
		handedOver: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_handed_over_messages_total", Help: "Small messages that the router could not deliver itself, and has left to the workers.",
		}),
		void: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_void_messages_total", Help: "Messages that were stored too late, or ahead of the store's clock, and have no recipients.",
		}),
		retries: newRetries(registerer, "route"),
		deferrals: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_route_deferrals_total", Help: "Times that a message could not be routed, and has made way for others.",
		}),
	}
	for _, name := range append(event.Lanes(), event.Direct) {
		m.routed[name] = routed.WithLabelValues(string(name))
	}
	return m
}

// resumerMetrics holds what a Resumer counts.
type resumerMetrics struct {
	resumed               prometheus.Counter
	done, waiting, failed prometheus.Counter
}

func newResumerMetrics(registerer prometheus.Registerer) resumerMetrics {
	factory := promauto.With(registerer)
	looks := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "fanmail_resume_looks_total", Help: "Looks for messages that do not move, by their result: done, waiting for what is on the bus, or failed.",
	}, []string{"result"})
	return resumerMetrics{
		resumed: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_resumed_messages_total", Help: "Messages that had not moved for too long, and were routed again.",
		}),
		done: looks.WithLabelValues("done"), waiting: looks.WithLabelValues("waiting"), failed: looks.WithLabelValues("failed"),
	}
}

// look counts a look that has failed, or left so many messages that may be on the bus.
func (m resumerMetrics) look(err error, waiting int) {
	switch {
	case err != nil:
		m.failed.Inc()
	case waiting > 0:
		m.waiting.Inc()
	default:
		m.done.Inc()
	}
}
