package app

import (
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/fanmail/fanmail/internal/auth"
	"github.com/fanmail/fanmail/internal/meter"
)

// version returns the release of this program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// measureBuild registers the metric that names the version and the roles of this process.
func (a *App) measureBuild() {
	promauto.With(a.opts.Metrics).NewGauge(prometheus.GaugeOpts{
		Name: "fanmail_build_info", Help: "Always 1; the labels name the version, the roles and the store of this process.",
		ConstLabels: prometheus.Labels{
			"version": version(), "goversion": runtime.Version(), "roles": a.roles(), "store": a.config.Store,
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
