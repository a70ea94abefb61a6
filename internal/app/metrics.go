package app

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/fanmail/fanmail/internal/auth"
	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/meter"
	"github.com/fanmail/fanmail/pkg/event"
)

// measureBuild registers the metric that names the version and the roles of this process.
func (a *App) measureBuild() {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	promauto.With(a.opts.Metrics).NewGauge(prometheus.GaugeOpts{
		Name: "fanmail_build_info", Help: "Always 1; the labels name the version, the roles and the store of this process.",
		ConstLabels: prometheus.Labels{
			"version": version, "goversion": runtime.Version(), "roles": a.roles(), "store": a.config.Store,
		},
	}).Set(1)
}

// measureExpiry registers the metrics that name when the certificate and the next token expire, and how many files are missing or refused.
func (a *App) measureExpiry() {
	expiry := func(name, help string, at func() time.Time) {
		promauto.With(a.opts.Metrics).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			if t := at(); !t.IsZero() {
				return float64(t.Unix())
			}
			return 0
		})
	}
	expiry("fanmail_certificate_expires_seconds", "Unix time at which the certificate of the HTTP server expires; 0 without one.", func() time.Time {
		if a.server.tls == nil {
			return time.Time{}
		}
		current, err := a.server.tls.GetCertificate(nil)
		if err != nil || current.Leaf == nil {
			return time.Time{}
		}
		return current.Leaf.NotAfter
	})
	expiry("fanmail_token_expires_seconds", "Unix time at which the next token of the tokens file expires; 0 if none will.", func() time.Time {
		if tokens, ok := a.auth.(*auth.Authenticator); ok {
			return tokens.NextExpiry()
		}
		return time.Time{}
	})
	promauto.With(a.opts.Metrics).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fanmail_stale_files", Help: "Files of tokens, keys and certificates that are missing or refused.",
	}, func() (n float64) {
		for _, stale := range a.stale {
			if stale() {
				n++
			}
		}
		return n
	})
}

var availableDesc = prometheus.NewDesc("fanmail_disk_available_bytes", "Free space on the disk of the embedded store.", nil, nil)

// measure registers the metrics of the disk.
func (r *room) measure(registerer prometheus.Registerer) {
	promauto.With(registerer).NewGauge(prometheus.GaugeOpts{
		Name: "fanmail_disk_min_free_bytes", Help: "Free space below which messages and edges are refused.",
	}).Set(float64(r.least))
	registerer.MustRegister(meter.Live(func(values chan<- prometheus.Metric) {
		if available, err := r.available(); err == nil { // check logs the error
			values <- prometheus.MustNewConstMetric(availableDesc, prometheus.GaugeValue, float64(available))
		}
	}))
}

// drain estimates the time until the lanes are empty.
type drain struct {
	bus bus.Monitor
	// rate returns the number of tasks of a lane that this process finishes per second.
	rate func(event.Lane) float64
}

var drainDesc = prometheus.NewDesc("fanmail_lane_drain_seconds",
	"Time until a lane is empty, if only this process works, at its rate of the last minutes, and no task is added; "+
		"+Inf while there are tasks and it finished none.", []string{"lane"}, nil)

// drainWait is how long a scrape waits for the bus.
const drainWait = 2 * time.Second

// collect sends a value for each lane, or none if the bus does not answer.
func (d *drain) collect(collected chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), drainWait)
	defer cancel()
	backlog, err := d.bus.Backlog(ctx)
	if err != nil { // the bus logs the error
		return
	}
	for lane, queue := range backlog.Tasks {
		collected <- prometheus.MustNewConstMetric(drainDesc, prometheus.GaugeValue, drainSeconds(queue.Messages, d.rate(lane)), string(lane))
	}
}

// drainSeconds returns the number of seconds for a number of tasks at a rate per second.
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
