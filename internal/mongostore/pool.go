package mongostore

import (
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
)

// Pool says how long calls may take that share the connections of a client. A call that touches a part of the database that is away holds a
// connection until its time is over. So the more connections are in use, the less time a new call gets: those that wait in vain hold half of them,
// and as many as begin within the least time. The others serve whoever can be served. A call that waits for a new primary holds none. It is safe for
// concurrent use.
type Pool struct {
	half     int64 // of the connections; 0 means that there is no limit
	inUse    atomic.Int64
	answered atomic.Int64 // how long the call took that was answered last, a time.Duration
}

const (
	// leastPart is which part of the timeout each call gets at least.
	leastPart = 40
	// answerFactor is how many times as long as the last answered call each call gets at least. Where the whole database is slow, shorter
	// deadlines would only repeat its work.
	answerFactor = 16
)

// NewPool returns the Pool of a number of connections; 0 means that there is no limit.
func NewPool(connections uint64) *Pool { return &Pool{half: int64(min(connections/2, 1<<30))} }

// Limit returns how long a call that begins now may take instead of timeout.
func (p *Pool) Limit(timeout time.Duration) time.Duration {
	if p.half == 0 {
		return timeout
	}
	least := max(timeout/leastPart, answerFactor*time.Duration(p.answered.Load()))
	return min(timeout, max(least, timeout*time.Duration(p.half-p.inUse.Load())/time.Duration(p.half)))
}

// Answered notes how long a call took that was answered.
func (p *Pool) Answered(took time.Duration) { p.answered.Store(int64(took)) }

// Use notes that so many more connections are in use, or fewer.
func (p *Pool) Use(connections int64) { p.inUse.Add(connections) }

func (p *Pool) monitor() *event.PoolMonitor {
	return &event.PoolMonitor{Event: func(e *event.PoolEvent) {
		switch e.Type {
		case event.ConnectionCheckedOut:
			p.Use(1)
		case event.ConnectionCheckedIn:
			p.Use(-1)
		}
	}}
}
