package retention

import (
	"context"
	"errors"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
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

	// Number counts the rounds that have begun.
	Number int64
	// AsOf is the time as of which messages expire by age, a reading of the store's clock; zero if there is none yet. It never falls. Reading is the
	// next one, which has to stand for Options.Hold. Both are in milliseconds.
	AsOf, Reading time.Time
	// Target is up to where this round lets messages expire, or proves that they have. The first look of a user begins there.
	Target message.ID
	// Missed says that the round has come to a user who has something up to the target that has not expired.
	Missed bool
	// LowWater is the low-water mark: a round has found that no user has anything up to there. Proven is the number of that round.
	LowWater message.ID
	Proven   int64
	// Users counts the users whom this round has passed, and Counted those of the last round that has ended.
	Users, Counted Census
}

// Census counts users who were ever seen.
type Census struct{ Active, Dormant int64 }

// Counts reports whether a round has ended, so that Counted says something.
func (r Round) Counts() bool { return r.Ended || r.Number > 1 }

// Store holds the Round. It is safe for concurrent use.
type Store interface {
	// Load returns the record. It sees every change that had returned before the call.
	Load(ctx context.Context) (Round, error)

	// Replace replaces the record that the caller has loaded, of which the revision is enough, by another one. It returns ErrChanged
	// if the stored record has another revision. Then it has changed nothing, or a reply was lost and the change is the caller's own.
	// After another error the change may have happened. A crash may lose it: then a part of the round is repeated.
	Replace(ctx context.Context, from, to Round) error
}

// Number returns a function that reads the number of the present round.
func Number(store Store) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		r, err := store.Load(ctx)
		return r.Number, err
	}
}

// Elect returns a function that reports whether the process with the given token has a lease, and takes or renews it if it can. The store is another
// one than that of the walk. A lease makes work cheaper, not safer: two processes may believe that they have it.
func Elect(
	store Store, token string, lasts time.Duration, rules func() userstate.Rules, now func() time.Time,
) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		r, err := store.Load(ctx)
		at := now().UTC().Truncate(time.Millisecond)
		if err != nil || r.Token != token && !r.vacant(at, lasts, rules().ClockTolerance) {
			return false, err
		}
		err = store.Replace(ctx, r, Round{Began: at, Token: token, Until: at.Add(lasts)})
		if errors.Is(err, ErrChanged) {
			return false, nil
		}
		return err == nil, err
	}
}

// over reports whether no round is under way.
func (r Round) over() bool { return r.Ended || r.Revision == 0 }

// due reports whether a process should walk now: a round is under way that no process walks, or the next one is due. A time that is later
// than any process can have set it was set by a clock that was ahead.
func (r Round) due(now time.Time, every, tolerance time.Duration) bool {
	if r.over() {
		return !now.Before(r.Began.Add(every)) || r.Began.After(now.Add(tolerance))
	}
	return r.vacant(now, lease, tolerance)
}

// vacant reports whether no process has the round: the lease, which lasts for the given time, has ended, or was set by a clock that was ahead.
func (r Round) vacant(now time.Time, lasts, tolerance time.Duration) bool {
	return r.Until.Before(now) || r.Until.After(now.Add(lasts+tolerance))
}

// taken returns the round for a process that walks from now on: a new one if the last has ended, else the one under way.
//
// A new one has the target to which messages of all users expire by age. Without such an age there is no low-water mark.
func (r Round) taken(token string, now time.Time, rules userstate.Rules, keep userstate.Retention) Round {
	if r.over() {
		r = Round{
			Revision: r.Revision, Began: now.UTC().Truncate(time.Millisecond), Number: r.Number + 1, AsOf: r.AsOf, Reading: r.Reading,
			LowWater: r.LowWater, Proven: r.Proven, Counted: r.Counted,
		}
		if keep.MaxAge > 0 {
			r.Target = message.Later(r.LowWater, r.expired(rules, keep))
		} else {
			r.LowWater = message.ID{}
		}
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

// with returns the round after it has come to a user.
func (r Round) with(user userstate.Looked, kept Kept, rules userstate.Rules, now time.Time) Round {
	r.Missed = r.Missed || kept.Clear.Less(r.Target)
	switch {
	case user.Err != nil || !user.State.Known():
	case rules.Active(user.State, now):
		r.Users.Active++
	default:
		r.Users.Dormant++
	}
	return r
}

// ended returns the round after its last user. It raises the low-water mark to the target, or proves it again, unless it has missed it.
func (r Round) ended() Round {
	next := Round{
		Revision: r.Revision, Began: r.Began, Ended: true, Number: r.Number, AsOf: r.AsOf, Reading: r.Reading, Target: r.Target,
		LowWater: r.LowWater, Proven: r.Proven, Counted: r.Users,
	}
	if !r.Missed && !r.Target.Less(r.LowWater) {
		next.LowWater, next.Proven = r.Target, r.Number
	}
	return next
}
