package retention

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanmail/fanmail/pkg/message"
)

// queue holds users who wait in memory, each once. It is safe for concurrent use.
type queue struct {
	waiting chan message.UserID
	full    prometheus.Counter

	mu     sync.Mutex
	queued map[message.UserID]bool
}

// newQueue returns a queue for at most size users. It counts those who do not fit.
func newQueue(size int) *queue {
	return &queue{waiting: make(chan message.UserID, size), queued: make(map[message.UserID]bool)}
}

// add lets a user wait. It does not block: a user who does not fit is left to the walk.
func (q *queue) add(user message.UserID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queued[user] {
		return
	}
	select {
	case q.waiting <- user:
		q.queued[user] = true
	default:
		q.full.Inc()
	}
}

// length returns how many users wait.
func (q *queue) length() float64 { return float64(len(q.waiting)) }

// serve calls do with one user after the other, until ctx ends. A user who is added while do works on them waits again.
func (q *queue) serve(ctx context.Context, do func(message.UserID)) {
	for {
		select {
		case <-ctx.Done():
			return
		case user := <-q.waiting:
			q.mu.Lock()
			delete(q.queued, user)
			q.mu.Unlock()
			do(user)
		}
	}
}
