package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Retention returns the user's own retention: the zero value if the user has none, or was never seen.
func (s *Service) Retention(ctx context.Context, user message.UserID) (userstate.Retention, error) {
	state, err := s.state(ctx, user)
	return state.Keep, err
}

// SetRetention gives a user a retention of their own, in place of an earlier one, and lets the messages expire that it does not keep. The
// user need not have been seen: such a user still counts as never seen, and has no messages.
//
// It returns a *message.InvalidError for a retention that is not allowed. After another error the retention may hold, and the walk over all users lets the messages expire. When it has returned nil, a crash loses neither
// the retention nor the expiry. It is idempotent. The emptying of buckets follows.
func (s *Service) SetRetention(ctx context.Context, user message.UserID, keep userstate.Retention) error {
	rules, deployment := s.opts.Rules(), s.opts.Retention()
	if err := allowed(keep, deployment, rules); err != nil {
		return err
	}
	state, err := s.keep(ctx, user, keep)
	if err != nil || !state.Known() {
		return err
	}
	expired, err := s.opts.Expired(ctx, keep.Within(deployment), false)
	if err != nil {
		return err
	}
	if _, _, err := s.purger.Raise(ctx, state, expired); err != nil {
		return err
	}
	if keep.Newest > 0 && s.opts.Trim != nil {
		if err := s.opts.Trim(ctx, user); err != nil {
			return err
		}
	}
	// Trim raises the purge point lazily, and so do workers meanwhile. A step that is not lazy makes durable what it finds.
	if _, err := s.stores.Users.Step(ctx, []userstate.Step{{From: state, To: state}}); err != nil {
		return fmt.Errorf("retention of %s: %w", user, err)
	}
	return nil
}

// DeleteRetention removes the user's own retention, so that the deployment's holds. What has expired stays expired. It is idempotent.
func (s *Service) DeleteRetention(ctx context.Context, user message.UserID) error {
	_, err := s.keep(ctx, user, userstate.Retention{})
	return err
}

// keep records a retention durably, and returns the state with it.
func (s *Service) keep(ctx context.Context, user message.UserID, keep userstate.Retention) (userstate.State, error) {
	state, err := s.state(ctx, user)
	if err != nil {
		return state, err
	}
	for state.Keep != keep {
		next := state
		next.Keep = keep
		stepped, err := s.stores.Users.Step(ctx, []userstate.Step{{From: state, To: next}})
		if err != nil {
			return state, fmt.Errorf("retention of %s: %w", user, err)
		}
		state = stepped[0].State
	}
	return state, nil
}

// allowed returns a *message.InvalidError that names the field of a user's retention that is not allowed, or nil.
func allowed(keep, deployment userstate.Retention, rules userstate.Rules) error {
	invalid := func(field, format string, values ...any) error {
		return &message.InvalidError{Field: field, Reason: fmt.Sprintf(format, values...)}
	}
	age, least := duration.Text(keep.MaxAge), rules.PublishSlack+rules.ClockTolerance
	switch {
	case keep == userstate.Retention{}:
		return invalid("max_age", "is missing, and so is newest: give one of them, or delete the retention")
	case keep.Newest < 0 || keep.Newest > userstate.MaxNewest:
		return invalid("newest", "is %d: it must be from 1 to %d", keep.Newest, userstate.MaxNewest)
	case keep.MaxAge == 0:
		return nil
	case keep.MaxAge < least:
		return invalid("max_age", "is %s: it must be at least publish_slack and clock_tolerance together, which are %s", age, duration.Text(least))
	case keep.MaxAge%time.Millisecond != 0:
		return invalid("max_age", "is %s: it must be a whole number of milliseconds", age)
	case deployment.MaxAge > 0 && keep.MaxAge >= deployment.MaxAge:
		return invalid("max_age", "is %s: it must be shorter than retention.max_age, which is %s", age, duration.Text(deployment.MaxAge))
	}
	return nil
}
