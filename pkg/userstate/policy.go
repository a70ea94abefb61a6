package userstate

import (
	"fmt"
	"time"
)

// Policy decides who is active.
type Policy struct {
	// DormantAfter is how long an inbox is kept warm after its owner last looked.
	DormantAfter time.Duration
	// ClockTolerance is how far two hosts' clocks may be apart, doubled. It is never 0.
	ClockTolerance time.Duration
}

// DefaultPolicy keeps inboxes warm for 30 days, and lets clocks be a minute apart.
func DefaultPolicy() Policy {
	return Policy{DormantAfter: 30 * 24 * time.Hour, ClockTolerance: 2 * time.Minute}
}

// Validate returns an error that says what is wrong with the policy, or nil.
func (p Policy) Validate() error {
	switch {
	case p.ClockTolerance <= 0:
		return fmt.Errorf("clock tolerance is %v: it must be above 0, for no two clocks agree", p.ClockTolerance)
	case p.DormantAfter < 4*p.ClockTolerance:
		return fmt.Errorf("dormant after is %v: it must be at least four times the clock tolerance, which is %v", p.DormantAfter, p.ClockTolerance)
	}
	return nil
}

// Horizon returns until when the user's inbox is kept warm. For a user never seen it is the zero time.
func (p Policy) Horizon(s State) time.Time {
	if !s.Known() {
		return time.Time{}
	}
	return s.LastViewed.Add(p.DormantAfter)
}

// Deliver tells whether fan-out copies a message that was sent at the given time into the user's inbox, or leaves it
// to a rehydration: the one that is marked, the next one, or the one that left it to a gap. It compares the message's
// own time, never the present: a message that is late is treated as it would have been in time. The state must have
// been read after the message was stored, or what is left may be found by nobody.
//
// A sweep is no mark: a rehydration that sweeps looks no further than what was sent until it began to.
func (p Policy) Deliver(s State, sent time.Time) bool {
	if sent.After(p.Horizon(s)) || s.Mark != nil && sent.After(s.Mark.From) {
		return false
	}
	return !s.InGap(sent)
}

// Active tells whether the user's inbox is kept warm for what is sent now, with ClockTolerance to spare.
func (p Policy) Active(s State, now time.Time) bool {
	return s.Known() && now.Before(p.Horizon(s).Add(-p.ClockTolerance))
}

// ActiveSince returns the time that a user must have been seen after in order to be active now.
func (p Policy) ActiveSince(now time.Time) time.Time {
	return now.Add(p.ClockTolerance - p.DormantAfter)
}
