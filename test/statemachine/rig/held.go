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
	// lease never runs out: Expire lets it run out.
	lease = 24 * time.Hour
	// takeWait bounds the wait for what the bus says is there. It is used up only where a task was removed under
	// its holder's hands.
	takeWait = 3 * time.Second
)

// Held is a held task behind the seam.
type Held struct {
	bus.Held
	bus   *Bus
	place place
}

// Take returns a task of a lane and partition, or nil if there is none that nobody holds.
func (b *Bus) Take(ctx context.Context, lane event.Lane, partition int) (*Held, error) {
	at := place{lane, partition}
	_, tasks, err := b.Queued(ctx)
	if err != nil || tasks[at.subject()] == 0 || b.holder(at) != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, takeWait)
	defer cancel()
	inner, err := b.Bus.Take(bounded, lane, partition)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil
		}
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

// Expire lets the lease of a held task run out, so that somebody else is given it, while whoever held it goes on.
func (h *Held) Expire(ctx context.Context) error {
	if h.bus.holder(h.place) != h {
		return nil
	}
	err := h.Held.Release(ctx)
	h.ended()
	return err
}

// ended notes that the task is not held any more, by whoever held it.
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

// Received is a published event behind the seam.
type Received struct {
	bus.Received
	bus   *Bus
	actor *Actor
}

// Fetch returns published events that nobody is at work on, at most limit, or none if there are none.
func (b *Bus) Fetch(ctx context.Context, limit int) ([]*Received, error) {
	there, _, err := b.Queued(ctx)
	b.mu.Lock()
	there -= len(b.received)
	b.mu.Unlock()
	if err != nil || there <= 0 {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, takeWait)
	defer cancel()
	events, err := b.FetchPublished(bounded, limit)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil
		}
		return nil, err
	}
	received := make([]*Received, len(events))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, e := range events {
		received[i] = &Received{Received: e, bus: b}
		b.received[e.Delivery().Sequence] = received[i]
	}
	return received, nil
}

// By returns events as fanout takes them, which are acknowledged by the actor that ctx belongs to.
func By(ctx context.Context, received []*Received) []bus.Received {
	actor, _ := ctx.Value(actorKey{}).(*Actor)
	all := make([]bus.Received, len(received))
	for i, r := range received {
		r.actor = actor
		all[i] = r
	}
	return all
}

// Ack implements bus.Received. It returns when the server has taken note.
func (r *Received) Ack() error {
	if r.actor == nil {
		return r.ack()
	}
	_, err := pass(r.actor, "Ack", func() (struct{}, error) { return struct{}{}, r.ack() })
	return err
}

func (r *Received) ack() error {
	if err := r.Received.Ack(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
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

func (r *Received) ended() {
	r.bus.mu.Lock()
	defer r.bus.mu.Unlock()
	delete(r.bus.received, r.Delivery().Sequence)
}

// Expire lets the leases of those events run out that were not acknowledged.
func (b *Bus) Expire(received []*Received) error {
	for _, r := range received {
		b.mu.Lock()
		mine := b.received[r.Delivery().Sequence] == r
		b.mu.Unlock()
		if !mine {
			continue
		}
		if err := r.Release(0); err != nil {
			return err
		}
		r.ended()
	}
	return nil
}
