package meter

import "github.com/prometheus/client_golang/prometheus"

// Calls returns the buckets of the duration of a store's call: 0.1 ms to 6.5 s.
func Calls() []float64 { return prometheus.ExponentialBuckets(0.0001, 4, 9) }

// Requests returns the buckets of the duration of a request: 1 ms to 16 s.
func Requests() []float64 { return prometheus.ExponentialBuckets(0.001, 2, 15) }

// Journeys returns the buckets of the duration of background work: 10 ms to 12 hours.
func Journeys() []float64 { return prometheus.ExponentialBuckets(0.01, 4, 12) }
