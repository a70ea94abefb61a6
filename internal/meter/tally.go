package meter

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Sizes is a histogram of small whole numbers that is filled in bulk. A caller counts thousands of numbers in a Tally and adds the Tally
// once. Sizes is a prometheus.Collector, and safe for concurrent use.
type Sizes struct {
	desc   *prometheus.Desc
	bounds []int
	counts [mostSize + 1]atomic.Uint64
}

// mostSize is the largest number that a Tally counts exactly. Larger numbers count as mostSize.
const mostSize = 64

// Tally counts numbers. The zero Tally is empty.
type Tally [mostSize + 1]uint64

// Count counts one number.
func (t *Tally) Count(size int) { t[min(max(size, 0), mostSize)]++ }

// NewSizes returns a histogram with the given upper bounds, which are ascending and below 64. It registers the histogram unless the
// registerer is nil. A number above 64 counts as 64.
func NewSizes(registerer prometheus.Registerer, name, help string, bounds ...int) *Sizes {
	s := &Sizes{desc: prometheus.NewDesc(name, help, nil, nil), bounds: bounds}
	if registerer != nil {
		registerer.MustRegister(s)
	}
	return s
}

// Add adds the numbers of a Tally.
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
