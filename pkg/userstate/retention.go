package userstate

import (
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// MaxNewest is the greatest Newest of a Retention. It bounds how much one trim reads.
const MaxNewest = 10_000_000

// Retention says what of an inbox is kept. Its zero value keeps everything. If both are set, a message expires as soon as either says so.
type Retention struct {
	// MaxAge is how long after it was sent a message expires; 0 means never.
	MaxAge time.Duration
	// Newest is how many messages an inbox keeps at least; older ones expire. 0 means all. It is at most MaxNewest.
	Newest int64
}

// Within returns the retention that holds for a user with a retention of their own: the shorter MaxAge, and the user's Newest before that of
// the deployment.
func (r Retention) Within(deployment Retention) Retention {
	if r.MaxAge == 0 || deployment.MaxAge > 0 && deployment.MaxAge < r.MaxAge {
		r.MaxAge = deployment.MaxAge
	}
	if r.Newest == 0 {
		r.Newest = deployment.Newest
	}
	return r
}

// Settled returns the highest id to which a purge point may rise at a time unless the user asks for it. Messages with higher ids may still
// arrive in any order. So a clock that is ahead lets no message expire that others publish now.
func (r Rules) Settled(now time.Time) message.ID {
	return message.LastBefore(now.Add(-r.PublishSlack - r.ClockTolerance))
}
