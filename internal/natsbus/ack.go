package natsbus

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/fanmail/fanmail/pkg/event"
)

// The replies to a message from the server.
var (
	ackDone    = []byte("+ACK")
	ackExtend  = []byte("+WPI")
	ackRelease = []byte("-NAK")
)

// handedOut returns a message as a Delivery, and the number of messages that waited behind it. The server counts a message a
// moment after it stores it, so the number may be too small.
func handedOut(msg *nats.Msg) (_ event.Delivery, waiting uint64, _ error) {
	meta, err := msg.Metadata()
	if err != nil {
		return event.Delivery{}, 0, fmt.Errorf("natsbus: read the metadata of a message: %w", err)
	}
	return event.Delivery{
		Sequence: meta.Sequence.Stream,
		Subject:  msg.Subject,
		Payload:  msg.Data,
		Trace:    traceOf(msg.Header),
		Attempts: int(meta.NumDelivered), //nolint:gosec // the number of attempts fits into an int
		Stored:   meta.Timestamp.UTC(),
	}, meta.NumPending, nil
}
