// Package meter is what the parts of Fanmail measure themselves with, beyond what Prometheus' client has: collectors of several
// collectors, rates of the last minutes, and histograms that are filled in bulk.
package meter
