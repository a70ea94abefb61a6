package meter

import "github.com/prometheus/client_golang/prometheus"

// Live is a prometheus.Collector of values that are read together when a scrape asks for them. It may leave out values that it does not
// know at that time. For a single value that is always known, use prometheus.GaugeFunc.
type Live func(values chan<- prometheus.Metric)

// Describe implements prometheus.Collector. It announces no metrics, so Collect may leave out any of them.
func (Live) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (l Live) Collect(values chan<- prometheus.Metric) { l(values) }
