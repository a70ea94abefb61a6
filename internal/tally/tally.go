package tally

import "sync/atomic"

// Tally holds the counters of this process. It is safe for concurrent use, and the zero Tally is ready to use. A nil Tally counts nothing.
type Tally struct{ numbers [12 + 2*steps]atomic.Int64 }

// Add adds counters. Callers count in Counters of their own and add them once a batch.
func (t *Tally) Add(c Counters) {
	if t == nil {
		return
	}
	for i, n := range c.numbers() {
		if *n != 0 {
			t.numbers[i].Add(*n)
		}
	}
}

// Read returns the counters.
func (t *Tally) Read() (c Counters) {
	if t == nil {
		return c
	}
	for i, n := range c.numbers() {
		*n = t.numbers[i].Load()
	}
	return c
}
