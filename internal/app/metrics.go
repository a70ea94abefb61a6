package app

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/storemetrics"
	"github.com/fanmail/fanmail/pkg/event"
)

// metrics returns what there is to know of the parts that the roles share.
func (w *world) metrics() []prometheus.Collector {
	return append([]prometheus.Collector{w.bus, w.stores}, w.store.Metrics...)
}

// measure returns the parts of a store so that every call is measured.
func (w *world) measure(p Parts, now func() time.Time) Parts {
	w.stores = storemetrics.New(now)
	p.Messages, p.Keys, p.Inbox = w.stores.Messages(p.Messages), w.stores.Keys(p.Keys), w.stores.Inbox(p.Inbox)
	p.Users, p.Edges, p.Progress = w.stores.Users(p.Users), w.stores.Edges(p.Edges), w.stores.Progress(p.Progress)
	return p
}

// build tells what is running here.
func (a *App) build() prometheus.Collector {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	var roles []string
	for _, role := range []Role{Publisher, FanoutWorker, Rehydrator} {
		if a.has(role) {
			roles = append(roles, string(role))
		}
	}
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "fanmail_build_info", Help: "1, for the version that runs here, and the roles that it has.",
		ConstLabels: prometheus.Labels{
			"version": version, "goversion": runtime.Version(), "roles": strings.Join(roles, "+"), "store": a.config.Store,
		},
	})
	gauge.Set(1)
	return gauge
}

var (
	availableDesc = prometheus.NewDesc("fanmail_disk_available_bytes", "How much of the disk of the embedded store is free.", nil, nil)
	leastDesc     = prometheus.NewDesc("fanmail_disk_min_free_bytes", "How much of the disk has to be free for messages and edges to be taken.", nil, nil)
)

// Describe implements prometheus.Collector.
func (r *room) Describe(descs chan<- *prometheus.Desc) {
	descs <- availableDesc
	descs <- leastDesc
}

// Collect implements prometheus.Collector.
func (r *room) Collect(collected chan<- prometheus.Metric) {
	if available, err := r.available(); err == nil { // otherwise check has said so
		collected <- prometheus.MustNewConstMetric(availableDesc, prometheus.GaugeValue, float64(available))
	}
	collected <- prometheus.MustNewConstMetric(leastDesc, prometheus.GaugeValue, float64(r.least))
}

// drain tells when the lanes will be empty. It is a prometheus.Collector.
type drain struct {
	bus bus.Monitor
	// rate returns how many tasks of a lane this process finishes a second.
	rate func(event.Lane) float64
}

var drainDesc = prometheus.NewDesc("fanmail_lane_drain_seconds",
	"How long it takes until a lane is empty, if this process alone goes on as in the last minutes and nothing is added; "+
		"+Inf while there are tasks and it has finished none.", []string{"lane"}, nil)

// drainWait bounds how long somebody who asks for metrics waits for the bus.
const drainWait = 2 * time.Second

// Describe implements prometheus.Collector.
func (d *drain) Describe(descs chan<- *prometheus.Desc) { descs <- drainDesc }

// Collect implements prometheus.Collector. It leaves out what it does not know.
func (d *drain) Collect(collected chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), drainWait)
	defer cancel()
	backlog, err := d.bus.Backlog(ctx)
	if err != nil { // the bus has said so
		return
	}
	for lane, queue := range backlog.Tasks {
		collected <- prometheus.MustNewConstMetric(drainDesc, prometheus.GaugeValue, drainSeconds(queue.Messages, d.rate(lane)), string(lane))
	}
}

// drainSeconds returns in how many seconds so many tasks are finished at a rate per second.
func drainSeconds(tasks uint64, rate float64) float64 {
	switch {
	case tasks == 0:
		return 0
	case rate == 0:
		return math.Inf(1)
	default:
		return float64(tasks) / rate
	}
}
