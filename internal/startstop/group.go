package startstop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Group makes one Service from several.
type Group struct {
	mu      sync.Mutex
	state   state
	members []member
}

type member struct {
	name    string
	service Service
}

// Add adds a service after the services that were added before. Errors mention the name. Call Add only before Start.
func (g *Group) Add(name string, service Service) {
	g.members = append(g.members, member{name: name, service: service})
}

// Start starts the services in order. If a service fails to start, Start stops the services that it has started, and returns all
// errors. It aborts their work only if ctx has ended.
func (g *Group) Start(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.state.start(ctx); err != nil {
		return err
	}
	g.state = running
	for i, m := range g.members {
		if err := m.service.Start(ctx); err != nil {
			g.state = stopped
			return errors.Join(fmt.Errorf("start %s: %w", m.name, err), stop(ctx, g.members[:i]))
		}
	}
	return nil
}

// Stop first waits for a running call of Start. Then it stops the services in reverse order, one after another. It stops all
// services even if some fail, and returns all errors.
func (g *Group) Stop(ctx context.Context) error {
	g.mu.Lock()
	g.state = stopped
	g.mu.Unlock()
	return stop(ctx, g.members)
}

func stop(ctx context.Context, members []member) error {
	var errs []error
	for _, m := range slices.Backward(members) {
		if err := m.service.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", m.name, err))
		}
	}
	return errors.Join(errs...)
}
