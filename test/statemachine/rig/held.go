package rig

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/pkg/event"
)

const (
	// lease never ends by itself: Expire ends it.
	lease = 24 * time.Hour
	// takeWait is how long TryTake and TryFetch wait before they ask the stream again whether anything is left to take.
	takeWait = time.Second
	// patience is how long they try. It passes only if the bus does not hand out what is in the stream.
	patience = 5 * time.Minute
)

// errStuck reports that the bus hands out nothing although the stream has something that no process holds.
var errStuck = errors.New("the bus does not hand out what is in the stream")

// attempt calls take until it returns something, or until remain reports that nothing is left to take. Each call ends after
// takeWait, because another process may remove the last event at any time.
func attempt[T any](ctx context.Context, remain func(context.Context) (bool, error), take func(context.Context) (T, error)) (taken T, ok bool, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if left, err := remain(ctx); err != nil || !left {
			return taken, false, err
		}
		bounded, cancel := context.WithTimeout(ctx, takeWait)
		taken, err = take(bounded)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return taken, err == nil, err
		}
	}
	return taken, false, errStuck
}

// Held is a held task behind the seam. It implements bus.Held.
type Held struct {
	bus.Held
	bus   *Bus
	place place
}

// Take implements bus.Intake.
func (b *Bus) Take(ctx context.Context, lane event.Lane, partition int) (bus.Held, error) {
	h, err := b.take(ctx, place{lane, partition})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// TryTake returns a task of a lane and partition, or nil if a process holds one there or there is none.
func (b *Bus) TryTake(ctx context.Context, lane event.Lane, partition int) (*Held, error) {
	at := place{lane, partition}
	remain := func(ctx context.Context) (bool, error) {
		_, tasks, err := b.Queued(ctx)
		return tasks[at.subject()] > 0 && b.holder(at) == nil, err
	}
	h, _, err := attempt(ctx, remain, func(ctx context.Context) (*Held, error) { return b.take(ctx, at) })
	return h, err
}

func (b *Bus) take(ctx context.Context, at place) (*Held, error) {
	inner, err := b.Bus.Take(ctx, at.lane, at.partition)
	if err != nil {
		return nil, err
	}
	h := &Held{Held: inner, bus: b, place: at}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[at] = h
	return h, nil
}

func (b *Bus) holder(at place) *Held {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[at]
}

// Expire ends the lease of a held task: another process can take the task, and the holder does not notice.
func (h *Held) Expire(ctx context.Context) error {
	if h.bus.holder(h.place) != h {
		return nil
	}
	err := h.Held.Release(ctx)
	h.ended()
	return err
}

// ended records that no process holds the task any more.
func (h *Held) ended() {
	h.bus.mu.Lock()
	defer h.bus.mu.Unlock()
	if now := h.bus.held[h.place]; now != nil && now.First().Sequence == h.First().Sequence {
		delete(h.bus.held, h.place)
	}
}

// Waiting implements bus.Held.
func (h *Held) Waiting(ctx context.Context, limit int) ([]event.Delivery, error) {
	return through(ctx, "Waiting", func() ([]event.Delivery, error) { return h.Held.Waiting(ctx, limit) })
}

// Remove implements bus.Held.
func (h *Held) Remove(ctx context.Context, tasks []event.Delivery) error {
	return run(ctx, "Remove", func() error { return h.Held.Remove(ctx, tasks) })
}

// Done implements bus.Held.
func (h *Held) Done(ctx context.Context) error {
	return run(ctx, "Done", func() error {
		err := h.Held.Done(ctx)
		if err == nil {
			h.ended()
		}
		return err
	})
}

// Release implements bus.Held.
func (h *Held) Release(ctx context.Context) error {
	return run(ctx, "Release", func() error { return h.Expire(ctx) })
}

// GiveBack implements bus.Held.
func (h *Held) GiveBack(ctx context.Context) error {
	return run(ctx, "GiveBack", func() error {
		err := h.Held.GiveBack(ctx)
		h.ended()
		return err
	})
}

// received is a published event behind the seam. It implements bus.Received.
type received struct {
	bus.Received
	bus *Bus
	// actor is the one that fetched the event, or nil.
	actor *Actor
}

// FetchPublished implements bus.Intake. The actor that ctx belongs to acknowledges the events.
func (b *Bus) FetchPublished(ctx context.Context, limit int) ([]bus.Received, error) {
	events, err := b.Bus.FetchPublished(ctx, limit)
	if err != nil {
		return nil, err
	}
	actor, _ := ctx.Value(actorKey{}).(*Actor)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, e := range events {
		r := &received{Received: e, bus: b, actor: actor}
		events[i], b.received[e.Delivery().Sequence] = r, r
	}
	return events, nil
}

// TryFetch is FetchPublished, but returns nothing if there is no event that no process has.
func (b *Bus) TryFetch(ctx context.Context, limit int) ([]bus.Received, error) {
	remain := func(ctx context.Context) (bool, error) {
		there, err := b.Unclaimed(ctx)
		return there > 0, err
	}
	events, _, err := attempt(ctx, remain, func(ctx context.Context) ([]bus.Received, error) { return b.FetchPublished(ctx, limit) })
	return events, err
}

// Unclaimed returns how many published events no process has.
func (b *Bus) Unclaimed(ctx context.Context) (int, error) {
	there, _, err := b.Queued(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	return there - len(b.received), err
}

// Ack implements bus.Received. It returns when the server has removed the event.
func (r *received) Ack() error {
	if r.actor == nil {
		return r.ack()
	}
	_, err := pass(r.actor, "Ack", func() (struct{}, error) { return struct{}{}, r.ack() })
	return err
}

func (r *received) ack() error {
	if err := r.Received.Ack(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := r.bus.js.Stream(ctx, natsbus.PublishedStream)
	for err == nil {
		_, err = stream.GetMsg(ctx, r.Delivery().Sequence)
	}
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	r.ended()
	return nil
}

func (r *received) ended() {
	r.bus.mu.Lock()
	defer r.bus.mu.Unlock()
	delete(r.bus.received, r.Delivery().Sequence)
}

// Release implements bus.Received.
func (r *received) Release(after time.Duration) error {
	if !r.mine() {
		return nil
	}
	if err := r.Received.Release(after); err != nil {
		return err
	}
	r.ended()
	return nil
}

// mine reports whether the event is neither acknowledged nor handed out again.
func (r *received) mine() bool {
	r.bus.mu.Lock()
	defer r.bus.mu.Unlock()
	return r.bus.received[r.Delivery().Sequence] == r
}

// Expire ends the leases of the events that are not acknowledged.
func (b *Bus) Expire(events []bus.Received) error {
	for _, e := range events {
		if err := e.Release(0); err != nil {
			return err
		}
	}
	return nil
}
