package natsbus

import (
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fanmail/fanmail/pkg/event"
)

const (
	// maxUnacknowledged is the largest number of events, of all callers together, that are sent and not yet acknowledged.
	maxUnacknowledged = 2048
	// emitChunk is how many events one call sends before it waits for their acknowledgements. The wait is short compared with
	// sending so many, and many callers can take turns.
	emitChunk = 256
)

// EmitPublished implements bus.Publisher.
func (b *Bus) EmitPublished(ctx context.Context, events []event.Published, fresh bool) error {
	msgs := make([]*nats.Msg, len(events))
	for i, e := range events {
		data, err := e.Encode()
		if err != nil {
			return fmt.Errorf("natsbus: encode event of message %s: %w", e.ID, err)
		}
		msgs[i] = newMsg(publishedSubject, data, e.Trace)
		if !fresh {
			setHeader(msgs[i], jetstream.MsgIDHeader, e.ID.String())
		}
	}
	return classify(ctx, "emit published messages", b.emit(ctx, msgs))
}

// EmitTasks implements bus.Emitter.
func (b *Bus) EmitTasks(ctx context.Context, tasks []event.Task) error {
	msgs := make([]*nats.Msg, len(tasks))
	for i, t := range tasks {
		// No consumer would take the task.
		if err := b.checkPlace(t.Lane, t.Partition); err != nil {
			return err
		}
		data, err := t.Encode()
		if err != nil {
			return fmt.Errorf("natsbus: encode task of message %s: %w", t.ID, err)
		}
		msgs[i] = newMsg(taskSubject(t.Lane, t.Partition), data, t.Trace)
	}
	return classify(ctx, "emit tasks", b.emit(ctx, msgs))
}

// fits reports whether the server accepts a message of this size. Another server may have another limit, so every call asks for that
// of the present connection. The size includes the subject, which does not count: the estimate is on the safe side.
func (b *Bus) fits(msg *nats.Msg) bool { return int64(msg.Size()) <= b.nc.MaxPayload() }

// DeadLetter implements bus.DeadLetterer. The subject of the work decides the subject of the letter.
func (b *Bus) DeadLetter(ctx context.Context, d event.DeadLetter) error {
	subject := deadLetterSubject(d.Subject)
	msg, err := letterMsg(subject, d)
	if err == nil && !b.fits(msg) {
		msg, err = letterMsg(subject, d.Shorten())
	}
	if err != nil {
		return fmt.Errorf("natsbus: encode dead letter: %w", err)
	}
	err = b.changeLetters(ctx, func() error { return b.emit(ctx, []*nats.Msg{msg}) })
	if err == nil {
		b.metrics.deadLetters[subject].Inc()
		if d.Reason == event.ReasonMissing {
			b.metrics.missing.Inc()
		}
	}
	return classify(ctx, "emit dead letter", err)
}

func letterMsg(subject string, d event.DeadLetter) (*nats.Msg, error) {
	data, err := d.Encode()
	return newMsg(subject, data, d.Trace), err
}

// EmitRehydrated implements bus.Bus.
func (b *Bus) EmitRehydrated(e event.Rehydrated) {
	data, err := e.Encode()
	if err == nil {
		err = b.nc.PublishMsg(newMsg(rehydratedSubject, data, e.Trace))
	}
	if err != nil {
		b.complaints.Warn().Err(err).Str("user", string(e.User)).Msg("cannot announce a rehydrated user")
	}
}

func (b *Bus) emit(ctx context.Context, msgs []*nats.Msg) error {
	for chunk := range slices.Chunk(msgs, emitChunk) {
		if err := b.emitOnce(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// awaitRoom waits until so many more events may be unacknowledged, RequestTimeout at most.
func (b *Bus) awaitRoom(ctx context.Context, events int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.opts.RequestTimeout, errNoRoom)
	defer cancel()
	if b.unacknowledged.Acquire(ctx, int64(events)) != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (b *Bus) emitOnce(ctx context.Context, msgs []*nats.Msg) error {
	if err := b.awaitRoom(ctx, len(msgs)); err != nil {
		return err
	}
	defer b.unacknowledged.Release(int64(len(msgs)))
	sent := make([]jetstream.PubAckFuture, len(msgs))
	for i, msg := range msgs {
		var err error
		if sent[i], err = b.js.PublishMsgAsync(msg); err != nil {
			return err
		}
	}
	for _, future := range sent {
		select {
		case <-future.Ok():
		case err := <-future.Err():
			return err
		case <-b.closed:
			return nats.ErrConnectionClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
