package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// User describes a user.
type User struct {
	// Tally counts the messages in the inbox.
	bucket.Tally

	State userstate.State
	// Active reports whether the inbox is kept warm. If not, the user is dormant, or the inbox is being rebuilt.
	Active bool
}

// User describes a user. It returns userstate.ErrNotFound if the user was never seen.
func (s *Service) User(ctx context.Context, user message.UserID) (User, error) {
	all, err := s.count(ctx, []message.UserID{user})
	if err != nil {
		return User{}, err
	}
	state, err := known(all[0].state, all[0].Err)
	if err != nil {
		return User{}, err
	}
	return User{Tally: all[0].Tally, State: state, Active: s.opts.Rules().Active(state, s.opts.Now())}, nil
}

// Seen is the time at which a user was last seen.
type Seen struct {
	User message.UserID
	At   time.Time
}

// rehydrations is how many users of one SetSeen are rehydrated at a time. It keeps the workers busy, and lets other users have their turn.
const rehydrations = 16

// SetSeen records when users were last seen, each independently, and returns an error or nil for each in their order. For a user who is
// dormant or was never seen, it waits for a rehydration, which may end in rehydrate.ErrUnfinished. A time before the recorded one is a
// userstate.ErrBackwards; a time in the future is a *message.InvalidError. It is idempotent: the recorded time changes nothing.
func (s *Service) SetSeen(ctx context.Context, seen []Seen) ([]error, error) {
	errs, rules := make([]error, len(seen)), s.opts.Rules()
	// The store accepts each user once per call, so a user named again waits for the next round.
	for todo := s.valid(seen, errs, rules); len(todo) > 0; {
		var round, later []int
		taken := make(map[message.UserID]bool, len(todo))
		for _, i := range todo {
			if taken[seen[i].User] {
				later = append(later, i)
				continue
			}
			taken[seen[i].User] = true
			round = append(round, i)
		}
		if err := s.setSeen(ctx, rules, seen, round, errs); err != nil {
			return nil, err
		}
		todo = later
	}
	return errs, nil
}

// setSeen records the elements of seen whose indexes are in round. Their users differ.
func (s *Service) setSeen(ctx context.Context, rules userstate.Rules, seen []Seen, round []int, errs []error) error {
	views := make([]userstate.View, len(round))
	now := s.opts.Now()
	for k, i := range round {
		views[k] = rules.View(seen[i].User, seen[i].At, now)
	}
	// The clock that decides who is active is read before the update takes effect, so the update must be quick.
	soon, cancel := context.WithTimeout(ctx, rules.ClockTolerance/2)
	defer cancel()
	viewed, err := s.stores.Users.View(soon, views)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(rehydrations)
	for k, i := range round {
		previous, at := viewed[k].Previous, views[k].At.Truncate(time.Millisecond)
		switch {
		case previous.Known() && at.Before(previous.LastViewed):
			errs[i] = fmt.Errorf("%s: %w (%s)", previous.User, userstate.ErrBackwards, previous.LastViewed.Format(time.RFC3339Nano))
		case previous.Known() && at.Equal(previous.LastViewed) && previous.Mark == nil: // the recorded time: nothing changes
		case viewed[k].Applied && previous.Mark == nil:
		default:
			group.Go(func() (err error) {
				defer panics.Catch(&err)
				err = s.rehydrator.See(ctx, seen[i].User, at)
				if errors.Is(err, rehydrate.ErrUnfinished) {
					errs[i], err = err, nil
				}
				return err
			})
		}
	}
	return group.Wait()
}

func (s *Service) valid(seen []Seen, errs []error, rules userstate.Rules) []int {
	latest := s.opts.Now().Add(rules.ClockTolerance)
	var valid []int
	for i, v := range seen {
		switch errs[i] = v.User.Validate("user"); {
		case errs[i] != nil:
		case v.At.UnixMilli() <= 0:
			errs[i] = &message.InvalidError{Field: "last_viewed", Reason: "is not after 1970: give the time at which the user looked"}
		case v.At.After(latest):
			errs[i] = &message.InvalidError{Field: "last_viewed", Reason: "is in the future: give the time at which the user looked"}
		default:
			valid = append(valid, i)
		}
	}
	return valid
}
