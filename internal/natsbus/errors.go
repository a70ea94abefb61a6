package natsbus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
)

// ErrIncompatible means that Fanmail cannot use the server or an existing stream.
var ErrIncompatible = errors.New("the bus is incompatible")

// errNoRoom says that an event was not sent, because too many others wait for the server's answers.
var errNoRoom = errors.New("it gives no room: too many events are unacknowledged")

// Codes of the JetStream API for which nats.go has no names.
const (
	codeAccountResourcesExceeded jetstream.ErrorCode = 10002
	codeClusterNotAvailable      jetstream.ErrorCode = 10008
	codeInsufficientResources    jetstream.ErrorCode = 10023
	codeSequenceNotFound         jetstream.ErrorCode = 10043
	codeStorageExceeded          jetstream.ErrorCode = 10047
	codeDeleteFailed             jetstream.ErrorCode = 10057
	codeStoreFailed              jetstream.ErrorCode = 10077
	codeTooManyRequests          jetstream.ErrorCode = 10167
)

// Descriptions of errors whose code has several reasons. They are copied from the source of the server, because importing its package
// would link the whole server into every client.
const (
	storeMaxBytes    = "maximum bytes exceeded"
	storeMaxMessages = "maximum messages exceeded"
	storeNotFound    = "no message found"
	storeEnd         = "stream store EOF"
)

// classify wraps err with the sentinel for its cause, and with the operation that failed. It returns the caller's own
// cancellation unchanged, because that says nothing about the bus.
func classify(ctx context.Context, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded): // a timeout of this package, not of the caller
		return fmt.Errorf("natsbus: %s: %w: the server does not answer", doing, bus.ErrUnavailable)
	case isFull(err):
		return fmt.Errorf("natsbus: %s: %w: %w", doing, event.ErrFull, err)
	case isUnavailable(err):
		return fmt.Errorf("natsbus: %s: %w: %w", doing, bus.ErrUnavailable, err)
	default:
		return fmt.Errorf("natsbus: %s: %w", doing, err)
	}
}

func isFull(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return false
	}
	switch api.ErrorCode {
	case codeAccountResourcesExceeded, codeInsufficientResources, codeStorageExceeded:
		return true
	case codeStoreFailed: // the store has this one code for every reason
		return api.Description == storeMaxBytes || api.Description == storeMaxMessages
	default:
		return false
	}
}

func isUnavailable(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch api.ErrorCode {
		case codeClusterNotAvailable, codeTooManyRequests,
			jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
			return true
		default:
			return false
		}
	}
	// nats.go returns the error of the operating system for a write to a connection that has just broken.
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	for _, target := range []error{
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrNoServers, nats.ErrDisconnected,
		nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded,
		jetstream.ErrNoStreamResponse, jetstream.ErrAsyncPublishTimeout, jetstream.ErrTooManyStalledMsgs,
		errNoRoom,
		io.ErrClosedPipe, // a write to an embedded server that has just stopped
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
