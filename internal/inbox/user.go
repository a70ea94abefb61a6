package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// User is what there is to know of a user.
type User struct {
	State userstate.State
	// Active tells whether the inbox is being kept warm; otherwise the user is dormant.
	Active bool
	// Total counts the messages in the inbox.
	Total int64
}

// User returns what there is to know of a user, or userstate.ErrNotFound if they were never seen.
func (s *Service) User(ctx context.Context, user message.UserID) (User, error) {
	state, err := s.known(ctx, user)
	if err != nil {
		return User{}, err
	}
	heads, err := s.buckets.Heads(ctx, []bucket.Ref{{Owner: user, Sequence: state.Head.Sequence}})
	if err != nil {
		return User{}, err
	}
	deletions, err := s.buckets.Deletions(ctx, user, state.ReadMark.Sequence)
	if err != nil {
		return User{}, err
	}
	slots := bucket.Position(heads[0].Sequence, len(heads[0].IDs))
	total, _ := bucket.Counts(slots, deletions, state.ReadMark)
	return User{State: state, Active: s.opts.Policy.Active(state, s.opts.Now()), Total: total}, nil
}

// Seen says when a user was seen last.
type Seen struct {
	User message.UserID
	At   time.Time
}

// SetSeen records when users were last seen, each on its own, and returns an error or nil for each in their order. It
// creates the record of a user never seen and extends that of one who is active; the time that is recorded already
// changes nothing. It refuses a user who is dormant by now with userstate.ErrDormant, since their inbox lacks what was
// sent since and would look complete; a time before the recorded one with userstate.ErrBackwards; and a time in the
// future as a *message.InvalidError.
func (s *Service) SetSeen(ctx context.Context, seen []Seen) ([]error, error) {
	now := s.opts.Now()
	errs := make([]error, len(seen))
	// The store takes each user once a call: a user named again waits for the next round.
	for todo := s.valid(seen, errs, now); len(todo) > 0; {
		var views []userstate.View
		var round, later []int
		taken := make(map[message.UserID]bool, len(todo))
		for _, i := range todo {
			if taken[seen[i].User] {
				later = append(later, i)
				continue
			}
			taken[seen[i].User] = true
			round = append(round, i)
			views = append(views, userstate.View{
				User: seen[i].User, At: seen[i].At, After: s.opts.Policy.ActiveSince(now), Create: true,
			})
		}
		viewed, err := s.users.View(ctx, views)
		if err != nil {
			return nil, err
		}
		for k, i := range round {
			errs[i] = verdict(views[k], viewed[k])
		}
		todo = later
	}
	return errs, nil
}

func (s *Service) valid(seen []Seen, errs []error, now time.Time) []int {
	var valid []int
	for i, v := range seen {
		switch errs[i] = v.User.Validate("user"); {
		case errs[i] != nil:
		case v.At.UnixMilli() <= 0:
			errs[i] = &message.InvalidError{Field: "last_viewed", Reason: "is not after 1970: give the time at which the user looked"}
		case v.At.After(now.Add(s.opts.Policy.ClockTolerance)):
			errs[i] = &message.InvalidError{Field: "last_viewed", Reason: "is in the future: give the time at which the user looked"}
		default:
			valid = append(valid, i)
		}
	}
	return valid
}

func verdict(view userstate.View, viewed userstate.Viewed) error {
	previous, at := viewed.Previous, view.At.Truncate(time.Millisecond)
	switch {
	case previous.Known() && at.Before(previous.LastViewed):
		return fmt.Errorf("%s: %w (%s)", view.User, userstate.ErrBackwards, previous.LastViewed.Format(time.RFC3339Nano))
	case previous.Known() && at.Equal(previous.LastViewed): // said again: nothing changes
		return nil
	case !viewed.Applied:
		return fmt.Errorf("%s: %w", view.User, userstate.ErrDormant)
	default:
		return nil
	}
}
