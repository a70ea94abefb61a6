package meter

import (
	"math"
	"sync"
	"time"
)

// remembered is the time after which an event counts for a third of what it did in a Rate: long enough for the pauses between the
// rounds of a large fan-out, and short enough to follow what happens.
const remembered = 5 * time.Minute

// Rate tells how often something has happened of late. Older events count ever less, so that the rate falls when nothing
// happens any more, and never jumps. The zero Rate has seen nothing. It is safe for concurrent use.
type Rate struct {
	mu    sync.Mutex
	began time.Time
	seen  time.Time
	// weight is the sum of the events as they counted when the last was seen.
	weight float64
}

// Add notes that something has happened so many times by now.
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
	// In the beginning there is less to remember. A second at least, or the first event would be a rate of thousands.
	age := max(now.Sub(r.began), r.seen.Sub(r.began), time.Second)
	return r.at(now) / (remembered.Seconds() * (1 - math.Exp(-age.Seconds()/remembered.Seconds())))
}

// at returns the weight at a time. A clock that goes back does not make it grow.
func (r *Rate) at(now time.Time) float64 {
	return r.weight * math.Exp(-max(0, now.Sub(r.seen)).Seconds()/remembered.Seconds())
}
