// Package app wires Fanmail. It opens the stores and the bus from a configuration, builds the roles on them, runs them, and drains
// them when the process stops. Only this package and its subpackages know which implementation is behind which interface.
package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/live"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/internal/telemetry"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/bucket"
)

// Options configures an App, in addition to its configuration.
type Options struct {
	// Roles are the roles of this process; none means all roles.
	Roles []Role
	// Embedded opens the embedded engines. It is nil in programs without them. Then Start refuses a configuration that names one.
	Embedded Embedded
	Logger   zerolog.Logger
	// Traces receives spans; nil means no tracing. The App shuts it down when it stops.
	Traces telemetry.Traces
	// Metrics is the registry for the metrics of the process, which /metrics shows; nil means a new registry.
	Metrics *prometheus.Registry
	// Now is the clock; nil means the system's.
	Now func() time.Time
	// Elapsed returns the time since a fixed moment, by a clock that cannot be set; nil means the time since the host booted, if Now is
	// the system's clock. The embedded store uses it to notice that Now was set forward.
	Elapsed func() time.Duration
	// Stamp is the clock for the storage time of messages; nil means the clock of the store. Benchmarks store messages in the past.
	Stamp func() time.Time
	// Wrap, unless it is nil, returns the parts for the roles, given the opened ones, and those of fan-out if it has its own. Tests use it to insert
	// wrappers.
	Wrap func(Parts) Parts
	// Command, unless it is nil, is called when a command to MongoDB begins. Benchmarks count them.
	Command func()
}

// App runs one role or all roles in a process. It is a startstop.Service.
type App struct {
	config config.Config
	opts   Options
	world  world
	server *httpServer
	auth   httpapi.Authenticator
	// stale reports for each reloaded file whether it is missing or refused.
	stale []func() bool
	group startstop.Group
	// settings has the rules in force.
	settings *settings.Current
	tally    tally.Tally
	appender *bucket.Appender
	live     *live.Service // nil in a process that serves no inboxes
}

// New returns an App that is not started.
func New(cfg config.Config, opts Options) *App {
	if opts.Now == nil {
		opts.Now = now
	}
	if opts.Metrics == nil {
		opts.Metrics = telemetry.NewRegistry()
	}
	return &App{config: cfg, opts: opts, server: newHTTPServer(cfg, opts.Logger)}
}

// now is the system's clock.
func now() time.Time { return time.Now() } //nolint:forbidigo // this is where the clock is injected from

// Start opens the store and the bus, starts the roles, and returns when the server answers requests. It waits for a database and a NATS
// server that do not answer, until ctx ends. Meanwhile it answers health checks.
func (a *App) Start(ctx context.Context) error {
	if err := a.checkEngines(); err != nil {
		return err
	}
	a.warn()
	places, err := connections(a.config.HTTP.MaxConnections, descriptors())
	if err != nil {
		return err
	}
	a.server.limit(places)
	if a.auth, err = a.authenticator(); err != nil {
		return err
	}
	if a.server.tls, err = a.serverTLS(); err != nil {
		return err
	}
	starting := httpapi.NewStarting(a.world.waiting, httpapi.Options{Logger: a.opts.Logger, Now: a.opts.Now})
	if err := a.server.start(ctx, starting); err != nil {
		a.flush(ctx)
		return err
	}
	if err := a.startRoles(ctx); err != nil {
		a.flush(ctx)
		return errors.Join(err, a.server.stop(ctx), a.world.close())
	}
	a.opts.Logger.Info().Str("url", a.URL()).Str("data", a.config.Data).Str("store", a.config.Store).Str("roles", a.roles()).
		Msg("fanmail is ready")
	return nil
}

func (a *App) startRoles(ctx context.Context) (err error) {
	if a.settings, err = a.configured(); err != nil {
		return err
	}
	parts, err := a.world.open(ctx, a.config, a.settings, a.opts)
	if err != nil {
		return err
	}
	if a.opts.Wrap != nil {
		if parts.Delivery != nil {
			delivery := a.opts.Wrap(*parts.Delivery)
			parts.Delivery = &delivery
		}
		parts = a.opts.Wrap(parts)
	}
	watch := a.watchClocks()
	if err := watch.Check(ctx); err != nil {
		return err
	}
	handler := a.assemble(parts, watch)
	if err := a.group.Start(ctx); err != nil {
		return err
	}
	a.server.serve(handler)
	return nil
}

// URL returns the address of the HTTP interface. The app must have been started.
func (a *App) URL() string {
	if a.server.tls != nil {
		return "https://" + a.server.addr()
	}
	return "http://" + a.server.addr()
}

// Appender returns the appender of the roles. The app must have been started. Benchmarks fill inboxes with it.
func (a *App) Appender() *bucket.Appender { return a.appender }

// Stop accepts no more requests and tasks, lets those in progress finish until ctx ends, and closes the store and the bus. It is
// idempotent.
func (a *App) Stop(ctx context.Context) error {
	if a.live != nil {
		a.live.Drain()
	}
	err := a.server.stop(ctx)
	err = errors.Join(err, a.group.Stop(ctx), a.world.close())
	a.flush(ctx)
	return err
}

// flushWithin is how long the export of spans may delay the stop, because their receiver may be down.
const flushWithin = 5 * time.Second

// flush exports the remaining spans. A failure is only a warning, because the work of the process is done.
func (a *App) flush(ctx context.Context) {
	if a.opts.Traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	if err := a.opts.Traces.Shutdown(ctx); err != nil {
		a.opts.Logger.Warn().Err(err).Msg("the last spans were not exported")
	}
}

// tracer returns the tracer of the roles.
func (a *App) tracer() tracing.Tracer {
	if a.opts.Traces == nil {
		return tracing.Tracer{}
	}
	return tracing.New(a.opts.Traces)
}

// Run starts the app, waits until ctx ends, and stops the app within the drain timeout. If the cause is ErrTerminated, it first waits for
// the drain delay.
func (a *App) Run(ctx context.Context) error {
	if err := a.Start(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			a.opts.Logger.Info().Msg("stopped before it was ready")
			return nil
		}
		return err
	}
	<-ctx.Done()
	a.drain(ctx)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.config.DrainTimeout)
	defer cancel()
	if err := a.Stop(drain); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	a.opts.Logger.Info().Msg("stopped")
	return nil
}
