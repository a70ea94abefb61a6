package userstate

import "time"

// Retention says what of an inbox is kept. Its zero value keeps everything. If both are set, a message expires as soon as either says so.
type Retention struct {
	// MaxAge is how long after it was sent a message expires; 0 means never.
	MaxAge time.Duration
	// Newest is how many messages an inbox keeps at least; older ones expire. 0 means all.
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
