// Package userstate holds what Fanmail knows of a user: when they last looked, where the head of their inbox was
// seen, and up to where they have read; and the policy that decides from it whether fan-out delivers to them.
//
// An inbox is kept warm for Policy.DormantAfter after its owner last looked. Until then, its horizon, the user
// is active and every message for them is copied into their inbox. What is sent later is left to be
// found when they come back. A user who was never seen has no horizon: nothing is copied for them.
package userstate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

var (
	// ErrNotFound says that there is no record of a user.
	ErrNotFound = errors.New("user not found")
	// ErrDormant says that a user has been away for so long that their inbox is no longer complete.
	ErrDormant = errors.New("user is dormant")
	// ErrBackwards says that a user was seen later than what is to be recorded.
	ErrBackwards = errors.New("user was seen later than that")
)

// State is what is recorded of one user. The zero State, with the user's id, stands for a user never seen.
type State struct {
	User message.UserID
	// LastViewed is when the user last looked, in UTC, to the millisecond; zero if never.
	LastViewed time.Time
	// Head is where the head of the user's inbox was last seen. It may be behind, never ahead.
	Head bucket.Hint
	// ReadMark is up to where the user has read.
	ReadMark bucket.ReadMark
}

// Known tells whether there is a record of the user.
func (s State) Known() bool { return !s.LastViewed.IsZero() }

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

// Deliver tells whether fan-out copies a message that was sent at the given time into the user's inbox. It
// compares the message's own time, never the present: a message that is late is treated as it would have been
// in time. The horizon only grows, so a true answer remains true; a false one needs a state that was read from
// the primary after the message was stored.
func (p Policy) Deliver(s State, sent time.Time) bool { return !sent.After(p.Horizon(s)) }

// Active tells whether the user's inbox is being kept warm now, with ClockTolerance to spare.
func (p Policy) Active(s State, now time.Time) bool {
	return s.Known() && now.Before(p.Horizon(s).Add(-p.ClockTolerance))
}

// ActiveSince returns the time that a user must have been seen after in order to be active now.
func (p Policy) ActiveSince(now time.Time) time.Time {
	return now.Add(p.ClockTolerance - p.DormantAfter)
}

// View records that a user looked.
type View struct {
	User message.UserID
	// At is when. It is cut to milliseconds.
	At time.Time
	// After is the condition: the user's LastViewed must be after it.
	After time.Time
	// Create also allows the view of a user of whom there is no record.
	Create bool
}

// Viewed is what a View found.
type Viewed struct {
	// Previous is the state before the view.
	Previous State
	// Applied tells that the condition held. LastViewed is then the later of At and what it was before.
	Applied bool
}

// Store holds user states. All methods are safe for concurrent use and atomic for each user. A read sees every
// write that had returned before the read began, whoever wrote. What a write changed survives a crash once it
// has returned, hints excepted.
type Store interface {
	bucket.Hints

	// Lookup returns the states of users of one partition, in their order. The users are ascending, each once. A
	// user of whom there is no record has the zero State.
	Lookup(ctx context.Context, partition int, users []message.UserID) ([]State, error)

	// View carries out views, each on its own, and returns in their order what they found. LastViewed never goes
	// backwards. No two may be for the same user.
	View(ctx context.Context, views []View) ([]Viewed, error)

	// SetReadMark sets a user's read mark unless the one that is there is further (by UpTo), and returns the one
	// that holds after the call. For a user of whom there is no record it returns ErrNotFound.
	SetReadMark(ctx context.Context, user message.UserID, mark bucket.ReadMark) (bucket.ReadMark, error)
}
