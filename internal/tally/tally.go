package tally

import (
	"sync/atomic"
	"time"
)

// Tally holds the counters of this process. It is safe for concurrent use, and the zero Tally is ready to use. A nil Tally counts nothing.
type Tally struct{ numbers [numbers]atomic.Int64 }

// Add adds counters. Callers count in Counters of their own and add them once a batch.
func (t *Tally) Add(c Counters) {
	if t == nil {
		return
	}
	for i, n := range numbersOf(&c) {
		if *n != 0 {
			t.numbers[i].Add(*n)
		}
	}
}

// Returned counts a return of a user who last looked at a time, which is zero if never.
func (t *Tally) Returned(last, now time.Time) {
	var c Counters
	c.Returned[Step(last, now)] = 1
	t.Add(c)
}

// Read returns the counters.
func (t *Tally) Read() (c Counters) {
	if t == nil {
		return c
	}
	for i, n := range numbersOf(&c) {
		*n = t.numbers[i].Load()
	}
	return c
}
