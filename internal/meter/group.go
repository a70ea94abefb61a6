package meter

import "github.com/prometheus/client_golang/prometheus"

// Group makes one prometheus.Collector of several.
type Group []prometheus.Collector

// Describe implements prometheus.Collector.
func (g Group) Describe(descs chan<- *prometheus.Desc) {
	for _, c := range g {
		c.Describe(descs)
	}
}

// Collect implements prometheus.Collector.
func (g Group) Collect(metrics chan<- prometheus.Metric) {
	for _, c := range g {
		c.Collect(metrics)
	}
}
