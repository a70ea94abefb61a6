package natsbus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fanmail/fanmail/pkg/event"
)

// Received is an event that was handed to this process alone, for as long as its lease lasts.
type Received struct {
	bus      *Bus
	msg      *nats.Msg
	delivery event.Delivery
}

// FetchPublished waits until there are published events, and returns those that are there, in order, at
// most limit; one that was emitted just now may be left for the next call. It returns an error only when ctx has ended
// or the bus is closed; it sits out every trouble of the server. All routers share the events: each goes to one of
// them, and to another one when its lease has run out.
func (b *Bus) FetchPublished(ctx context.Context, limit int) ([]*Received, error) {
	return b.fetch(ctx, b.publishedSource(), "fetch published messages", limit)
}

// FetchLogins does for logins what FetchPublished does for published events. All rehydrators share them. The payload
// may be anything: whoever can reach the bus can publish a login.
func (b *Bus) FetchLogins(ctx context.Context, limit int) ([]*Received, error) {
	return b.fetch(ctx, b.loginSource(), "fetch logins", limit)
}

// fetch waits until a consumer that hands out many events at a time has any, and returns what is there.
func (b *Bus) fetch(ctx context.Context, src source, doing string, limit int) ([]*Received, error) {
	msg, err := b.pull(ctx, src)
	if err != nil {
		return nil, classify(ctx, doing, err)
	}
	received, waiting, err := b.received(msg)
	if err != nil {
		return nil, err
	}
	all := []*Received{received}
	if waiting == 0 || limit < 2 {
		return all, nil
	}
	for _, msg := range b.pullMore(ctx, src, min(limit, src.consumer.MaxAckPending)-1) {
		received, _, err := b.received(msg)
		if err != nil {
			return nil, err
		}
		all = append(all, received)
	}
	return all, nil
}

func (b *Bus) received(msg *nats.Msg) (_ *Received, waiting uint64, _ error) {
	delivery, waiting, err := handedOut(msg)
	if err != nil {
		return nil, 0, err
	}
	return &Received{bus: b, msg: msg, delivery: delivery}, waiting, nil
}

// Delivery returns the event.
func (r *Received) Delivery() event.Delivery { return r.delivery }

// Extend starts the lease anew.
func (r *Received) Extend() error { return r.acknowledge(ackExtend) }

// Ack tells that the event has been handled. It does not wait for the server: should it be lost, the event
// comes again.
func (r *Received) Ack() error { return r.acknowledge(ackDone) }

// Release hands the event back, for anybody to take after a while. Until then it counts as handed out. It does not wait for the
// server: should it be lost, the event comes again when its lease has run out.
func (r *Received) Release(after time.Duration) error {
	if after == 0 {
		return r.acknowledge(ackRelease)
	}
	return r.acknowledge(fmt.Appendf(nil, `%s {"delay": %d}`, ackRelease, after.Nanoseconds()))
}

func (r *Received) acknowledge(how []byte) error {
	if err := r.bus.nc.Publish(r.msg.Reply, how); err != nil {
		return fmt.Errorf("natsbus: acknowledge event: %w: %w", ErrUnavailable, err)
	}
	return nil
}
