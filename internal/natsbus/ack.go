package natsbus

import (
	"context"
	"fmt"
	"maps"
	"strconv"

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
// moment after it stores it, so the number may be too small. It may count one attempt too many: it hands a message out to a request that
// ends at that moment, notices that nobody got it, and takes the attempt back only if it was not the first.
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
		Attempts: int(meta.NumDelivered) + earlierAttempts(msg.Header), //nolint:gosec // the number of attempts fits into an int
		Stored:   meta.Timestamp.UTC(),
	}, meta.NumPending, nil
}

// attemptsHeader is the header of a task that was given back. It holds the number of attempts before.
const attemptsHeader = "Fanmail-Attempts"

// earlierAttempts returns the number of attempts in a header. Any client can send the header, so other values mean none.
func earlierAttempts(h nats.Header) int {
	n, err := strconv.ParseUint(h.Get(attemptsHeader), 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// giveBack puts a message at the end of its stream again, as if it had not been handed out, and then removes it. The server counts
// each time that it hands out a message, so the copy has the number of the other attempts in a header. If the message cannot be put
// back, giveBack releases it: then this attempt counts.
func (b *Bus) giveBack(ctx context.Context, msg *nats.Msg) error {
	delivery, _, err := handedOut(msg)
	if err != nil {
		return err
	}
	again := &nats.Msg{Subject: msg.Subject, Data: msg.Data, Header: maps.Clone(msg.Header)}
	setHeader(again, attemptsHeader, strconv.Itoa(delivery.Attempts-1))
	if err := b.emit(ctx, []*nats.Msg{again}); err != nil {
		b.release(msg)
		return err
	}
	return b.nc.Publish(msg.Reply, ackDone)
}
