package natsbus

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/event"
)

// Held is a task that was handed to this process alone, for as long as its lease lasts; with it come the
// tasks waiting behind it in its lane and partition. All methods are safe for concurrent use.
type Held struct {
	bus   *Bus
	reply string
	first event.Delivery
}

// Take waits until it holds a task of a lane and partition. It returns an error only when ctx has ended, the
// bus is closed, or there is no such lane or partition; it sits out every trouble of the server.
func (b *Bus) Take(ctx context.Context, lane event.Lane, partition int) (*Held, error) {
	if err := b.checkPlace(lane, partition); err != nil {
		return nil, err
	}
	msg, err := b.pull(ctx, b.taskSource(lane, partition))
	if err != nil {
		return nil, classify(ctx, "take a task", err)
	}
	first, _, err := handedOut(msg)
	if err != nil {
		return nil, err
	}
	return &Held{bus: b, reply: msg.Reply, first: first}, nil
}

// First returns the held task. Its attempts count every hand-out, also those that ended in Release.
func (h *Held) First() event.Delivery { return h.first }

// Waiting returns the tasks behind the held one in the order of their sequences, at most limit, without
// taking them, by a single request: what had been emitted before it is there.
func (h *Held) Waiting(ctx context.Context, limit int) ([]event.Delivery, error) {
	if limit < 1 {
		return nil, nil
	}
	waiting, err := h.bus.read(ctx, FanoutStream, h.first.Subject, h.first.Sequence+1, limit)
	return waiting, classify(ctx, "read waiting tasks", err)
}

// Extend starts the lease anew. It does not wait for the server.
func (h *Held) Extend() error {
	if err := h.bus.nc.Publish(h.reply, ackExtend); err != nil {
		return fmt.Errorf("natsbus: extend lease: %w: %w", ErrUnavailable, err)
	}
	return nil
}

// Remove removes tasks from the stream: those that Waiting returned and that are handled. One that is not
// there any more is passed over. After an error any of them may have been removed.
func (h *Held) Remove(ctx context.Context, tasks []event.Delivery) error {
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

// Done removes the held task and frees its partition for the next one. It returns nil when the server
// has confirmed that.
func (h *Held) Done(ctx context.Context) error {
	return classify(ctx, "acknowledge task", h.confirm(ctx, ackDone))
}

// Release hands the task back, for anybody to take at once. It returns nil when the server has confirmed that.
func (h *Held) Release(ctx context.Context) error {
	return classify(ctx, "release task", h.confirm(ctx, ackRelease))
}

func (h *Held) confirm(ctx context.Context, how []byte) error {
	bounded, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	_, err := h.bus.nc.RequestWithContext(bounded, h.reply, how)
	return err
}
