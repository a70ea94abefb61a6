package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// ErrTerminated is the cause of a context that ends because the process is to make room, as a supervisor demands by SIGTERM. Before
// Run stops taking requests it then lets others notice, for the configured delay. After any other cause, as an interrupt at a
// terminal, nobody is waited for.
var ErrTerminated = errors.New("told to terminate")

// drain makes the process unready and, if it was terminated, goes on serving until whoever spreads the requests has had the time to
// notice. Clients lose their connections one by one, each with an answer.
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

// readyTimeout is how long store and bus may take to answer before this process counts as not ready.
const readyTimeout = 2 * time.Second

// ready returns why requests should not be sent here now. That it is stopping is told at once, whatever else is the matter: a store that
// takes its time to answer must not take that of the delay.
func (a *App) ready(ctx context.Context) []client.Reason {
	if a.server.draining.Load() {
		return []client.Reason{{Name: client.ReasonStopping, Detail: "it is stopping"}}
	}
	return a.unhealthy(ctx)
}

// unhealthy asks the store and the bus, at the same time, and tells what is the matter with them.
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
			if err := part.healthy(ctx); err != nil {
				a.opts.Logger.Debug().Err(err).Str("part", string(part.name)).Msg("not ready")
				reasons[i] = client.Reason{Name: part.name, Detail: "the " + string(part.name) + " " + trouble(err)}
			}
		})
	}
	asking.Wait()
	return slices.DeleteFunc(reasons, func(r client.Reason) bool { return r.Name == "" })
}

// trouble tells anybody what an error means. The error itself may tell of hosts and users, and belongs in the log.
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
