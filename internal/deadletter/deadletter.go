// Package deadletter lets operators handle work that could not succeed: show it, send it again after correcting the cause, or drop it.
//
// A dead letter of a fan-out is in two places: the bus keeps the task, and the progress record of the message marks the scan of its
// partition as dead. Redriving revives the scan, emits the task, and then removes the letter. After a crash between these steps the
// letter still exists, and redriving it again is harmless: two tasks share one scan, and an append takes effect once. If the crash came
// before the task was emitted, the resumer finds the revived scan. Dropping gives up the scan, and then removes the letter. So the message
// finishes, and nothing revives the scan.
//
// A dead letter with the reason event.ReasonDamaged stands for all messages that a user has missed since a time. A record of the user, or a
// bucket of the inbox, is damaged. Fan-out files one for each such user. Redriving makes a rehydration due that delivers them.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

var (
	// ErrNotFound means that no dead letter has the id. An operator may have redriven or dropped it.
	ErrNotFound = errors.New("no such dead letter")
	// ErrNoConsumer means that no process takes work of this kind. Such a letter can only be dropped.
	ErrNoConsumer = errors.New("no process takes work of this kind; drop the dead letter")
	// ErrUnreadable means that this release cannot read the work, so another try cannot succeed. Upgrade if the reason is event.ReasonNewer, or
	// drop the letter.
	ErrUnreadable = errors.New("this release cannot read the work of the dead letter")
	// ErrBus means that the bus failed. Try again.
	ErrBus = errors.New("the bus failed")
)

// Parts are what a Service works on.
type Parts struct {
	Bus      bus.DeadLetterQueue
	Progress progress.Store
	Messages message.Store
	Users    userstate.Store
	Buckets  bucket.Store
	// Round is that of progress.Ender.
	Round func(context.Context) (int64, error)
}

// Options configures a Service. All are required.
type Options struct {
	// Rules returns the rules that hold now.
	Rules  func() userstate.Rules
	Logger zerolog.Logger
	Now    func() time.Time
}

// Service shows, redrives and drops dead letters. It is safe for concurrent use, also by several processes.
type Service struct {
	Parts
	opts Options
}

// New returns a Service.
func New(parts Parts, opts Options) *Service { return &Service{Parts: parts, opts: opts} }

// List returns at most limit dead letters with ids above after, oldest first.
func (s *Service) List(ctx context.Context, after uint64, limit int) ([]event.Filed, error) {
	filed, err := s.Bus.DeadLetters(ctx, after, limit)
	return filed, ofBus(err)
}

// ofBus wraps an error of the bus in ErrBus.
func ofBus(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrBus, err)
}

// Get returns a dead letter, or ErrNotFound.
func (s *Service) Get(ctx context.Context, id uint64) (event.Filed, error) {
	if id == 0 {
		return event.Filed{}, ErrNotFound
	}
	filed, err := s.List(ctx, id-1, 1)
	if err != nil {
		return event.Filed{}, err
	}
	if len(filed) == 0 || filed[0].ID != id {
		return event.Filed{}, ErrNotFound
	}
	return filed[0], nil
}

// Redrive emits the work of a dead letter on its original subject, and removes the letter. If the work fails again, it becomes another
// letter. A damaged user gets all missed messages instead. Redrive returns ErrNotFound, ErrNoConsumer, ErrUnreadable, ErrGivenUp, ErrBus or an
// error of the store; for a damaged user also ErrDamaged. The letter stays after every error. After ErrBus and errors of the store, call Redrive again.
func (s *Service) Redrive(ctx context.Context, id uint64) error {
	filed, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	if filed.Reason == event.ReasonDamaged {
		return s.deliverMissed(ctx, filed)
	}
	if !s.Bus.Consumed(filed.Subject) {
		return fmt.Errorf("redrive to %q: %w", filed.Subject, ErrNoConsumer)
	}
	task, err := event.DecodeTask(filed.Payload)
	isTask := err == nil
	if filed.Reason == event.ReasonMalformed || !isTask && !isWhole(filed) {
		return fmt.Errorf("redrive to %q: %w", filed.Subject, ErrUnreadable)
	}
	if isTask {
		if err := s.revive(ctx, task); err != nil {
			return fmt.Errorf("redrive: %w", err)
		}
	}
	if filed.Cut > 0 && isTask { // the router finds the recipients
		err = s.Bus.EmitPublished(ctx, []event.Published{event.NewPublished(task.Ref())}, true)
	} else {
		err = s.Bus.Emit(ctx, filed.DeadLetter)
	}
	if err != nil {
		return ofBus(err)
	}
	if err := s.Bus.Drop(ctx, id); err != nil {
		return ofBus(err)
	}
	s.log(filed).Msg("dead letter is redriven")
	return nil
}

// isWhole reports whether the payload of a letter says everything, also if it was cut. A published event and a login do.
func isWhole(filed event.Filed) bool {
	_, published := event.DecodePublished(filed.Payload)
	_, login := event.DecodeLogin(filed.Payload)
	return published == nil || login == nil
}

func (s *Service) log(filed event.Filed) *zerolog.Event {
	return s.opts.Logger.Info().Uint64("dead_letter_id", filed.ID).Str("subject", filed.Subject).Str("reason", filed.Reason)
}
