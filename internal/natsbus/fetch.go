package natsbus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
)

// received is a bus.Received.
type received struct {
	bus      *Bus
	msg      *nats.Msg
	delivery event.Delivery
}

// FetchPublished implements bus.Intake. An event that was emitted a moment ago may be left to the next call.
func (b *Bus) FetchPublished(ctx context.Context, limit int) ([]bus.Received, error) {
	return b.fetch(ctx, b.publishedSource(), "fetch published messages", limit)
}

// FetchLogins implements bus.Logins.
func (b *Bus) FetchLogins(ctx context.Context, limit int) ([]bus.Received, error) {
	return b.fetch(ctx, b.loginSource(), "fetch logins", limit)
}

// fetch waits until a consumer has events, and returns at most limit of them.
func (b *Bus) fetch(ctx context.Context, src source, doing string, limit int) ([]bus.Received, error) {
	msg, err := b.pull(ctx, src)
	if err != nil {
		return nil, classify(ctx, doing, err)
	}
	first, waiting, err := b.received(msg)
	if err != nil {
		return nil, err
	}
	all := []bus.Received{first}
	if waiting == 0 || limit < 2 {
		return all, nil
	}
	for _, msg := range b.pullMore(ctx, src, min(limit, src.consumer.MaxAckPending)-1) {
		next, _, err := b.received(msg)
		if err != nil {
			return nil, err
		}
		all = append(all, next)
	}
	return all, nil
}

func (b *Bus) received(msg *nats.Msg) (_ bus.Received, waiting uint64, _ error) {
	delivery, waiting, err := handedOut(msg)
	if err != nil {
		return nil, 0, err
	}
	return &received{bus: b, msg: msg, delivery: delivery}, waiting, nil
}

// Delivery implements bus.Received.
func (r *received) Delivery() event.Delivery { return r.delivery }

// Ack implements bus.Received.
func (r *received) Ack() error { return r.acknowledge(ackDone) }

// Extend implements bus.Received.
func (r *received) Extend() error { return r.acknowledge(ackExtend) }

// Release implements bus.Received. Until the server hands the event out again, it counts as handed out. If the message to
// the server is lost, the server hands the event out again when its lease has ended.
func (r *received) Release(after time.Duration) error {
	if after == 0 {
		return r.acknowledge(ackRelease)
	}
	return r.acknowledge(fmt.Appendf(nil, `%s {"delay": %d}`, ackRelease, after.Nanoseconds()))
}

func (r *received) acknowledge(how []byte) error {
	if err := r.bus.nc.Publish(r.msg.Reply, how); err != nil {
		return fmt.Errorf("natsbus: acknowledge event: %w: %w", bus.ErrUnavailable, err)
	}
	return nil
}
