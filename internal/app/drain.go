package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// ErrTerminated is the cause of a context that ends because of SIGTERM. Then Run serves for the drain delay before it stops, so
// that load balancers notice. After any other cause, such as an interrupt at a terminal, there is no delay.
var ErrTerminated = errors.New("told to terminate")

// drain makes the process unready. After SIGTERM it waits for the drain delay, while the process still serves. Each connection closes
// after its next answer.
func (a *App) drain(ctx context.Context) {
	delay := a.config.DrainDelay
	if !errors.Is(context.Cause(ctx), ErrTerminated) {
		delay = 0
	}
	a.opts.Logger.Info().Dur("drain_delay", delay).Dur("drain_timeout", a.config.DrainTimeout).Msg("stopping")
	a.server.drain()
	if delay > 0 {
		<-time.After(delay)
	}
}

// readyTimeout is how long the store and the bus may take to answer before the process is not ready.
const readyTimeout = 2 * time.Second

// ready returns the reasons why this process should not receive requests now. While the process stops, ready returns at once,
// without checking the store and the bus, because a slow store must not use up the drain delay.
func (a *App) ready(ctx context.Context) []client.Reason {
	if a.server.draining.Load() {
		return []client.Reason{{Name: client.ReasonStopping, Detail: "it is stopping"}}
	}
	return a.unhealthy(ctx)
}

// unhealthy checks the store and the bus concurrently, and returns what is wrong with them.
func (a *App) unhealthy(ctx context.Context) []client.Reason {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	asked := []struct {
		name    client.ReasonName
		healthy func(context.Context) error
	}{{client.ReasonStore, a.world.store.Healthy}, {client.ReasonBus, a.world.bus.Healthy}}
	reasons := make([]client.Reason, len(asked))
	var asking sync.WaitGroup
	for i, part := range asked {
		asking.Go(func() {
			if err := panics.Do(func() error { return part.healthy(ctx) }); err != nil {
				a.opts.Logger.Debug().Err(err).Str("part", string(part.name)).Msg("not ready")
				reasons[i] = client.Reason{Name: part.name, Detail: "the " + string(part.name) + " " + trouble(err)}
			}
		})
	}
	asking.Wait()
	return slices.DeleteFunc(reasons, func(r client.Reason) bool { return r.Name == "" })
}

// trouble returns a text for every client. The error itself may contain hosts and users, so only the log has it.
func trouble(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("does not answer within %v", readyTimeout)
	case errors.Is(err, message.ErrUnavailable), errors.Is(err, bus.ErrUnavailable):
		return "cannot be reached"
	default:
		return "fails: the log has the error at level debug"
	}
}
