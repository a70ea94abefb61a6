package fanout

import (
	"context"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// routeConcurrency is how many events are routed at the same time: they wait for the store, mostly.
const routeConcurrency = 16

// Router turns published messages into tasks. It is safe for concurrent use, and a prometheus.Collector of its own metrics.
type Router struct {
	stores Stores
	bus    bus.Emitter
	opts   Options
	// classes remembers the lanes of authors with many followers. An author who has grown out of a lane in the
	// meantime costs speed, nothing else.
	classes *lru.Cache[message.UserID, class]
	metrics routerMetrics
}

// class is the lane of an author, and when it was measured.
type class struct {
	lane event.Lane
	at   time.Time
}

// NewRouter returns a Router.
func NewRouter(stores Stores, bus bus.Emitter, opts Options) *Router {
	classes, err := lru.New[message.UserID, class](opts.ClassCache)
	if err != nil {
		panic(fmt.Sprintf("fanout: ClassCache is %d: %v", opts.ClassCache, err))
	}
	return &Router{stores: stores, bus: bus, opts: opts, classes: classes, metrics: newRouterMetrics()}
}

// Run routes events as fetch returns them, until intake ends. What was fetched is finished under work, or handed back. The
// caller fetches at most Options.RouteEvents at a time.
func (r *Router) Run(intake, work context.Context, fetch func(ctx context.Context, limit int) ([]bus.Received, error)) {
	for intake.Err() == nil {
		received, err := fetch(intake, r.opts.RouteEvents)
		if err == nil {
			if err = r.Route(work, received); err != nil {
				err = r.routeApart(work, received, err)
			}
			if err != nil {
				r.release(received, 0)
			}
		}
		if err != nil && intake.Err() == nil {
			r.opts.Logger.Error().Err(err).Int("events", len(received)).Msg("routing published messages failed: the bus will hand them out again")
			pause(intake, time.Second)
		}
	}
}

// release hands events back that cannot be routed here, to be handed out again in a while.
func (r *Router) release(received []bus.Received, after time.Duration) {
	for _, item := range received {
		if err := item.Release(after); err != nil {
			about(r.opts.Logger.Warn().Err(err), item.Delivery()).Msg("handing published events back failed: they are handed out again later")
			return
		}
	}
}

// Route plans the fan-out of published messages, emits their tasks and acknowledges their events. It may be repeated
// at any time: the first plan holds, and only tasks that are not done are emitted.
func (r *Router) Route(ctx context.Context, received []bus.Received) (err error) {
	routes := make([]route, len(received))
	defer func() { endAll(routes, err) }()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(routeConcurrency)
	for i, item := range received {
		group.Go(func() error {
			var err error
			routes[i], err = r.plan(groupCtx, item.Delivery())
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var tasks []event.Task
	var finished []message.Ref
	for _, route := range routes {
		tasks = append(tasks, route.tasks...)
		finished = append(finished, route.finished...)
	}
	if len(tasks) > 0 {
		if err := emitTasks(ctx, r.bus, tasks); err != nil {
			return fmt.Errorf("emit tasks: %w", err)
		}
	}
	if len(finished) > 0 {
		if err := r.stores.Messages.Finish(ctx, finished); err != nil {
			return fmt.Errorf("finish: %w", err)
		}
	}
	for _, route := range routes {
		if route.lane != "" {
			r.metrics.routed[route.lane].Inc()
		}
	}
	for _, item := range received {
		if err := item.Ack(); err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
	}
	return nil
}

// route is what follows from a published message.
type route struct {
	span     tracing.Span // lasts until the tasks are emitted
	lane     event.Lane   // empty if there is nothing to deliver
	tasks    []event.Task
	finished []message.Ref
}

// plan returns the route of one event. Work that cannot succeed has become a dead letter when it returns.
func (r *Router) plan(ctx context.Context, delivery event.Delivery) (route, error) {
	ctx, span := r.opts.Tracer.Start(tracing.Within(ctx, delivery.Trace), "route", consumer)
	planned, err := r.planMessage(ctx, delivery)
	planned.span = span
	if Classify(err) != DeadLetter {
		planned.trace(ctx, delivery.Trace)
		return planned, err
	}
	about(r.opts.Logger.Error().Err(err), delivery).Str("reason", reason(err)).Msg("published event is a dead letter")
	return route{span: span}, r.bus.DeadLetter(ctx, deadLetter(delivery, err))
}

func (r *Router) planMessage(ctx context.Context, delivery event.Delivery) (route, error) {
	published, err := event.DecodePublished(delivery.Payload)
	if err != nil {
		return route{}, err
	}
	stored, err := r.stores.Messages.Get(ctx, published.Ref())
	if err != nil {
		return route{}, fmt.Errorf("message %s: %w", published.ID, err)
	}
	if r.opts.Rules().Void(stored) {
		r.metrics.void.Inc()
		return route{finished: []message.Ref{stored.Ref()}}, nil
	}
	audience, err := r.audience(ctx, stored.Message)
	if err != nil {
		return route{}, fmt.Errorf("audience of %s: %w", stored.ID, err)
	}
	fanout, err := r.stores.Progress.Plan(ctx, stored.ID, audience.partitions(), r.opts.Now())
	if err != nil {
		return route{}, fmt.Errorf("plan %s: %w", stored.ID, err)
	}
	if fanout.Done() {
		return route{finished: []message.Ref{stored.Ref()}}, nil
	}
	planned := route{lane: audience.lane}
	for p, scan := range fanout.Scans {
		if !scan.Done && !scan.Dead {
			planned.tasks = append(planned.tasks, event.Task{
				Version: event.Version, ID: stored.ID, From: stored.From,
				Lane: audience.lane, Partition: p, Recipients: audience.recipients[p],
			})
		}
	}
	return planned, nil
}
