package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// rememberedLetters is how many tasks a Deliverer remembers as dead letters. It has to cover the batches under way.
const rememberedLetters = 4096

// errAttempts says that the bus handed a task out more often than Options.MaxAttempts.
var errAttempts = errors.New("handed out too often without success")

// errPanics says that the code panicked each time that the bus handed a task or event out, Options.MaxAttempts times.
var errPanics = errors.New("the code panics on it each time")

// lastPanic returns the permanent error of a task or event on which the code panicked with err, if this was its last attempt.
// Otherwise it returns err.
func lastPanic(err error, delivery event.Delivery, maxAttempts int) error {
	if Classify(err) != HandBack || delivery.Attempts < maxAttempts {
		return err
	}
	return fmt.Errorf("%w (%d times): %w", errPanics, delivery.Attempts, err)
}

// permanent lists the errors for which another try cannot succeed, each with its reason in the dead letter. The order
// matters: event.ErrNewer is also an event.ErrMalformed.
var permanent = []struct {
	err    error
	reason string
}{
	{event.ErrNewer, event.ReasonNewer},
	{event.ErrMalformed, event.ReasonMalformed},
	{message.ErrNotFound, event.ReasonMissing},
	{message.ErrCorrupt, "corrupt"},
	{bucket.ErrTooLarge, "too_large"},
	{errAttempts, "attempts"},
	{errPanics, event.ReasonPanic},
}

// reason returns the dead letter's reason for a permanent error, or "".
func reason(err error) string {
	for _, p := range permanent {
		if errors.Is(err, p.err) {
			return p.reason
		}
	}
	return ""
}

// letterKey identifies a task that has become a dead letter. The time is part of it because the sequences of a stream
// that is created again start from 1.
type letterKey struct {
	sequence uint64
	stored   time.Time
}

// deadLetter writes a task to the dead-letter stream and marks its scan as dead. It is idempotent within one process.
// Another process may write a second letter for the same task.
func (d *Deliverer) deadLetter(ctx context.Context, delivery event.Delivery, cause error) error {
	if key := (letterKey{delivery.Sequence, delivery.Stored}); !d.letters.Contains(key) {
		letter := newDeadLetter(delivery, cause)
		logDelivery(d.opts.Logger.Error().Err(cause), delivery).Str("reason", letter.Reason).Msg("task is a dead letter")
		if err := d.bus.DeadLetter(ctx, letter); err != nil {
			return fmt.Errorf("dead letter: %w", err)
		}
		d.letters.Add(key, struct{}{})
	}
	task, err := event.DecodeTask(delivery.Payload)
	if err != nil || task.Partition >= d.opts.Partitions {
		return nil //nolint:nilerr // a malformed task names no scan
	}
	scans, planned, err := d.stores.Progress.Scans(ctx, task.Partition, []message.ID{task.ID})
	if err != nil || !planned[0] || scans[0].Done {
		return err
	}
	dead := scans[0]
	dead.Dead = true
	_, err = d.stores.Progress.Step(ctx, []progress.Move{{ID: task.ID, Partition: task.Partition, From: scans[0], To: dead}}, d.opts.Now())
	return err
}

func newDeadLetter(delivery event.Delivery, err error) event.DeadLetter {
	return event.DeadLetter{
		Version: event.Version, Reason: reason(err), Error: err.Error(),
		Attempts: delivery.Attempts, Subject: delivery.Subject, Payload: delivery.Payload, Trace: delivery.Trace,
	}
}

// logDelivery adds to a log line which task or event the line is about. It adds no other part of the payload, because
// the payload may hold anything.
func logDelivery(line *zerolog.Event, delivery event.Delivery) *zerolog.Event {
	line = line.Str("subject", delivery.Subject).Uint64("sequence", delivery.Sequence).Int("attempts", delivery.Attempts)
	if task, err := event.DecodeTask(delivery.Payload); err == nil {
		return line.Stringer("message_id", task.ID).Str("from", string(task.From))
	}
	if published, err := event.DecodePublished(delivery.Payload); err == nil {
		return line.Stringer("message_id", published.ID).Str("from", string(published.From))
	}
	return line
}
