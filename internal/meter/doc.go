// Package meter has the instruments that Prometheus' client lacks: rates of the last minutes, histograms that are filled in bulk, and
// values that are read when a scrape asks for them.
package meter
