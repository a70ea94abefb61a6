package main

import (
	"context"
	"sync"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// users tells the changes of a user's state apart that a rehydration and an expiry consist of.
type users struct {
	userstate.Store
	failpoint *failpoint

	mu sync.Mutex
	// sweeping are those whose rehydration has come to its sweep.
	sweeping map[message.UserID]bool
}

// pointStep is no point to die at: a change that is none of those, such as a renewed lease.
const pointStep = ""

// Step carries out the steps of a rehydration, which come one by one.
func (u *users) Step(ctx context.Context, steps []userstate.Step) (stepped []userstate.Stepped, err error) {
	point := pointStep
	if len(steps) == 1 {
		point = pointOf(steps[0])
	}
	err = u.failpoint.pass(point, len(steps), func(n int) error {
		stepped, err = u.Store.Step(ctx, steps[:n])
		return err
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range stepped {
		u.sweeping[s.State.User] = s.State.Sweep != nil && s.State.Mark == nil
	}
	return stepped, err
}

func pointOf(s userstate.Step) string {
	switch from, to := s.From, s.To; {
	case from.Purged.Less(to.Purged):
		return pointRaise
	case from.Mark == nil && to.Mark != nil:
		return pointArrive
	case from.Mark != nil && to.Mark != nil && from.Mark.Bounded != to.Mark.Bounded:
		return pointBound
	case from.Mark != nil && to.Mark == nil:
		return pointSettle
	case from.Sweep != nil && to.Sweep == nil:
		return pointRehydrated
	default:
		return pointStep
	}
}

func (u *users) isSweeping(user message.UserID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sweeping[user]
}
