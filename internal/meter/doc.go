// Package meter has instruments that Prometheus' client lacks: rates of the last minutes, histograms that are filled in bulk, and values
// that a scrape reads.
package meter
