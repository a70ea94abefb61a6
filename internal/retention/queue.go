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

// serve calls do with the users who wait, until ctx ends. It is one of several workers, and takes its share of
// them at a time, at most most, so that the others are not idle. A user who is added while do works on them waits again.
func (q *queue) serve(ctx context.Context, workers, most int, do func(users []message.UserID)) {
	for {
		select {
		case <-ctx.Done():
			return
		case user := <-q.waiting:
			do(q.take(user, workers, most))
		}
	}
}

// take takes a worker's share of the users who wait, in addition to one who was taken and counts among them.
func (q *queue) take(user message.UserID, workers, most int) []message.UserID {
	q.mu.Lock()
	defer q.mu.Unlock()
	users := []message.UserID{user}
	most = min(most, (1+len(q.waiting))/workers)
	for more := true; more && len(users) < most; {
		select {
		case user := <-q.waiting:
			users = append(users, user)
		default:
			more = false
		}
	}
	for _, user := range users {
		delete(q.queued, user)
	}
	return users
}
