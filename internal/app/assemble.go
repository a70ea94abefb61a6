package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/backup"
	"github.com/fanmail/fanmail/internal/clocks"
	"github.com/fanmail/fanmail/internal/console"
	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/following"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/identities"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/live"
	"github.com/fanmail/fanmail/internal/overview"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/internal/telemetry"
	"github.com/fanmail/fanmail/internal/topics"
	"github.com/fanmail/fanmail/internal/wake"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// assembly builds the roles of a process.
type assembly struct {
	*App
	parts     Parts
	watch     *clocks.Watch
	wakeups   *wake.Hub
	began     time.Time
	panics    *panics.Recorder // of the loops
	following *following.Service
	topics    *topics.Service
	// follows records the views that follows count as. It is nil in a process that does not publish.
	follows *rehydrate.Service
	// rehydrator and walker are nil in a process that only publishes.
	rehydrator *rehydrate.Service
	walker     *retention.Walker

	memory   *httpapi.Memory
	services httpapi.Services
}

// assemble builds the roles on the parts, adds them to the group, and returns the handler of their requests.
func (a *App) assemble(p Parts, watch *clocks.Watch) http.Handler {
	hub := a.newHub()
	p.wake(hub)
	s := &assembly{
		App: a, parts: p, watch: watch, wakeups: hub, began: a.opts.Now(), panics: panics.NewRecorder(a.opts.Logger, a.opts.Metrics, "loop"),
		memory: httpapi.NewMemory(int64(a.config.HTTP.Memory)),
	}
	s.appender = s.newAppender(&p)
	s.run("settings", s.settings.Poll, s.settings.Report)
	s.run("clocks", watch.Run)
	s.run("wake-ups", hub.Run)
	s.run("files", a.watchFiles)
	s.addTopics()
	if a.has(FanoutWorker) || a.has(Rehydrator) {
		s.retention()
	}
	if a.has(FanoutWorker) {
		s.fanout()
	}
	if a.has(Rehydrator) {
		s.inboxes()
	}
	if a.has(Publisher) {
		s.publisher()
	}
	if a.has(Publisher) || a.has(Rehydrator) {
		s.reporter()
	}
	if room := a.world.store.room; room != nil {
		s.services.Room = room.check
	}
	a.measureBuild()
	a.measureExpiry()
	s.services.Ready, s.services.Metrics = a.ready, telemetry.MetricsHandler(a.opts.Metrics)
	return httpapi.New(s.services, a.secure(httpapi.Options{
		Console: s.console(),
		Limits:  a.limits(), PageMax: a.config.Limits.Page, BatchLines: a.config.Limits.BatchLines,
		StreamWriteTimeout: a.config.Stream.WriteTimeout, StreamHeartbeat: a.config.Stream.Heartbeat, Origins: a.config.HTTP.OriginList(),
		Logger: a.opts.Logger, Tracer: a.tracer(), Now: a.opts.Now, Metrics: a.opts.Metrics, Memory: s.memory,
	}))
}

// console returns what makes the handler of the console, or nil where there is none: in a process that does not serve /v1/admin, and on an address
// that others can reach without authentication.
func (s *assembly) console() func(http.Handler) http.Handler {
	if !s.config.Console || !s.has(Rehydrator) || !loopback(s.config.Addr) && !authenticates(s.config) {
		return nil
	}
	return func(api http.Handler) http.Handler {
		return console.New(api, console.Options{Login: s.auth != nil, Ending: s.live.Ending(), Now: s.opts.Now, Logger: s.opts.Logger})
	}
}

// newHub returns what wakes streams. A process with the embedded store is alone.
func (a *App) newHub() *wake.Hub {
	opts := wake.Options{Process: rand.Text(), Now: a.opts.Now, Logger: a.opts.Logger, Metrics: a.opts.Metrics}
	if a.config.Store != config.StoreEmbedded {
		opts.Bus = a.world.bus
	}
	return wake.New(opts)
}

func (s *assembly) newAppender(p *Parts) *bucket.Appender {
	appender := bucket.NewAppender(p.Inbox, p.Users).WithOpened(s.grown)
	if p.Index != nil {
		appender = appender.WithDeclarations(s.settings.Attributes, s.settings.Load)
	}
	return appender
}

// run adds a service of loops to the group.
func (s *assembly) run(name string, loops ...startstop.Loop) {
	s.group.Add(name, startstop.NewRunner(name, s.panics, loops...))
}

func (a *App) limits() message.Limits {
	return message.Limits{
		BodyBytes:  int(a.config.Limits.Body),
		AttrsBytes: int(a.config.Limits.Attrs),
		Recipients: a.config.Limits.Recipients,
	}
}

// newPublisher returns a service that publishes. Only one of a process has metrics.
func (s *assembly) newPublisher(metrics prometheus.Registerer) *publish.Service {
	return publish.New(s.parts.Messages, s.parts.Keys, s.parts.Bus, publish.Options{
		Limits: s.limits(), Rules: s.settings.Rules, KeyTTL: s.settings.KeyTTL, Unknown: s.topics.Unknown, Identities: s.services.Identities,
		Blocks: s.following.Blocks, Attributes: s.settings.Attributes,
		Now: s.opts.Now, Random: rand.Reader, Logger: s.opts.Logger, Tracer: s.tracer(), Metrics: metrics, Tally: &s.tally,
	})
}

func (s *assembly) publisher() {
	s.services.Identities = identities.New(s.parts.Identities, identities.Options{
		Further: s.config.Identities.List(), Now: s.opts.Now,
	})
	publisher := s.newPublisher(s.opts.Metrics)
	s.services.Publish = publisher
	if s.follows = s.rehydrator; !s.has(Rehydrator) {
		s.follows = s.newRehydrator(nil, elsewhere)
	}
	s.services.Following, s.services.Topics = s.following, s.topics
	s.run("idempotency keys", publisher.ForgetKeys)
}

// reporter adds what tells how far messages are: to publishers, and beside the rest that operators look at.
func (s *assembly) reporter() {
	shown := s.parts.shown()
	s.services.Reporter = publish.NewReporter(shown.Messages, shown.Progress, shown.Edges, shown.Users, publish.ReporterOptions{
		Partitions: s.config.Partitions, Waits: s.waits(), Now: s.opts.Now,
		Removed: func(ctx context.Context, user message.UserID, id message.ID) (bool, error) {
			return inbox.Removed(ctx, inbox.Stores{Users: s.parts.Users, Buckets: s.parts.Inbox}, user, id)
		},
	})
}

// addTopics adds what changes edges and topics. All processes that publish, also again from a dead letter, ask which topics there are.
func (s *assembly) addTopics() {
	p := s.parts
	var seen func(context.Context, message.UserID, time.Time) error
	if s.config.Following.CountsAsView {
		seen = func(ctx context.Context, user message.UserID, at time.Time) error {
			return s.follows.Notice(ctx, user, at)
		}
	}
	s.following = following.New(p.Edges, p.Messages, p.Users, s.appender, following.Options{
		Partitions: s.config.Partitions, Rules: s.settings.Rules, Max: s.config.Following.Max, Now: s.opts.Now, Clock: s.watch.Now, Seen: seen,
	})
	s.topics = topics.New(p.Topics, p.Edges, s.following, topics.Options{
		Partitions: s.config.Partitions, Now: s.opts.Now,
	})
}

func (s *assembly) fanout() {
	p, d := s.parts, s.parts.delivery()
	stores := fanout.Stores{
		Messages: d.Messages, Ended: d.shown().Messages, Progress: d.Progress, Users: d.Users, Edges: d.Edges, Appender: s.newAppender(d),
		Round: retention.Number(d.Walk),
	}
	options := s.fanoutOptions()
	if p.Sweep != nil {
		options.Elected = retention.Elect(p.Sweep, rand.Text(), 2*options.ResumeEvery, s.settings.Rules, s.opts.Now)
	}
	router := fanout.NewRouter(stores, p.Bus, options)
	deliverer := fanout.NewDeliverer(stores, p.Bus, options)
	resumer := fanout.NewResumer(stores, p.Bus, options)
	s.run("deliverer", func(intake, work context.Context) { deliverer.Run(intake, work, p.Bus) })
	s.run("router", func(intake, work context.Context) { router.Run(intake, work, p.Bus.FetchPublished) })
	s.run("resumer", resumer.Run)
}

func (a *App) fanoutOptions() fanout.Options {
	f := a.config.Fanout
	stuckAfter := f.StuckAfter
	if a.config.Store == config.StoreMongoDB { // a call that ends by the timeout is not stuck
		stuckAfter = max(stuckAfter, 3*a.config.MongoDB.Timeout)
	}
	return fanout.Options{
		Partitions: a.config.Partitions, Rules: a.settings.Rules,
		DirectMax: f.DirectMax, MediumMax: f.MediumMax, ClassCache: f.ClassCache, ClassTTL: f.ClassTTL, HeadStarts: f.HeadStarts,
		Workers:     map[event.Lane]int{event.Medium: f.MediumWorkers, event.Bulk: f.BulkWorkers},
		BatchOwners: f.BatchOwners, BatchTasks: f.BatchTasks, BatchBytes: int(f.BatchBytes),
		RouteEvents: routeEvents, ExtendEvery: a.config.NATS.AckWait / 3, MaxAttempts: f.MaxAttempts,
		Room: a.world.store.room.bulk, StuckAfter: stuckAfter, ResumeAfter: f.ResumeAfter, ResumeEvery: f.ResumeEvery,
		SlowAfter: a.config.Log.SlowAfter, Waits: a.waits(),
		Now: a.opts.Now, Logger: a.opts.Logger, Tracer: a.tracer(), Metrics: a.opts.Metrics, Tally: &a.tally,
	}
}

// routeEvents is the number of events that are fetched together. It is large enough to keep the store's group commit busy.
const routeEvents = 128

// waits says what messages wait for.
func (a *App) waits() progress.Waits {
	return progress.Waits{
		Lease: a.config.NATS.AckWait, ResumeAfter: a.config.Fanout.ResumeAfter, Room: a.world.store.room.bulk,
		Workers: func() bool { return a.settings.Runs(string(FanoutWorker)) },
	}
}

func (s *assembly) inboxes() {
	p, rehydrator, shown := s.parts, s.rehydrator, s.parts.shown()
	s.services.Rehydrate = rehydrator
	inboxes := inbox.New(
		inbox.Stores{
			Buckets: p.Inbox, Users: p.Users, Appender: s.appender, Flags: p.Flags,
			Shown: inbox.Shown{Buckets: shown.Inbox, Index: shown.Index, Users: shown.Users, Flags: shown.Flags},
		}, rehydrator,
		inbox.Options{
			Rules: s.settings.Rules, ViewedEvery: s.config.ViewedEvery, Retention: s.settings.Retention, Trim: s.walker.TrimUser, Now: s.opts.Now,
			Purged: s.walker.Purged, Logger: s.opts.Logger, Metrics: s.opts.Metrics, Clock: s.watch.Now,
			Epoch:      s.world.store.Epoch,
			Expired:    retention.Expired(p.Walk, s.settings.Rules),
			Attributes: s.settings.Attributes, FilterBuckets: s.config.Inbox.FilterBuckets, FilterMessages: s.config.Inbox.FilterMessages,
		},
	)
	s.services.Inbox = inboxes
	s.live = live.New(inboxes, s.wakeups, live.Options{
		Max: cmp.Or(s.config.Stream.Max, s.server.most*3/4), PerUser: s.config.Stream.PerUser, LookEvery: s.config.Stream.LookEvery,
		Reserve: s.memory.Hold, Logger: s.opts.Logger, Metrics: s.opts.Metrics,
	})
	s.services.Live = s.live
	s.run("streams", s.live.Run)
	s.services.Audit = audit.New(
		audit.Stores{
			Messages: p.Messages, Progress: p.Progress, Users: p.Users, Edges: p.Edges, Flags: p.Flags, Buckets: p.Inbox, Appender: s.appender,
		},
		audit.Options{
			Partitions: s.config.Partitions, Rules: s.settings.Rules, Random: rand.Reader, Now: s.opts.Now, Waits: s.waits(),
			Recount: rehydrator.Recount,
		},
	)
	s.services.Settings = settings.NewService(s.settings, settings.ServiceOptions{Now: s.opts.Now})
	seen := overview.Sources{
		Bus: p.Bus, Processes: s.services.Settings.Processes, Rows: s.settings.Rows, Due: shown.Users.Due, Load: rehydrator.Load,
		Clocks: s.watch.Readings, Retention: s.walker.Status, Round: p.Walk.Load, Now: s.opts.Now,
	}
	if room := s.world.store.room; room != nil {
		seen.Room = room.check
	}
	s.services.Overview = overview.New(seen)
	if store := s.world.store.Backup; store != nil {
		s.services.Backup = backup.New(s.world.bus, store, s.config.Data, s.config.Backup.Dir, s.opts.Now)
	}
	s.run("rehydrator", rehydrator.Run)
	s.run("logins", func(intake, work context.Context) { rehydrator.RunLogins(intake, work, p.Bus) })
}

// patience is how long a request waits for a rehydration that it needs.
const patience = 10 * time.Second
