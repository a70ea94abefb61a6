// Package app wires Fanmail: it opens the stores and the bus from a configuration, builds the roles on them, runs them,
// and drains them when they are to stop. It is the only place that knows which implementation is behind which interface.
package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/following"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/internal/telemetry"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Options is what an App needs besides its configuration.
type Options struct {
	Logger zerolog.Logger
	// Now is the clock; nil means the system's.
	Now func() time.Time
	// Wrap, unless it is nil, returns what the roles are to use in place of the parts that were opened. Tests stand
	// between the roles and the world with it.
	Wrap func(Parts) Parts
}

// App is all roles in one process, on the embedded store and the embedded NATS server. It is a startstop.Service.
type App struct {
	config config.Config
	opts   Options
	group  startstop.Group
	world  world
	server *httpServer
}

// New returns an App that is not started.
func New(cfg config.Config, opts Options) *App {
	if opts.Now == nil {
		opts.Now = time.Now //nolint:forbidigo // this is where the clock is injected from
	}
	return &App{config: cfg, opts: opts}
}

// Start opens the data folder, starts the roles, and returns when requests are answered.
func (a *App) Start(ctx context.Context) error {
	parts, err := a.world.open(ctx, a.config, a.opts)
	if err != nil {
		return err
	}
	if a.opts.Wrap != nil {
		parts = a.opts.Wrap(parts)
	}
	a.server = a.assemble(parts)
	if err := a.group.Start(ctx); err != nil {
		return errors.Join(err, a.world.close())
	}
	a.opts.Logger.Info().Str("url", a.URL()).Str("data", a.config.Data).Msg("fanmail is ready")
	return nil
}

// URL returns the address of the HTTP interface. The app must have been started.
func (a *App) URL() string { return "http://" + a.server.addr() }

// Stop stops taking requests and work, lets what is in flight finish until ctx ends, and closes what was opened. It may be
// called more than once.
func (a *App) Stop(ctx context.Context) error {
	err := a.group.Stop(ctx)
	return errors.Join(err, a.world.close())
}

// Run starts the app, waits until ctx ends, and stops it within the configured drain timeout.
func (a *App) Run(ctx context.Context) error {
	if err := a.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	a.opts.Logger.Info().Dur("drain_timeout", a.config.DrainTimeout).Msg("stopping")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.config.DrainTimeout)
	defer cancel()
	if err := a.Stop(drain); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	a.opts.Logger.Info().Msg("stopped")
	return nil
}

// assemble builds the roles on the parts, adds them to the group, and returns the HTTP server among them.
func (a *App) assemble(p Parts) *httpServer {
	policy := userstate.Policy{DormantAfter: a.config.DormantAfter, ClockTolerance: a.config.ClockTolerance}
	limits := message.Limits{
		BodyBytes:  int(a.config.Limits.Body),
		AttrsBytes: int(a.config.Limits.Attrs),
		Recipients: a.config.Limits.Recipients,
	}
	appender := bucket.NewAppender(p.Inbox, p.Users)
	publisher := publish.New(p.Messages, p.Keys, p.Bus, publish.Options{
		Limits: limits, Slack: a.config.PublishSlack, KeyTTL: a.config.Idempotency.TTL,
		Now: a.opts.Now, Random: rand.Reader, Logger: a.opts.Logger,
	})
	stores := fanout.Stores{Messages: p.Messages, Progress: p.Progress, Users: p.Users, Edges: p.Edges, Appender: appender}
	options := a.fanoutOptions(policy)
	options.Waiting = p.Waiting
	router := fanout.NewRouter(stores, p.Bus, options)
	deliverer := fanout.NewDeliverer(stores, p.Bus, options)
	sweeper := fanout.NewSweeper(stores, p.Bus, options)
	rehydrator := a.rehydrator(p, policy, appender)
	metrics := telemetry.NewMetrics(rehydrator)
	handler := httpapi.New(httpapi.Services{
		Publish:  publisher,
		Reporter: publish.NewReporter(p.Messages, p.Progress, a.config.PublishSlack),
		Following: following.New(p.Edges, p.Messages, p.Users, appender, following.Options{
			Partitions: a.config.Partitions, Policy: policy, Slack: a.config.PublishSlack, Now: a.opts.Now,
		}),
		Rehydrate: rehydrator,
		Inbox: inbox.New(
			inbox.Stores{Buckets: p.Inbox, Users: p.Users, Messages: p.Messages, Appender: appender}, rehydrator,
			inbox.Options{Partitions: a.config.Partitions, Policy: policy, Now: a.opts.Now},
		),
		Audit: audit.New(
			audit.Stores{
				Messages: p.Messages, Progress: p.Progress, Users: p.Users, Edges: p.Edges, Buckets: p.Inbox, Appender: appender,
			},
			audit.Options{
				Partitions: a.config.Partitions, Policy: policy, Slack: a.config.PublishSlack, Random: rand.Reader, Now: a.opts.Now,
			},
		),
		Ready: a.world.ready, Metrics: metrics,
	}, httpapi.Options{
		Limits: limits, PageMax: a.config.Limits.Page, BatchLines: a.config.Limits.BatchLines,
		Logger: a.opts.Logger, Now: a.opts.Now,
	})
	server := newHTTPServer(a.config, handler, a.opts.Logger)

	a.group.Add("deliverer", startstop.NewRunner(func(intake, work context.Context) { deliverer.Run(intake, work, p.Take) }))
	a.group.Add("router", startstop.NewRunner(func(intake, work context.Context) { router.Run(intake, work, p.Fetch) }))
	a.group.Add("sweeper", startstop.NewRunner(sweeper.Run))
	a.group.Add("rehydrator", startstop.NewRunner(rehydrator.Run))
	a.group.Add("logins", startstop.NewRunner(func(intake, work context.Context) {
		rehydrator.RunLogins(intake, work, rehydrate.Logins{Fetch: p.FetchLogins, DeadLetter: p.Bus.DeadLetter})
	}))
	a.group.Add("idempotency keys", startstop.NewRunner(publisher.ForgetKeys))
	a.group.Add("http", server)
	return server
}

func (a *App) rehydrator(p Parts, policy userstate.Policy, appender *bucket.Appender) *rehydrate.Service {
	r := a.config.Rehydrate
	stores := rehydrate.Stores{Messages: p.Messages, Users: p.Users, Edges: p.Edges, Appender: appender}
	return rehydrate.New(stores, rehydrate.Options{
		Partitions: a.config.Partitions, Policy: policy, Slack: a.config.PublishSlack,
		Limit: r.Limit, Workers: r.Workers, Queue: r.Queue, Page: r.Page, Lease: r.Lease, ReapEvery: r.ReapEvery,
		Alone: true, Patience: patience, // the embedded store belongs to one process
		Emit: p.EmitRehydrated, Token: rand.Text, Now: a.opts.Now, Logger: a.opts.Logger,
	})
}

// patience is how long a request waits for a rehydration that it cannot do without.
const patience = 10 * time.Second

func (a *App) fanoutOptions(policy userstate.Policy) fanout.Options {
	f := a.config.Fanout
	return fanout.Options{
		Partitions: a.config.Partitions, Policy: policy, Slack: a.config.PublishSlack,
		ExpressMax: f.ExpressMax, MediumMax: f.MediumMax, ClassCache: f.ClassCache, ClassTTL: f.ClassTTL,
		Workers: map[event.Lane]int{
			event.Express: f.ExpressWorkers, event.Medium: f.MediumWorkers, event.Bulk: f.BulkWorkers,
		},
		BatchOwners: f.BatchOwners, BatchTasks: f.BatchTasks, BatchBytes: int(f.BatchBytes),
		RouteEvents: routeEvents, ExtendEvery: a.config.NATS.AckWait / 3, MaxAttempts: f.MaxAttempts,
		SweepAfter: f.SweepAfter, SweepEvery: f.SweepEvery,
		Now: a.opts.Now, Logger: a.opts.Logger,
	}
}

// routeEvents is how many events are routed together: enough to keep the store's group commit busy.
const routeEvents = 128
