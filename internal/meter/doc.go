// Package meter has instruments that Prometheus' client lacks: histograms that are filled in bulk, and values that a scrape reads.
package meter
