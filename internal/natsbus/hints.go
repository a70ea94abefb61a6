package natsbus

import (
	"context"

	"github.com/nats-io/nats.go"
)

// maxHints and maxHintBytes bound what waits for a function that hears a subject. The rest is lost, and the connection logs that.
const (
	maxHints     = 4096
	maxHintBytes = 16 << 20
)

// Say implements wake.Bus. Without a connection it returns an error that wraps bus.ErrUnavailable.
func (b *Bus) Say(subject string, payload []byte) error {
	return classify(context.Background(), "say on "+subject, b.nc.Publish(subject, payload))
}

// Hear implements wake.Bus. A lost connection interrupts it until the connection is restored.
func (b *Bus) Hear(subject string, f func(payload []byte)) (stop func(), err error) {
	heard, err := b.nc.Subscribe(subject, func(msg *nats.Msg) { f(msg.Data) })
	if err == nil {
		err = heard.SetPendingLimits(maxHints, maxHintBytes)
	}
	if err != nil {
		return nil, classify(context.Background(), "hear "+subject, err)
	}
	return func() { _ = heard.Unsubscribe() }, nil // it fails only without a connection, which hears nothing
}
