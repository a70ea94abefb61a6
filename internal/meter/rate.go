package meter

import (
	"math"
	"sync"
	"time"
)

// remembered is the age at which an event in a Rate counts for about a third (1/e). It is longer than the pauses between the rounds of a
// large fan-out, and short enough to show a change within minutes.
const remembered = 5 * time.Minute

// Rate measures how often an event has happened in the last minutes. Older events count less and less, so the rate falls slowly when
// the events end. The zero Rate has no events. Rate is safe for concurrent use.
type Rate struct {
	mu    sync.Mutex
	began time.Time
	seen  time.Time
	// weight is the sum of the weights that the events had at the time seen.
	weight float64
}

// Add records that the event has happened the given number of times.
func (r *Rate) Add(now time.Time, times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() {
		r.began, r.seen = now, now
	}
	r.weight = r.at(now) + float64(times)
	r.seen = now
}

// PerSecond returns the rate at a time.
func (r *Rate) PerSecond(now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() {
		return 0
	}
	// A new Rate has no events from before began, so the divisor grows with its age. The age is at least a second: otherwise one event
	// would give a rate of thousands.
	age := max(now.Sub(r.began), r.seen.Sub(r.began), time.Second)
	return r.at(now) / (remembered.Seconds() * (1 - math.Exp(-age.Seconds()/remembered.Seconds())))
}

// at returns the weight at a time. It does not grow if the clock goes back.
func (r *Rate) at(now time.Time) float64 {
	return r.weight * math.Exp(-max(0, now.Sub(r.seen)).Seconds()/remembered.Seconds())
}
