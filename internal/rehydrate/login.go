package rehydrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// pollEvery is how often a caller reads the user's state while it waits for a rehydration of another process.
const pollEvery = 100 * time.Millisecond

// Login records that a user has viewed the inbox at the given time. If the user was dormant, Login waits for the rebuilt inbox, at
// most as long as wait; Result.Done reports whether it is complete. All callers that wait for the same rehydration get the same
// result. A Login that returns survives a crash.
func (s *Service) Login(ctx context.Context, user message.UserID, at time.Time, wait time.Duration) (Result, error) {
	rules := s.opts.Rules()
	before, after, err := s.arrive(ctx, rules, user, at, durable)
	if err != nil {
		return Result{}, err
	}
	result := Result{Was: s.was(before, rules)}
	if !before.Rehydrating() && !after.Rehydrating() {
		result.Done = true
		return result, nil
	}
	finished, err := s.await(ctx, user, wait, complete)
	switch {
	case errors.Is(err, ErrUnfinished):
		return result, nil
	case err != nil:
		return Result{}, err
	}
	result.Done, result.Recovered = true, finished.Recovered
	return result, nil
}

// complete reports whether no rehydration of the user is due or under way.
func complete(st userstate.State) bool { return !st.Rehydrating() }

// Arrive records that a user has viewed the inbox at the given time, and returns the user's state. If the state has a mark, the
// inbox is being rebuilt or waits to be; Arrive does not wait for it.
func (s *Service) Arrive(ctx context.Context, user message.UserID, at time.Time) (userstate.State, error) {
	_, after, err := s.arrive(ctx, s.opts.Rules(), user, at, durable)
	return after, err
}

// ArriveLazily is Arrive without a sync. A crash can lose the login, together with all later writes. Use it for page views: the
// next view records the login again.
func (s *Service) ArriveLazily(ctx context.Context, user message.UserID, at time.Time) (userstate.State, error) {
	_, after, err := s.arrive(ctx, s.opts.Rules(), user, at, lazy)
	return after, err
}

// Complete waits until no rehydration of the user is due or under way, its sweep included, and returns the user's state. If no worker
// has the rehydration, Complete starts it. It returns ErrUnfinished after Options.Patience.
func (s *Service) Complete(ctx context.Context, user message.UserID) (userstate.State, error) {
	st, err := s.state(ctx, user)
	if err != nil || complete(st) {
		return st, err
	}
	return s.await(ctx, user, s.opts.Patience, complete)
}

// See records that a user was seen at the given time. If the user was dormant or is new, See waits for the rebuilt inbox, as
// Complete does.
func (s *Service) See(ctx context.Context, user message.UserID, at time.Time) error {
	_, after, err := s.arrive(ctx, s.opts.Rules(), user, at, durable)
	if err == nil && after.Mark != nil {
		_, err = s.Complete(ctx, user)
	}
	return err
}

// noticeWait is how long Notice waits for the inbox of a user who was dormant or is new.
const noticeWait = 2 * time.Second

// Notice records that a user has acted at the given time, which counts as a view. If the user was dormant or is new, and this process
// rebuilds inboxes, Notice waits a while for the rebuilt inbox: fan-out delivers the next messages to it. The rebuild continues after the
// wait.
func (s *Service) Notice(ctx context.Context, user message.UserID, at time.Time) error {
	after, err := s.Arrive(ctx, user, at)
	if err != nil || after.Mark == nil || s.opts.Elsewhere {
		return err
	}
	_, err = s.await(ctx, user, noticeWait, func(st userstate.State) bool { return st.Mark == nil })
	if errors.Is(err, ErrUnfinished) {
		return nil
	}
	return err
}

func (s *Service) was(before userstate.State, rules userstate.Rules) Was {
	switch {
	case !before.Known() || before.Mark != nil && before.Mark.From.IsZero():
		return WasNew
	case before.Mark != nil || !rules.Active(before, s.opts.Now()):
		return WasDormant
	default:
		return WasActive
	}
}

// arrive records a view, and returns the user's state before and after it. It enqueues a new mark, or a new sweep that does not end at
// once.
func (s *Service) arrive(
	ctx context.Context, rules userstate.Rules, user message.UserID, at time.Time, d durability,
) (before, after userstate.State, err error) {
	// The clock that decides whether the user is active is read before the update takes effect, so the update must be quick.
	ctx, cancel := context.WithTimeout(ctx, rules.ClockTolerance/2)
	defer cancel()
	// The usual case: an active user takes one conditional update.
	view := rules.View(user, at, s.opts.Now())
	view.Lazy = bool(d)
	viewed, err := s.stores.Users.View(ctx, []userstate.View{view})
	if err != nil {
		return before, after, fmt.Errorf("view of %s: %w", user, err)
	}
	before = viewed[0].Previous
	if viewed[0].Applied && before.Mark == nil {
		s.opts.Tally.Returned(before.LastViewed, at)
		return before, before, nil
	}
	var expired message.ID // the rehydration reads it again, when the record is there
	if !before.Known() {
		if expired, err = s.opts.Expired(ctx, s.opts.Retention(), true); err != nil {
			return before, after, err
		}
	}
	var lease userstate.Lease
	after, err = s.step(ctx, before, d, func(st userstate.State) (userstate.State, error) {
		now := s.opts.Now()
		if before.Mark == nil { // if the first read found a mark, the caller returned to a dormant user, even if the mark is gone now
			before = st
		}
		lease = s.lease(st, now)
		next := rules.Arrive(st, at, now, lease)
		if !st.Known() && next.Purged.Less(expired) {
			next.Purged = expired
		}
		return next, nil
	})
	if err != nil {
		return before, after, err
	}
	s.opts.Tally.Returned(before.LastViewed, at)
	if after.Mark == nil && after.Sweep != nil && after.Lease.Token == lease.Token {
		after = s.endDebt(ctx, after, d)
	}
	if after.Rehydrating() {
		s.enqueue(ctx, after, lease.Token)
	}
	return before, after, nil
}

// endDebt removes the sweep that a raise of the horizon has just left, if no message was sent since its begin. The horizon of an active
// user is weeks ahead, so this is the usual case, and one look into an index takes the place of a sweep. If a gap has to be counted
// meanwhile, the token is lost, and the sweep remains. It also remains if the store fails: the raise has taken effect, so the login has.
func (s *Service) endDebt(ctx context.Context, raised userstate.State, d durability) userstate.State {
	later, err := s.stores.Messages.AnyAfter(ctx, message.LastBefore(raised.Sweep.From))
	if err != nil {
		s.logLeft(ctx, raised, err)
		return raised
	}
	if later {
		return raised
	}
	ended, err := s.step(ctx, raised, d, func(st userstate.State) (userstate.State, error) {
		next, _ := st.Finish(raised.Lease.Token, 0, nil)
		return next, nil
	})
	if err != nil {
		s.logLeft(ctx, raised, err)
	}
	return ended
}

func (s *Service) logLeft(ctx context.Context, st userstate.State, err error) {
	if errors.Is(context.Cause(ctx), context.Canceled) { // the user has gone away
		s.opts.Logger.Debug().Err(err).Str("user", string(st.User)).Msg("a login has ended before its horizon was settled: a sweep settles it")
		return
	}
	s.opts.Logger.Warn().Err(err).Str("user", string(st.User)).Msg("a raised horizon could not be settled at once: a sweep settles it")
}

// durability says whether a change of a user's state must survive a crash by itself. A login must. The later changes need not,
// because the worker that finds the mark repeats them.
type durability bool

const (
	durable durability = false
	lazy    durability = true
)

// step changes a user's state by compare-and-swap, starting from the state in seen. It applies change again to each newer state that
// it finds, and returns the resulting state.
func (s *Service) step(
	ctx context.Context, seen userstate.State, d durability, change func(userstate.State) (userstate.State, error),
) (userstate.State, error) {
	for {
		next, err := change(seen)
		if err != nil || next.Same(seen) {
			return seen, err
		}
		stepped, err := s.stores.Users.Step(ctx, []userstate.Step{{From: seen, To: next, Lazy: bool(d)}})
		if err != nil {
			return seen, fmt.Errorf("state of %s: %w", seen.User, err)
		}
		if seen = stepped[0].State; stepped[0].Applied {
			return seen, nil
		}
	}
}

// await waits until wanted accepts the state of a user, and returns that state. It returns ErrUnfinished after wait. It takes over a
// rehydration whose lease has ended.
func (s *Service) await(
	ctx context.Context, user message.UserID, wait time.Duration, wanted func(userstate.State) bool,
) (userstate.State, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		st, err := s.state(ctx, user)
		if err != nil || wanted(st) {
			return st, err
		}
		if s.dead().Holds(st.Lease) {
			if err := s.takeOver(ctx, st); err != nil {
				return st, err
			}
		}
		var done <-chan struct{}
		tick := poll.C
		if j := s.job(user); j != nil { // a job of this process needs no polling
			done, tick = j.done, nil
		}
		select {
		case <-done:
		case <-tick:
		case <-over.C:
			return st, fmt.Errorf("%s: %w", user, ErrUnfinished)
		case <-ctx.Done():
			return st, ctx.Err()
		}
	}
}
