package fanout

import (
	"context"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// routeConcurrency is how many events are routed at the same time. Routing mostly waits for the store.
	routeConcurrency = 16
	// routeTries is how often a failing event is tried alone before the router hands it back. If its errors come at
	// once, the tries take half a second.
	routeTries = 4
	// deferFor is how long the bus keeps an event that the router handed back. It bounds the delay after an outage.
	deferFor = 5 * time.Second
)

// consumer marks the spans of work that came over the bus.
var consumer = trace.WithSpanKind(trace.SpanKindConsumer)

// Router turns published messages into tasks. It is safe for concurrent use.
type Router struct {
	stores Stores
	bus    bus.Emitter
	opts   Options
	// sizes remembers how many edges lead to sources. If a source has outgrown the remembered size, only speed suffers.
	sizes   *lru.Cache[message.Source, measuredSize]
	starter *headStarter
	metrics routerMetrics
	panics  *panics.Recorder
}

// NewRouter returns a Router.
func NewRouter(stores Stores, bus bus.Emitter, opts Options) *Router {
	sizes, err := lru.New[message.Source, measuredSize](opts.ClassCache)
	if err != nil {
		panic(fmt.Sprintf("fanout: ClassCache is %d: %v", opts.ClassCache, err))
	}
	recorder := panics.NewRecorder(opts.Logger, opts.Metrics, "route")
	return &Router{
		stores: stores, bus: bus, opts: opts, sizes: sizes, starter: newHeadStarter(stores, opts, recorder),
		metrics: newRouterMetrics(opts.Metrics), panics: recorder,
	}
}

// Run routes the events that fetch returns, until intake ends. It finishes fetched events under processing; when
// processing ends, it hands the rest back to the bus. Run passes Options.RouteEvents to fetch as the limit.
func (r *Router) Run(intake, processing context.Context, fetch func(ctx context.Context, limit int) ([]bus.Received, error)) {
	var starting sync.WaitGroup
	defer starting.Wait()
	starting.Go(func() { startstop.Keep(intake, processing, r.panics, "head starts", r.starter.run) })
	for intake.Err() == nil {
		received, err := fetch(intake, r.opts.RouteEvents)
		if err == nil {
			if err = r.Route(processing, received); err != nil {
				err = r.routeOneByOne(processing, received, err)
			}
			if err != nil {
				r.release(received, 0)
			}
		}
		if err != nil && intake.Err() == nil {
			r.opts.Logger.Error().Err(err).Int("events", len(received)).Msg("routing published messages failed: the bus will hand them out again")
			startstop.Pause(intake, time.Second)
		}
	}
}

// Route plans the fan-out of published messages, emits their tasks and acknowledges their events. It is idempotent:
// the first plan of a message stays, and only tasks that are not done are emitted. An event on which the code panics at
// its last attempt becomes a dead letter; before, the panic is an error.
func (r *Router) Route(ctx context.Context, received []bus.Received) (err error) {
	routes := make([]route, len(received))
	defer func() { endSpans(routes, err) }()
	defer panics.Catch(&err)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(routeConcurrency)
	for i, item := range received {
		group.Go(func() (err error) {
			defer panics.Catch(&err)
			routes[i], err = r.plan(groupCtx, item.Delivery())
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := r.dropLate(ctx, routes); err != nil {
		return err
	}
	var tasks []event.Task
	var finished []message.Ref
	for _, route := range routes {
		r.starter.add(route.start) // before the tasks, so that it does not wait for them; if they fail, it is repeated with them
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

// DeliverHeadStarts delivers the head starts of the messages that were routed before, and returns how many there were. Run does the same in the
// background.
func (r *Router) DeliverHeadStarts(ctx context.Context) (n int) {
	for r.starter.next(ctx) {
		n++
	}
	return n
}

// route is the result of planning one published message.
type route struct {
	span     tracing.Work // lasts until the tasks are emitted
	planned  message.Ref  // set if there is a plan that is not done
	lane     event.Lane   // empty if there is nothing to deliver
	tasks    []event.Task
	finished []message.Ref
	start    headStart
}

// plan returns the route of one event. An event that cannot succeed is a dead letter when plan returns.
func (r *Router) plan(ctx context.Context, delivery event.Delivery) (route, error) {
	ctx, span := r.opts.Tracer.Start(tracing.Within(ctx, delivery.Trace), "route", consumer)
	planned, err := r.planMessage(ctx, delivery)
	planned.span = span
	r.recordPanic(err, delivery)
	if err = lastPanic(err, delivery, r.opts.MaxAttempts); Classify(err) != DeadLetter {
		planned.setTrace(ctx, delivery.Trace)
		return planned, err
	}
	return route{span: span}, r.deadLetter(ctx, delivery, err)
}

// deadLetter writes an event to the dead-letter stream.
func (r *Router) deadLetter(ctx context.Context, delivery event.Delivery, cause error) error {
	logDelivery(r.opts.Logger.Error().Err(cause), delivery).Str("reason", reason(cause)).Msg("published event is a dead letter")
	return r.bus.DeadLetter(ctx, newDeadLetter(delivery, cause))
}

// recordPanic records the panic that an error wraps, with the event that was routed.
func (r *Router) recordPanic(err error, delivery event.Delivery) {
	r.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return logDelivery(line, delivery) })
}

func (r *Router) planMessage(ctx context.Context, delivery event.Delivery) (_ route, err error) {
	defer panics.Catch(&err)
	published, err := event.DecodePublished(delivery.Payload)
	if err != nil {
		return route{}, err
	}
	stored, err := r.stores.Messages.Get(ctx, published.Ref())
	if err != nil {
		return route{}, fmt.Errorf("message %s: %w", published.ID, err)
	}
	if stored.Void {
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
	planned := route{planned: stored.Ref(), lane: audience.lane, start: newHeadStart(stored.Message, audience.lane)}
	for p, scan := range fanout.Scans {
		if scan.Open() {
			planned.start.open = append(planned.start.open, p)
			planned.tasks = append(planned.tasks, event.Task{
				Version: event.Version, ID: stored.ID, From: stored.From,
				Lane: audience.lane, Partition: p, Recipients: audience.recipients[p],
			})
		}
	}
	return planned, nil
}

// setTrace adds the tasks to a trace: the trace of ctx or, if ctx has none, the trace of the event.
func (r *route) setTrace(ctx context.Context, ofEvent event.Trace) {
	taskTrace := ofEvent
	if own := tracing.Of(ctx); own.Parent != "" {
		taskTrace = own
	}
	for i := range r.tasks {
		r.tasks[i].Trace = taskTrace
	}
	r.start.trace = taskTrace
	if r.span.IsRecording() && len(r.tasks) > 0 {
		first := r.tasks[0]
		r.span.SetAttributes(
			tracing.MessageID.String(first.ID.String()), tracing.From.String(string(first.From)),
			tracing.Lane.String(string(first.Lane)), tracing.Tasks.Int(len(r.tasks)),
		)
	}
}

// endSpans ends the spans of routes.
func endSpans(routes []route, err error) {
	for _, r := range routes {
		if r.span.Span != nil {
			r.span.Done(err)
		}
	}
}

// routeOneByOne routes events one by one after routing them together failed. So one event that cannot be routed does not block the others.
// A repetition emits few tasks twice, which matters when the bus is nearly full. After routeTries, it hands failing events back to the bus,
// which hands out other events meanwhile. The only error is that of a ctx that has ended.
func (r *Router) routeOneByOne(ctx context.Context, received []bus.Received, cause error) error {
	r.metrics.retries.Inc()
	r.recordPanic(cause, received[0].Delivery())
	logDelivery(r.opts.Logger.Warn().Err(cause), received[0].Delivery()).Int("events", len(received)).
		Msg("published messages could not be routed together: routing them one by one")
	pauses := newPauses()
	for try := 1; ; try++ {
		received, cause = r.routeEach(ctx, received)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case len(received) == 0:
			return nil
		case try == routeTries:
			logDelivery(r.opts.Logger.Error().Err(cause), received[0].Delivery()).Int("events", len(received)).Stringer("again_in", deferFor).
				Msg("published messages cannot be routed now: routing other messages first")
			r.metrics.deferrals.Add(float64(len(received)))
			r.release(received, deferFor)
			return nil
		}
		startstop.Pause(ctx, pauses.NextBackOff())
	}
}

// routeEach routes events one by one. It returns the events that failed, and the error of the first of them. If the
// task stream is full, it waits for room: the other events need room too.
func (r *Router) routeEach(ctx context.Context, received []bus.Received) (failed []bus.Received, cause error) {
	for i, item := range received {
		err := repeat(ctx, r.opts.Logger, r.metrics.retries, Continue, "route", func() error { return r.Route(ctx, received[i:i+1]) })
		r.recordPanic(err, item.Delivery())
		if last := lastPanic(err, item.Delivery(), r.opts.MaxAttempts); Classify(last) == DeadLetter {
			err = r.giveUp(ctx, item, last)
		}
		if err == nil {
			continue
		}
		r.metrics.retries.Inc()
		if cause == nil {
			cause = err
		}
		failed = append(failed, item)
	}
	return failed, cause
}

// giveUp makes an event a dead letter that was planned, but on which the code panics afterwards.
func (r *Router) giveUp(ctx context.Context, item bus.Received, cause error) (err error) {
	defer panics.Catch(&err)
	if err := r.deadLetter(ctx, item.Delivery(), cause); err != nil {
		return err
	}
	return item.Ack()
}

// release hands events back to the bus, which hands them out again after the given time.
func (r *Router) release(received []bus.Received, after time.Duration) {
	for _, item := range received {
		if err := item.Release(after); err != nil {
			logDelivery(r.opts.Logger.Warn().Err(err), item.Delivery()).Msg("handing published events back failed: the bus hands them out again later")
			return
		}
	}
}
