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
	// ErrBackwards says that a user was seen later than what is to be recorded.
	ErrBackwards = errors.New("user was seen later than that")
)

// View records that a user looked who is active. It leaves everything but LastViewed as it is.
type View struct {
	User message.UserID
	// At is when. It is cut to milliseconds.
	At time.Time
	// After is the condition: there must be a record of the user, with a LastViewed after it.
	After time.Time
	// Lazy allows the store to lose the view in a crash, as Step.Lazy does. One that is not lazy makes what it finds survive,
	// too, if it applies.
	Lazy bool
}

// Viewed is what a View found.
type Viewed struct {
	// Previous is the state before the view.
	Previous State
	// Applied tells that the condition held. LastViewed is then the later of At and what it was before.
	Applied bool
}

// Step is a change of a user's state by whoever has seen it as From. Both are of the same user.
type Step struct {
	From, To State
	// Lazy allows the store to lose the step in a crash, if every write that began after it had returned is lost with it. It
	// is for changes that are made again if they are lost, and spares a store that syncs a file from doing so.
	Lazy bool
}

// Stepped is what a Step came to.
type Stepped struct {
	// State is what holds after the step: To if it was applied, otherwise what was there.
	State   State
	Applied bool
}

// Store holds user states. All methods are safe for concurrent use and atomic for each user. A read sees every
// write that had returned before the read began, whoever wrote. What a write changed survives a crash once it
// has returned, hints excepted.
type Store interface {
	bucket.Hints

	// Lookup returns one state for each user, in the order of users. The users may be of any partition. They are
	// ascending, and no user is named twice. For a user without a record it returns a State that has only the user's id.
	Lookup(ctx context.Context, users []message.UserID) ([]State, error)

	// View carries out views, each on its own, and returns in their order what they found. LastViewed never goes
	// backwards. No two may be for the same user. Views are judged by a clock that was read before: none takes effect
	// long after ctx has ended. The same holds for Step.
	View(ctx context.Context, views []View) ([]Viewed, error)

	// Step carries out steps, each on its own, and returns in their order what came of them. A step applies if and
	// only if the state that is there is the Same as From; then To takes its place, but for Head and ReadMark, which
	// Step leaves alone. A From that is not Known stands for a user of whom there is no record. No two may be for
	// the same user.
	Step(ctx context.Context, steps []Step) ([]Stepped, error)

	// Due returns states with a Mark or a Sweep whose lease was dead before the given time, those that died first
	// first, at most limit.
	Due(ctx context.Context, before time.Time, limit int) ([]State, error)

	// List returns the states of a partition's users with ids above after, ascending, at most limit.
	List(ctx context.Context, partition int, after message.UserID, limit int) ([]State, error)

	// SetReadMark sets a user's read mark unless the one that is there is further (by UpTo), and returns the one
	// that holds after the call. For a user of whom there is no record it returns ErrNotFound.
	SetReadMark(ctx context.Context, user message.UserID, mark bucket.ReadMark) (bucket.ReadMark, error)
}

// Get returns the state of one user. For a user without a record it returns a State that is not Known.
func Get(ctx context.Context, store Store, user message.UserID) (State, error) {
	states, err := store.Lookup(ctx, []message.UserID{user})
	if err != nil {
		return State{}, fmt.Errorf("state of %s: %w", user, err)
	}
	return states[0], nil
}
