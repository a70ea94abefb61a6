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
	// ErrNotFound says that a user was never seen.
	ErrNotFound = errors.New("user not found")
	// ErrBackwards says that the store has a later LastViewed than the time that the caller wants to record.
	ErrBackwards = errors.New("user was seen later than that")
)

// View records that an active user opened the inbox. It changes LastViewed only. Rules.View makes it.
type View struct {
	User message.UserID
	// At is the time of the view. It is cut to milliseconds.
	At time.Time
	// Beyond is the condition: the user must have a Horizon later than Beyond.
	Beyond time.Time
	// Lazy allows the store to lose the view in a crash, as Step.Lazy does. If a view that is not lazy applies, it also makes
	// the state durable that it found.
	Lazy bool
}

// Applies reports whether the condition of the view holds.
func (v View) Applies(s State) bool { return s.Horizon.After(v.Beyond) }

// Viewed is the result of a View.
type Viewed struct {
	// Previous is the state before the view.
	Previous State
	// Applied reports whether the condition held. LastViewed is then the later of At and the previous LastViewed.
	Applied bool
}

// Step replaces a user's state From, which the caller has read, by To. Both are of the same user.
type Step struct {
	From, To State
	// Lazy allows the store to lose the step in a crash, but only together with every write that began after the step had
	// returned. Use it for a change that the caller repeats after a crash. It saves the sync of a file.
	Lazy bool
}

// Stepped is the result of a Step.
type Stepped struct {
	// State is the stored state after the step: To if it was applied, otherwise the state that was stored before.
	State   State
	Applied bool
}

// Looked is what a read found of one user.
type Looked struct {
	State State
	// Err wraps message.ErrCorrupt if the user's record is damaged. State then has only the user's id. Otherwise Err is nil.
	Err error
}

// States returns the states of a read, or the first error. Use it where one damaged record may fail everything.
func States(looked []Looked, err error) ([]State, error) {
	if err != nil {
		return nil, err
	}
	states := make([]State, len(looked))
	for i, l := range looked {
		if l.Err != nil {
			return nil, l.Err
		}
		states[i] = l.State
	}
	return states, nil
}

// Store holds user states. All methods are safe for concurrent use and atomic for each user. A read sees every write of every
// process that had returned before the read began; only Due may answer from a state seconds older. A damaged record fails only its own result of a read. A write survives a crash once it has returned, except hints and lazy
// writes.
type Store interface {
	// Hints are raised only for users who are Known.
	bucket.Hints

	// Lookup returns one result for each user, in the order of users. The users may be of any partition. They are
	// ascending, and no user is named twice. For a user without a record it returns a State that has only the user's id.
	Lookup(ctx context.Context, users []message.UserID) ([]Looked, error)

	// View carries out each view on its own and returns the results in the order of views. LastViewed never goes backwards. No
	// two views may be of the same user. The caller has read a clock to decide on the views, so no view takes effect long
	// after ctx has ended. The same holds for Step.
	View(ctx context.Context, views []View) ([]Viewed, error)

	// Step carries out each step on its own and returns the results in the order of steps. A step applies if and only if the
	// stored state is the Same as From. To then replaces the stored state, except Head, which Step does not change. A From that is Empty
	// stands for a user without a record. A To that is Empty removes the record, Head included. After a lost reply, such a step may
	// count as not applied, with an Empty State. No two steps may be of the same user.
	Step(ctx context.Context, steps []Step) ([]Stepped, error)

	// Due returns at most limit users with a Mark or a Sweep whose lease is dead, the earliest end first. Damaged records count.
	Due(ctx context.Context, dead Dead, limit int) ([]Looked, error)

	// List returns a partition's users with ids above after, ascending, at most limit. Damaged records count.
	List(ctx context.Context, partition int, after message.UserID, limit int) ([]Looked, error)
}

// Get returns the state of one user. For a user without a record it returns a State that is not Known. The error wraps
// message.ErrCorrupt if the record is damaged.
func Get(ctx context.Context, store Store, user message.UserID) (State, error) {
	states, err := States(store.Lookup(ctx, []message.UserID{user}))
	if err != nil {
		return State{}, fmt.Errorf("state of %s: %w", user, err)
	}
	return states[0], nil
}
