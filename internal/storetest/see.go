package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Seen returns the state of a user who was seen at a time, and stays active for so long.
func Seen(user message.UserID, at time.Time, dormantAfter time.Duration) userstate.State {
	at = at.UTC().Truncate(time.Millisecond)
	return userstate.State{User: user, LastViewed: at, Horizon: at.Add(dormantAfter)}
}

// See records that users were seen at a time, and makes them active without a rehydration. users must not have duplicates.
func See(ctx context.Context, store userstate.Store, at time.Time, dormantAfter time.Duration, users ...message.UserID) error {
	steps := make([]userstate.Step, len(users))
	for i, user := range users {
		steps[i] = userstate.Step{From: userstate.State{User: user}, To: Seen(user, at, dormantAfter)}
	}
	stepped, err := store.Step(ctx, steps)
	if err != nil {
		return fmt.Errorf("see users: %w", err)
	}
	var again []userstate.Step
	for _, s := range stepped {
		if to := Seen(s.State.User, at, dormantAfter); !s.Applied {
			next := s.State
			next.LastViewed, next.Horizon = to.LastViewed, to.Horizon
			again = append(again, userstate.Step{From: s.State, To: next})
		}
	}
	if _, err := store.Step(ctx, again); err != nil {
		return fmt.Errorf("see users: %w", err)
	}
	return nil
}
