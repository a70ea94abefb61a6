package meter

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Sizes is a histogram of small whole numbers that is filled in bulk: whoever handles thousands of things at a time counts them in a
// Tally, and adds that once. It is a prometheus.Collector, and safe for concurrent use.
type Sizes struct {
	desc   *prometheus.Desc
	bounds []int
	counts [mostSize + 1]atomic.Uint64
}

// mostSize is from which number on all are counted as one.
const mostSize = 64

// Tally counts numbers. The zero Tally has counted nothing.
type Tally [mostSize + 1]uint64

// Count counts one number.
func (t *Tally) Count(size int) { t[min(max(size, 0), mostSize)]++ }

// NewSizes returns a histogram with ascending upper bounds below 64. What is 64 or more counts as 64.
func NewSizes(name, help string, bounds ...int) *Sizes {
	return &Sizes{desc: prometheus.NewDesc(name, help, nil, nil), bounds: bounds}
}

// Add adds what was counted.
func (s *Sizes) Add(t *Tally) {
	for size, n := range t {
		if n > 0 {
			s.counts[size].Add(n)
		}
	}
}

// Describe implements prometheus.Collector.
func (s *Sizes) Describe(descs chan<- *prometheus.Desc) { descs <- s.desc }

// Collect implements prometheus.Collector.
func (s *Sizes) Collect(metrics chan<- prometheus.Metric) {
	var count, sum uint64
	buckets := make(map[float64]uint64, len(s.bounds))
	for size := range s.counts {
		n := s.counts[size].Load()
		count += n
		sum += n * uint64(size)
		for _, bound := range s.bounds {
			if size <= bound {
				buckets[float64(bound)] += n
			}
		}
	}
	metrics <- prometheus.MustNewConstHistogram(s.desc, count, float64(sum), buckets)
}
