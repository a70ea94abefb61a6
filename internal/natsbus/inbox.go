package natsbus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
)

// Codes in the header of server messages that contain no event.
const (
	statusNone         = ""    // the message is an event
	statusHeartbeat    = "100" // the server still has the request
	statusEndOfBatch   = "204"
	statusNotFound     = "404"
	statusExpired      = "408"
	statusNoResponders = "503" // the request has no receiver
)

func status(msg *nats.Msg) string { return msg.Header.Get("Status") }

// statusError is an answer that ends a request early.
type statusError struct{ code, description string }

func newStatusError(msg *nats.Msg) *statusError {
	return &statusError{code: status(msg), description: msg.Header.Get("Description")}
}

func (e *statusError) Error() string { return "status " + e.code + " " + e.description }

// Is reports that a statusError with status 503 is nats.ErrNoResponders.
func (e *statusError) Is(target error) bool {
	return target == nats.ErrNoResponders && e.code == statusNoResponders
}

// statusRoom is the room in an inbox for messages that contain no event.
const statusRoom = 8

// inbox receives the answers to one request.
type inbox struct {
	nc   *nats.Conn
	sub  *nats.Subscription
	msgs chan *nats.Msg
	// drain is how long abandon waits.
	drain time.Duration
}

// openInbox returns an inbox with room for the given number of events. The caller must close it.
func (b *Bus) openInbox(events int) (*inbox, error) {
	msgs := make(chan *nats.Msg, events+statusRoom)
	sub, err := b.nc.ChanSubscribe(b.nc.NewInbox(), msgs)
	if err != nil {
		return nil, err
	}
	return &inbox{nc: b.nc, sub: sub, msgs: msgs, drain: b.opts.DrainTimeout}, nil
}

// next waits for the next answer.
func (in *inbox) next(ctx context.Context, closed <-chan struct{}) (*nats.Msg, error) {
	select {
	case msg := <-in.msgs:
		return msg, nil
	case <-closed:
		return nil, nats.ErrConnectionClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close ends an inbox. After abandon it does nothing.
func (in *inbox) close() {
	_ = in.sub.Unsubscribe() // fails only if the subscription has ended already
}

// abandon ends an inbox whose request may still be answered, and returns the events that have arrived. The caller must use
// them or hand them back: a dropped event blocks its partition until its lease ends. The server keeps events that it has not
// sent.
func (in *inbox) abandon() []*nats.Msg {
	ended := in.sub.StatusChanged(nats.SubscriptionClosed)
	if in.nc.IsConnected() && in.sub.Drain() == nil {
		timer := time.NewTimer(in.drain)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
		}
	}
	in.close()
	var events []*nats.Msg
	for {
		select {
		case msg := <-in.msgs:
			if status(msg) == statusNone {
				events = append(events, msg)
			}
		default:
			return events
		}
	}
}
