package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// See records that users were seen at a time. Users without a record become active without a rehydration. users must not have
// duplicates.
func See(ctx context.Context, store userstate.Store, at time.Time, users ...message.UserID) error {
	at = at.UTC().Truncate(time.Millisecond)
	steps := make([]userstate.Step, len(users))
	for i, user := range users {
		steps[i] = userstate.Step{From: userstate.State{User: user}, To: userstate.State{User: user, LastViewed: at}}
	}
	stepped, err := store.Step(ctx, steps)
	if err != nil {
		return fmt.Errorf("see users: %w", err)
	}
	var known []userstate.View
	for i, user := range users {
		if !stepped[i].Applied {
			known = append(known, userstate.View{User: user, At: at})
		}
	}
	if _, err := store.View(ctx, known); err != nil {
		return fmt.Errorf("see users: %w", err)
	}
	return nil
}
