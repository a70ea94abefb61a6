package rehydrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// pollEvery is how often somebody looks who waits for a rehydration that is not carried out here.
const pollEvery = 100 * time.Millisecond

// Login notes that a user has looked at the given time. If they were dormant, their inbox is rebuilt, for which Login waits
// until the wait is over. Whoever waits for the same rehydration gets the same result.
func (s *Service) Login(ctx context.Context, user message.UserID, at time.Time, wait time.Duration) (Result, error) {
	rules := s.opts.Rules()
	before, after, err := s.arrive(ctx, rules, user, at, durable)
	if err != nil {
		return Result{}, err
	}
	result := Result{Was: s.was(before, rules)}
	if before.Mark == nil && after.Mark == nil {
		result.Done = true
		return result, nil
	}
	finished, err := s.await(ctx, user, wait, func(st userstate.State) bool { return st.Mark == nil && st.Sweep == nil })
	switch {
	case errors.Is(err, ErrUnfinished):
		return result, nil
	case err != nil:
		return Result{}, err
	}
	result.Done, result.Recovered = true, finished.Recovered
	return result, nil
}

// Arrive notes that a user has looked at the given time, and returns their state. If that has a mark, the inbox is being
// rebuilt, or is going to be, which Arrive does not wait for.
func (s *Service) Arrive(ctx context.Context, user message.UserID, at time.Time) (userstate.State, error) {
	_, after, err := s.arrive(ctx, s.opts.Rules(), user, at, durable)
	return after, err
}

// ArriveLazily is Arrive, but for the crash: it may be lost in one, with everything that was written after it. The user is
// then as if they had not looked, which whoever only shows them their inbox can put up with: nothing is missing from it.
func (s *Service) ArriveLazily(ctx context.Context, user message.UserID, at time.Time) (userstate.State, error) {
	_, after, err := s.arrive(ctx, s.opts.Rules(), user, at, lazy)
	return after, err
}

// Complete waits until a user's inbox is not being rebuilt, and returns their state then. Where nobody is rebuilding it,
// somebody is set to. It returns ErrUnfinished when its patience is at an end.
func (s *Service) Complete(ctx context.Context, user message.UserID) (userstate.State, error) {
	st, err := s.state(ctx, user)
	if err != nil || st.Mark == nil {
		return st, err
	}
	return s.await(ctx, user, s.opts.Patience, func(st userstate.State) bool { return st.Mark == nil })
}

// See records that a user was seen at the given time. If they were dormant, or are new, it waits until their inbox has
// been rebuilt, as Complete does.
func (s *Service) See(ctx context.Context, user message.UserID, at time.Time) error {
	_, after, err := s.arrive(ctx, s.opts.Rules(), user, at, durable)
	if err == nil && after.Mark != nil {
		_, err = s.Complete(ctx, user)
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

// arrive notes that a user has looked, and returns their state before and after. A mark that nobody was at is attended to.
func (s *Service) arrive(
	ctx context.Context, rules userstate.Rules, user message.UserID, at time.Time, d durability,
) (before, after userstate.State, err error) {
	// Whether somebody is active is judged by a clock that is read before the update takes effect: so that has to be soon.
	ctx, cancel := context.WithTimeout(ctx, rules.ClockTolerance/2)
	defer cancel()
	// Nearly everybody who looks is active: that takes one conditional update.
	since := rules.ActiveSince(s.opts.Now())
	viewed, err := s.stores.Users.View(ctx, []userstate.View{{User: user, At: at, After: since, Lazy: bool(d)}})
	if err != nil {
		return before, after, fmt.Errorf("view of %s: %w", user, err)
	}
	before = viewed[0].Previous
	if viewed[0].Applied && before.Mark == nil {
		return before, before, nil
	}
	var lease userstate.Lease
	after, err = s.step(ctx, before, d, func(st userstate.State) (userstate.State, error) {
		now := s.opts.Now()
		if before.Mark == nil { // one that was found first and is gone by now has been waited for, if not for long
			before = st
		}
		lease = s.lease(st, now)
		return rules.Arrive(st, at, now, lease), nil
	})
	if err != nil {
		return before, after, err
	}
	if after.Mark != nil {
		s.attend(ctx, after, lease.Token)
	}
	return before, after, nil
}

// durability says whether a change of a user's state has to survive a crash by itself. That a user has logged in has
// to. What follows is done again by whoever finds the mark, if a crash undoes it.
type durability bool

const (
	durable durability = false
	lazy    durability = true
)

// step changes a user's state until the change is made to what is really there, and returns what holds then.
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

// await waits until the state of a user is as it is wanted, and returns it, or ErrUnfinished when the wait is over. It
// takes over where nobody is at the rehydration any more.
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
		if st.Lease.Until.Before(s.opts.Now()) {
			if err := s.takeOver(ctx, st); err != nil {
				return st, err
			}
		}
		var landed <-chan struct{}
		look := poll.C
		if f := s.flight(user); f != nil { // it tells when it is over
			landed, look = f.landed, nil
		}
		select {
		case <-landed:
		case <-look:
		case <-over.C:
			return st, fmt.Errorf("%s: %w", user, ErrUnfinished)
		case <-ctx.Done():
			return st, ctx.Err()
		}
	}
}
