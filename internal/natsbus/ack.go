package natsbus

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/fanmail/fanmail/pkg/event"
)

// What is sent to a message's reply subject.
var (
	ackDone    = []byte("+ACK")
	ackExtend  = []byte("+WPI")
	ackRelease = []byte("-NAK")
)

// handedOut returns a message as a Delivery, and how many were waiting behind it when it was handed out. The
// server counts those a moment after it stores them, so that the number may be too small.
func handedOut(msg *nats.Msg) (_ event.Delivery, waiting uint64, _ error) {
	meta, err := msg.Metadata()
	if err != nil {
		return event.Delivery{}, 0, fmt.Errorf("natsbus: read what the server tells of a message: %w", err)
	}
	return event.Delivery{
		Sequence: meta.Sequence.Stream,
		Subject:  msg.Subject,
		Payload:  msg.Data,
		Trace:    traceOf(msg.Header),
		Attempts: int(meta.NumDelivered), //nolint:gosec // nothing is handed out that often
		Stored:   meta.Timestamp.UTC(),
	}, meta.NumPending, nil
}
