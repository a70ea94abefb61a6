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
	a.opts.Logger.Info().Stringer("drain_delay", delay).Stringer("drain_timeout", a.config.DrainTimeout).Msg("stopping")
	a.settings.Stopping()
	a.server.drain()
	if delay > 0 {
		<-time.After(delay)
	}
}

// readyTimeout is how long the store and the bus may take to answer before the process counts them as away.
const readyTimeout = 2 * time.Second

// ready returns the reasons why this process should not receive requests now, and the reasons why it serves with limits. While the process
// stops, ready returns at once and checks neither store nor bus: a slow store must not use up the drain delay.
func (a *App) ready(ctx context.Context) (reasons, limited []client.Reason) {
	if a.server.draining.Load() {
		return []client.Reason{{Name: client.ReasonStopping, Detail: "it is stopping"}}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var away, silent []client.Reason
	var asking sync.WaitGroup
	asking.Go(func() { away = a.check(ctx, client.ReasonStore, a.world.store.Healthy) })
	asking.Go(func() { silent = a.check(ctx, client.ReasonBus, a.world.bus.Healthy) })
	asking.Wait()
	if a.needsBus() {
		return slices.Concat(away, silent), nil
	}
	for i := range silent {
		silent[i].Detail += ": " + a.withoutBus()
	}
	if a.has(Publisher) && a.waits().None() {
		silent = append(silent, client.Reason{Name: client.ReasonWorker, Detail: "no fan-out worker runs: messages are accepted, and wait for one"})
	}
	return away, silent
}

// withoutBus returns what this process does while the bus is away.
func (a *App) withoutBus() string {
	if a.has(Publisher) {
		return "messages are accepted about once a second and otherwise refused as busy; those accepted wait for it"
	}
	return "inboxes are served; messages that wait for it are not in them yet"
}

// needsBus reports whether this process does nothing without the bus. A publisher stores messages, and emits their events when the bus is
// back. A rehydrator reads and rebuilds inboxes from the store alone. A fan-out worker receives all of its work from the bus.
func (a *App) needsBus() bool { return !a.has(Publisher) && !a.has(Rehydrator) }

// check asks a part whether it is healthy. It returns no reason or one.
func (a *App) check(ctx context.Context, name client.ReasonName, healthy func(context.Context) error) []client.Reason {
	err := panics.Do(func() error { return healthy(ctx) })
	if err == nil {
		return nil
	}
	a.opts.Logger.Debug().Err(err).Str("part", string(name)).Msg("a part of this process is away")
	return []client.Reason{{Name: name, Detail: "the " + string(name) + " " + trouble(err)}}
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
