package app

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/internal/clocks"
)

// watchClocks returns a watch of the store's and the bus's clock. An embedded NATS server has the clock of this host. So has a store whose
// messages this process stamps itself.
func (a *App) watchClocks() *clocks.Watch {
	store := clocks.Clock{Server: "store", Name: "the database's clock", Read: a.world.store.Clock}
	bus := clocks.Clock{Server: "bus", Name: "the NATS server's clock", Read: a.world.bus.Clock}
	if a.opts.Stamp != nil {
		store.Read = a.clock
	}
	if a.world.server != nil {
		bus.Read = a.clock
	}
	return clocks.New([]clocks.Clock{store, bus}, clocks.Options{
		Now: a.opts.Now, Tolerance: a.settings.ClockTolerance, Logger: a.opts.Logger, Metrics: a.opts.Metrics,
	})
}

// clock is the clock of this host.
func (a *App) clock(context.Context) (time.Time, error) { return a.opts.Now(), nil }
