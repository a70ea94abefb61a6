package mongostore

import (
	"sync/atomic"
	"time"
)

// Pool says how long the calls may take that share the connections of a client. A call that touches a part of the database that is away holds a
// connection until its time is over. So the more calls are under way, the less time a new one gets: those that wait in vain hold half of the
// connections, and what comes within the least time. The others serve whoever can be served. It is safe for concurrent use.
type Pool struct {
	half     int64 // of the connections; 0 means that there is no limit
	underWay atomic.Int64
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
func NewPool(connections uint64) *Pool {
	return &Pool{half: int64(min(connections/2, 1<<30))}
}

// Begin begins a call, and returns how long it may take instead of timeout. The caller calls end when it has ended, with how long it took if it was
// answered, or 0.
func (p *Pool) Begin(timeout time.Duration) (limit time.Duration, end func(answered time.Duration)) {
	others := p.underWay.Add(1) - 1
	limit = timeout
	if p.half > 0 {
		least := max(timeout/leastPart, answerFactor*time.Duration(p.answered.Load()))
		limit = min(timeout, max(least, timeout*time.Duration(p.half-others)/time.Duration(p.half)))
	}
	return limit, func(answered time.Duration) {
		p.underWay.Add(-1)
		if answered > 0 {
			p.answered.Store(int64(answered))
		}
	}
}
