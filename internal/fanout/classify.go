package fanout

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// Fate is what is to become of a piece of work.
type Fate int

const (
	// Acknowledge removes the work: it is done.
	Acknowledge Fate = iota
	// Retry keeps the work: whatever stood in its way may pass.
	Retry
	// GoOn keeps the work in the hands that hold it: it has come as far as there is room on the bus for what follows from it.
	GoOn
	// DeadLetter puts the work among the dead letters: trying again does not help.
	DeadLetter
)

var errAttempts = errors.New("handed out too often without coming to an end")

// errNoPlace says that there is no room on the bus for tasks. If those were to go on with scans that have moved, to wait for room may
// be to wait for ever, if all that could make some wait for it: but whoever goes on with what they hold comes to its end.
var errNoPlace = errors.New("no place at the end of the queue")

// permanent lists the errors that trying again does not help, each with the word for it in a dead letter.
var permanent = []struct {
	err    error
	reason string
}{
	{event.ErrNewer, event.ReasonNewer}, // which is an ErrMalformed, too
	{event.ErrMalformed, event.ReasonMalformed},
	{message.ErrNotFound, "message_not_found"},
	{message.ErrCorrupt, "corrupt"},
	{bucket.ErrTooLarge, "too_large"},
	{errAttempts, "attempts"},
}

// Classify tells what is to become of work that ended in err. What it does not know is retried: an outage of the
// store must never turn into dead letters.
func Classify(err error) Fate {
	switch {
	case err == nil:
		return Acknowledge
	case reason(err) != "":
		return DeadLetter
	case errors.Is(err, errNoPlace):
		return GoOn
	default:
		return Retry
	}
}

// reason returns the word for a permanent error, or "".
func reason(err error) string {
	for _, p := range permanent {
		if errors.Is(err, p.err) {
			return p.reason
		}
	}
	return ""
}

// emitTasks puts tasks at the end of their queues. Where these have no room, its error wraps errNoPlace.
func emitTasks(ctx context.Context, bus bus.Emitter, tasks []event.Task) error {
	err := bus.EmitTasks(ctx, tasks)
	if errors.Is(err, event.ErrFull) {
		return fmt.Errorf("%w: %w", errNoPlace, err)
	}
	return err
}
