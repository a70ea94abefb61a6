package meter

import "github.com/prometheus/client_golang/prometheus"

// Calls returns the buckets for the durations of store calls: 0.1 ms to 6.5 s.
func Calls() []float64 { return prometheus.ExponentialBuckets(0.0001, 4, 9) }

// Requests returns the buckets for the durations of requests: 1 ms to 16 s.
func Requests() []float64 { return prometheus.ExponentialBuckets(0.001, 2, 15) }

// Journeys returns the buckets for the durations of background work: 10 ms to 12 hours.
func Journeys() []float64 { return prometheus.ExponentialBuckets(0.01, 4, 12) }
