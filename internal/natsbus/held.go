package natsbus

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
)

// held is a bus.Held.
type held struct {
	bus   *Bus
	msg   *nats.Msg
	first event.Delivery
}

// Take implements bus.Intake.
func (b *Bus) Take(ctx context.Context, lane event.Lane, partition int) (bus.Held, error) {
	if err := b.checkPlace(lane, partition); err != nil {
		return nil, err
	}
	msg, err := b.pull(ctx, b.taskSource(lane, partition))
	if err != nil {
		return nil, classify(ctx, "take a task", err)
	}
	return b.hold(msg)
}

// Poll implements bus.Intake.
func (b *Bus) Poll(ctx context.Context, lane event.Lane, partition int, wait time.Duration) (bus.Held, error) {
	if err := b.checkPlace(lane, partition); err != nil {
		return nil, err
	}
	msg := b.poll(ctx, b.taskSource(lane, partition), wait)
	if msg == nil {
		return nil, ctx.Err()
	}
	return b.hold(msg)
}

func (b *Bus) hold(msg *nats.Msg) (bus.Held, error) {
	first, _, err := handedOut(msg)
	if err != nil {
		return nil, err
	}
	return &held{bus: b, msg: msg, first: first}, nil
}

// First implements bus.Held.
func (h *held) First() event.Delivery { return h.first }

// Waiting implements bus.Held by a single request.
func (h *held) Waiting(ctx context.Context, limit int) ([]event.Delivery, error) {
	if limit < 1 {
		return nil, nil
	}
	waiting, err := h.bus.read(ctx, FanoutStream, h.first.Subject, h.first.Sequence+1, limit)
	return waiting, classify(ctx, "read waiting tasks", err)
}

// Extend implements bus.Held.
func (h *held) Extend() error {
	if err := h.bus.nc.Publish(h.msg.Reply, ackExtend); err != nil {
		return fmt.Errorf("natsbus: extend lease: %w: %w", bus.ErrUnavailable, err)
	}
	return nil
}

// Remove implements bus.Held.
func (h *held) Remove(ctx context.Context, tasks []event.Delivery) error {
	for window := range slices.Chunk(tasks, removeWindow) {
		sequences := make([]uint64, len(window))
		for i, task := range window {
			sequences[i] = task.Sequence
		}
		if err := h.bus.remove(ctx, FanoutStream, sequences); err != nil {
			return classify(ctx, "remove tasks", err)
		}
	}
	return nil
}

// Done implements bus.Held.
func (h *held) Done(ctx context.Context) error {
	return classify(ctx, "acknowledge task", h.confirm(ctx, ackDone))
}

// Release implements bus.Held.
func (h *held) Release(ctx context.Context) error {
	return classify(ctx, "release task", h.confirm(ctx, ackRelease))
}

// GiveBack implements bus.Held.
func (h *held) GiveBack(ctx context.Context) error {
	return classify(ctx, "give a task back", h.bus.giveBack(ctx, h.msg))
}

func (h *held) confirm(ctx context.Context, how []byte) error {
	bounded, cancel := context.WithTimeout(ctx, h.bus.opts.RequestTimeout)
	defer cancel()
	_, err := h.bus.nc.RequestWithContext(bounded, h.msg.Reply, how)
	return err
}
