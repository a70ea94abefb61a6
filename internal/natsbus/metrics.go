package natsbus

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanmail/fanmail/internal/meter"
	"github.com/fanmail/fanmail/pkg/event"
)

// collectWait bounds how long a scrape waits for the server.
const collectWait = 2 * time.Second

var (
	connectedDesc = prometheus.NewDesc("fanmail_bus_connected", "1 while there is a connection to the bus, otherwise 0.", nil, nil)

	tasksDesc      = prometheus.NewDesc("fanmail_tasks_waiting", "Tasks of a lane on the bus, also those that are worked on.", []string{"lane"}, nil)
	taskAgeDesc    = prometheus.NewDesc("fanmail_tasks_oldest_seconds", "For how long the oldest task of a lane has been on the bus; 0 if there is none.", []string{"lane"}, nil)
	publishedDesc  = prometheus.NewDesc("fanmail_published_waiting", "Published messages on the bus that have not been routed.", nil, nil)
	publishAgeDesc = prometheus.NewDesc("fanmail_published_oldest_seconds", "For how long the oldest message that has not been routed has been on the bus; 0 if there is none.", nil, nil)
	loginsDesc     = prometheus.NewDesc("fanmail_logins_waiting", "Logins on the bus that have not been noted.", nil, nil)
	loginAgeDesc   = prometheus.NewDesc("fanmail_logins_oldest_seconds", "For how long the oldest login that has not been noted has been on the bus; 0 if there is none.", nil, nil)
	deadDesc       = prometheus.NewDesc("fanmail_dead_letters", "Dead letters that no operator has redriven or dropped.", nil, nil)
	bytesDesc      = prometheus.NewDesc("fanmail_stream_bytes", "The size of a stream of the bus.", []string{"stream"}, nil)
	limitDesc      = prometheus.NewDesc("fanmail_stream_limit_bytes", "The size up to which a stream of the bus takes something; 0 if there is no limit.", []string{"stream"}, nil)
)

// metrics counts what a Bus does.
type metrics struct {
	disconnects prometheus.Counter
	given       *prometheus.CounterVec        // dead letters
	deadLetters map[string]prometheus.Counter // by the subject of the dead letter
	missing     prometheus.Counter
}

// newMetrics returns the metrics of a Bus. It does not register them, because Connect may fail and be repeated: register does.
func newMetrics() metrics {
	deadLetters := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanmail_dead_letters_total", Help: "Dead letters that this process has written.",
	}, []string{"work"})
	m := metrics{
		disconnects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_bus_disconnects_total", Help: "How often the connection to the bus was lost.",
		}),
		missing: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_missing_messages_total", Help: "Dead letters whose message the store has lost.",
		}),
		given:       deadLetters,
		deadLetters: make(map[string]prometheus.Counter),
	}
	subjects := []string{deadLetterSubject(publishedSubject), deadLetterSubject(loginSubject), deadLetterDamaged, deadLetterUnknown}
	for _, lane := range event.Lanes() {
		subjects = append(subjects, deadLetterSubject(taskSubject(lane, 0)))
	}
	for _, subject := range subjects {
		m.deadLetters[subject] = deadLetters.WithLabelValues(strings.TrimPrefix(subject, deadLetterPrefix))
	}
	return m
}

// register registers the metrics of a Bus that is connected.
func (b *Bus) register(registerer prometheus.Registerer) {
	if registerer != nil {
		registerer.MustRegister(b.metrics.disconnects, b.metrics.given, b.metrics.missing, meter.Live(b.collect))
	}
}

// collect sends the values that a scrape reads from the server. If the server does not answer, it leaves out the backlog.
func (b *Bus) collect(collected chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		collected <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	if b.nc == nil || !b.nc.IsConnected() {
		gauge(connectedDesc, 0)
		return
	}
	gauge(connectedDesc, 1)
	ctx, cancel := context.WithTimeout(context.Background(), collectWait)
	defer cancel()
	backlog, err := b.Backlog(ctx)
	if err != nil {
		b.complaints.Warn().Err(err).Msg("cannot read the backlog of the bus")
		return
	}
	now := b.opts.Now()
	for lane, queue := range backlog.Tasks {
		gauge(tasksDesc, float64(queue.Messages), string(lane))
		gauge(taskAgeDesc, queue.Age(now).Seconds(), string(lane))
	}
	gauge(publishedDesc, float64(backlog.Published.Messages))
	gauge(publishAgeDesc, backlog.Published.Age(now).Seconds())
	gauge(loginsDesc, float64(backlog.Logins.Messages))
	gauge(loginAgeDesc, backlog.Logins.Age(now).Seconds())
	gauge(deadDesc, float64(backlog.DeadLetters.Messages))
	for _, name := range slices.Sorted(maps.Keys(backlog.Streams)) {
		gauge(bytesDesc, float64(backlog.Streams[name].Bytes), name)
		gauge(limitDesc, float64(backlog.Streams[name].Limit), name)
	}
}
