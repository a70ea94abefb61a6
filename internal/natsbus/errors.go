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

// ErrIncompatible says that the server, or a stream that is already there, cannot be used.
var ErrIncompatible = errors.New("the bus is incompatible")

// Codes of the JetStream API that nats.go has no names for.
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

// Descriptions that the server sends with a code that has several reasons. They are copied from the server, because its package
// would link the whole server into every client.
const (
	storeMaxBytes    = "maximum bytes exceeded"
	storeMaxMessages = "maximum messages exceeded"
	storeNotFound    = "no message found"
	storeEnd         = "stream store EOF"
)

// classify returns err with the sentinel that it amounts to, and what was being done. The caller's own
// cancellation passes untouched: it says nothing about the bus.
func classify(ctx context.Context, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded): // this package's own, which must not pass for the caller's
		return fmt.Errorf("natsbus: %s: %w: there is no answer", doing, bus.ErrUnavailable)
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
	case codeStoreFailed: // one code for everything that a store refuses
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
	// nats.go passes on what the operating system says of a write to a connection that has just broken.
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	for _, target := range []error{
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrNoServers, nats.ErrDisconnected,
		nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded,
		jetstream.ErrNoStreamResponse, jetstream.ErrAsyncPublishTimeout, jetstream.ErrTooManyStalledMsgs,
		io.ErrClosedPipe, // a write to the embedded server that has just stopped
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
