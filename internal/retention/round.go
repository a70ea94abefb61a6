package retention

import (
	"context"
	"errors"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// ErrChanged says that the record is another one than the caller has read.
var ErrChanged = errors.New("the record of the walk over all users has changed")

// Round is a round through all users.
type Round struct {
	// Revision counts the changes of the record; 0 means that there is none. A store sets it: each change adds 1.
	Revision int64
	// Began is when the round began, in milliseconds.
	Began time.Time
	// Ended says that all users were looked at.
	Ended bool
	// Partition and After are the place that the round has reached: the users of all lower partitions are done, and in Partition those
	// with ids up to After.
	Partition int
	After     message.UserID
	// Token names the process that walks, and Until is when its lease ends, in milliseconds. They are zero if no process walks.
	Token string
	Until time.Time
}

// Store holds the Round. It is safe for concurrent use.
type Store interface {
	// Load returns the record. It sees every change that had returned before the call.
	Load(ctx context.Context) (Round, error)

	// Replace replaces the record that the caller has loaded, of which the revision is enough, by another one. It returns ErrChanged
	// if the stored record has another revision. Then it has changed nothing, or a reply was lost and the change is the caller's own.
	// After another error the change may have happened. A crash may lose it: then a part of the round is repeated.
	Replace(ctx context.Context, from, to Round) error
}

// due reports whether a process should walk now: a round is under way that no process walks, or the next one is due. A time that is later
// than any process can have set it was set by a clock that was ahead.
func (r Round) due(now time.Time, every, tolerance time.Duration) bool {
	if r.Ended || r.Revision == 0 {
		return !now.Before(r.Began.Add(every)) || r.Began.After(now.Add(tolerance))
	}
	return r.Until.Before(now) || r.Until.After(now.Add(lease+tolerance))
}

// taken returns the round for a process that walks from now on: a new one if the last has ended, else the one under way.
func (r Round) taken(token string, now time.Time) Round {
	if r.Ended || r.Revision == 0 {
		r = Round{Revision: r.Revision, Began: now.UTC().Truncate(time.Millisecond)}
	}
	r.Token = token
	return r.renewed(now)
}

// renewed returns the round with a lease that begins now.
func (r Round) renewed(now time.Time) Round {
	r.Until = now.Add(lease).UTC().Truncate(time.Millisecond)
	return r
}

// free returns the round when no process walks.
func (r Round) free() Round {
	r.Token, r.Until = "", time.Time{}
	return r
}

// at returns the round at a later place.
func (r Round) at(partition int, after message.UserID) Round {
	r.Partition, r.After = partition, after
	return r
}

// ended returns the round after its last user.
func (r Round) ended() Round {
	return Round{Revision: r.Revision, Began: r.Began, Ended: true}
}
