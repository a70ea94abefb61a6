package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// rounds is how many rounds of a router are under way. One of them takes only messages that name all of their recipients.
	rounds = 4
	// routeConcurrency is how many messages of a round are planned at the same time. Planning mostly waits for the store.
	routeConcurrency = 64
	// deferFor is how long the bus keeps an event whose first attempt has failed. It doubles with each further one, up to deferMost, which bounds the
	// delay after an outage.
	deferFor  = time.Second
	deferMost = 4 * time.Second
)

// consumer marks the spans of work that came over the bus.
var consumer = trace.WithSpanKind(trace.SpanKindConsumer)

// Router delivers published messages with a small audience, and turns the others into tasks. It is safe for concurrent use.
type Router struct {
	stores Stores
	bus    bus.Emitter
	opts   Options
	// shares remembers how many edges lead to large sources. If a source has outgrown its share, only speed suffers.
	shares  *lru.Cache[message.Source, measuredShare]
	starter *headStarter
	reach   *reach
	metrics routerMetrics
	panics  *panics.Recorder
}

// NewRouter returns a Router.
func NewRouter(stores Stores, bus bus.Emitter, opts Options) *Router {
	shares, err := lru.New[message.Source, measuredShare](opts.ClassCache)
	if err != nil {
		panic(fmt.Sprintf("fanout: ClassCache is %d: %v", opts.ClassCache, err))
	}
	opts.slow = slowLogger(opts.Logger)
	if stores.Ended == nil {
		stores.Ended = stores.Messages
	}
	recorder := panics.NewRecorder(opts.Logger, opts.Metrics, "route")
	reach := newReach(opts, "route", recorder)
	return &Router{
		stores: stores, bus: bus, opts: opts, shares: shares, reach: reach, starter: newHeadStarter(stores, bus, opts, reach, recorder),
		metrics: newRouterMetrics(opts.Metrics), panics: recorder,
	}
}

// Run routes the events that fetch returns, until intake ends. It finishes fetched events under processing; when
// processing ends, it hands the rest back to the bus. Run passes at most Options.RouteEvents to fetch as the limit.
func (r *Router) Run(intake, processing context.Context, fetch func(ctx context.Context, limit int) ([]bus.Received, error)) {
	waiting := newMailQueue(r.opts.BatchBytes)
	var working sync.WaitGroup
	keep := func(what string, loop startstop.Loop) {
		working.Go(func() { startstop.Keep(intake, processing, r.panics, what, loop) })
	}
	keep("head starts", r.starter.run)
	keep("extending events", func(intake, _ context.Context) { r.extend(intake, waiting) })
	for n := range rounds {
		keep("rounds", func(_, processing context.Context) {
			for round := waiting.next(n == 0); round != nil; round = waiting.next(n == 0) {
				r.work(processing, waiting, round)
			}
		})
	}
	startstop.Keep(intake, processing, r.panics, "events", func(intake, processing context.Context) {
		r.take(intake, processing, waiting, fetch)
	})
	waiting.close()
	working.Wait()
}

// take fetches events and queues their messages, until intake ends.
func (r *Router) take(intake, processing context.Context, waiting *mailQueue, fetch func(ctx context.Context, limit int) ([]bus.Received, error)) {
	for room := waiting.room(intake); room > 0; room = waiting.room(intake) {
		received, err := fetch(intake, min(room, r.opts.RouteEvents))
		switch {
		case err == nil:
			for len(received) > 0 && waiting.room(intake) > 0 {
				n := r.fitting(received)
				mailings, failed := r.open(processing, received[:n])
				waiting.add(mailings)
				r.handBack(processing, failed)
				received = received[n:]
			}
			for _, item := range received { // another router opens them
				r.releaseAfter(item, 0)
			}
		case intake.Err() == nil:
			r.opts.Logger.Error().Err(err).Msg("taking published messages failed: trying again")
			startstop.Pause(intake, time.Second)
		}
	}
}

// fitting returns of how many events the messages may be read together, because they take at most Options.BatchBytes; it is at least one.
func (r *Router) fitting(received []bus.Received) int {
	sum := 0
	for n, item := range received {
		memory := message.MaxMemory
		if published, err := event.DecodePublished(item.Delivery().Payload); err == nil && published.Memory > 0 {
			memory = published.Memory
		}
		if sum += memory; n > 0 && sum > r.opts.BatchBytes {
			return n
		}
	}
	return len(received)
}

// work does one round.
func (r *Router) work(processing context.Context, waiting *mailQueue, round []*mailing) {
	defer waiting.done(round) // also if the code panics: the bus then hands the events out again
	r.handBack(processing, r.round(processing, round))
}

// extend extends the held events every Options.ExtendEvery, until intake ends. It leaves events that have been held for Options.StuckAfter: their
// round may be stuck, and another router gets them.
func (r *Router) extend(intake context.Context, waiting *mailQueue) {
	ticker := time.NewTicker(r.opts.ExtendEvery)
	defer ticker.Stop()
	for {
		select {
		case <-intake.Done():
			return
		case <-ticker.C:
		}
		for _, e := range waiting.all(r.opts.Now().Add(-r.opts.StuckAfter)) {
			if err := e.Extend(); err != nil {
				logDelivery(r.opts.Logger.Warn().Err(err), e.Delivery()).Msg("extending an event failed: the bus may hand it out again")
			}
		}
	}
}

// Route routes events: it delivers their messages, or plans them and emits their tasks, and acknowledges the events. It is idempotent: the first
// ending and the first plan of a message stay. It returns the errors of events that it has not acknowledged. An event that cannot succeed is a dead
// letter then.
func (r *Router) Route(ctx context.Context, received []bus.Received) error {
	mailings, failed := r.open(ctx, received)
	var all []error
	for _, f := range append(failed, r.round(ctx, mailings)...) {
		all = append(all, f.err)
	}
	return errors.Join(all...)
}

// DeliverHeadStarts delivers the head starts of the messages that were routed before, and returns how many there were. Run does the same in the
// background.
func (r *Router) DeliverHeadStarts(ctx context.Context) (n int) {
	for r.starter.next(ctx) {
		n++
	}
	return n
}

// failure is an event that was not acknowledged.
type failure struct {
	event bus.Received
	err   error
}

// open reads the messages of events. It acknowledges the events of messages that are over.
func (r *Router) open(ctx context.Context, received []bus.Received) (mailings []*mailing, failed []failure) {
	var refs []message.Ref
	for _, item := range received {
		published, err := event.DecodePublished(item.Delivery().Payload)
		if err != nil {
			failed = r.fail(ctx, failed, []bus.Received{item}, err)
			continue
		}
		l := &mailing{events: []bus.Received{item}, taken: r.opts.Now()}
		l.message.ID, l.message.From = published.ID, published.From
		if at := slices.Index(refs, published.Ref()); at >= 0 {
			mailings[at].events = append(mailings[at].events, item)
			continue
		}
		refs, mailings = append(refs, published.Ref()), append(mailings, l)
	}
	found, endings := make([]message.Found, len(refs)), make([]message.Ending, len(refs))
	key := func(i int) string { return string(refs[i].ID[:]) }
	failures := r.reach.split(ctx, len(refs), key, func(ctx context.Context, first, end int) error {
		someFound, someEndings, err := r.read(ctx, refs[first:end])
		copy(found[first:], someFound)
		copy(endings[first:], someEndings)
		return err
	})
	open := mailings[:0]
	for i, l := range mailings {
		cause := failures[i]
		if cause == nil {
			cause = errors.Join(found[i].Err, endings[i].Err)
		}
		switch {
		case cause != nil:
			failed = r.fail(ctx, failed, l.events, cause)
		case endings[i].Over():
			r.acknowledge(l)
		default:
			l.message, l.void = found[i].Stored.Message, found[i].Stored.Void
			open = append(open, l)
		}
	}
	return open, failed
}

// read reads messages and how they have ended. It looks at the ending once, and before everything else: a message that ends meanwhile is
// delivered once more, which changes nothing.
func (r *Router) read(ctx context.Context, refs []message.Ref) (found []message.Found, endings []message.Ending, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		defer panics.Catch(&err)
		found, err = r.stores.Messages.GetMany(ctx, refs)
		return err
	})
	group.Go(func() (err error) {
		defer panics.Catch(&err)
		endings, err = r.stores.Ended.Endings(ctx, refs)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, nil, fmt.Errorf("read %d messages: %w", len(refs), err)
	}
	return found, endings, nil
}

// round delivers the direct messages of a round, plans the others, and acknowledges both.
func (r *Router) round(ctx context.Context, mailings []*mailing) (failed []failure) {
	failures := make([]error, len(mailings))
	for _, l := range mailings {
		r.startSpan(ctx, l)
	}
	r.each(ctx, mailings, failures, func(ctx context.Context, l *mailing) (err error) {
		if l.void {
			r.metrics.void.Inc()
			l.audience = audience{lane: event.Direct}
			return nil
		}
		l.audience, err = r.audience(ctx, l.message)
		if attempts := l.events[0].Delivery().Attempts; err == nil && l.audience.lane == event.Direct && attempts > r.opts.MaxAttempts {
			r.handOver(l, fmt.Errorf("%w (%d times)", errAttempts, attempts)) // whoever delivers it may crash: a task has dead letters
		}
		return err
	})
	var direct []*mailing
	var places []int
	for i, l := range mailings {
		if failures[i] == nil && l.audience.lane == event.Direct {
			direct, places = append(direct, l), append(places, i)
		}
	}
	for i, err := range r.deliverAll(ctx, direct) {
		failures[places[i]] = err
	}
	r.each(ctx, mailings, failures, func(ctx context.Context, l *mailing) error {
		if l.audience.lane == event.Direct {
			return nil
		}
		return r.plan(ctx, l)
	})
	for i, l := range mailings {
		l.endSpan(failures[i])
		if failures[i] != nil {
			failed = r.fail(ctx, failed, l.events, failures[i])
			continue
		}
		r.metrics.routed[l.audience.lane].Inc()
		r.acknowledge(l)
	}
	return failed
}

func (r *Router) startSpan(ctx context.Context, l *mailing) {
	l.trace = l.events[0].Delivery().Trace
	ctx, l.span = r.opts.Tracer.Start(tracing.Within(ctx, l.trace), "route", consumer)
	if own := tracing.Of(ctx); own.Parent != "" {
		l.trace = own
	}
}

func (l *mailing) endSpan(err error) {
	if l.span.IsRecording() {
		l.span.SetAttributes(
			tracing.MessageID.String(l.message.ID.String()), tracing.From.String(string(l.message.From)), tracing.Lane.String(string(l.audience.lane)),
		)
	}
	l.span.Done(err)
}

// each calls do for the messages that have not failed, some at the same time, and notes their failures.
func (r *Router) each(ctx context.Context, mailings []*mailing, failures []error, do func(context.Context, *mailing) error) {
	var group errgroup.Group
	group.SetLimit(routeConcurrency)
	for i, l := range mailings {
		if failures[i] != nil {
			continue
		}
		group.Go(func() error {
			failures[i] = panics.Do(func() error { return do(trace.ContextWithSpan(ctx, l.span.Span), l) })
			return nil
		})
	}
	_ = group.Wait()
}

// acknowledge removes the events of a message from the bus. If an acknowledgement is lost, the bus hands the event out again, which is harmless.
func (r *Router) acknowledge(l *mailing) {
	for _, e := range l.events {
		if err := panics.Do(e.Ack); err != nil {
			logDelivery(r.opts.Logger.Warn().Err(err), e.Delivery()).Msg("acknowledging a published event failed: the bus will hand it out again")
		}
	}
}

// fail makes events dead letters if they cannot succeed. It adds the others to those that have failed.
func (r *Router) fail(ctx context.Context, failed []failure, events []bus.Received, cause error) []failure {
	for _, e := range events {
		delivery := e.Delivery()
		r.panics.Record(cause, func(line *zerolog.Event) *zerolog.Event { return logDelivery(line, delivery) })
		last := lastPanic(cause, delivery, r.opts.MaxAttempts)
		if Classify(last) != DeadLetter {
			failed = append(failed, failure{e, cause})
			continue
		}
		logDelivery(r.opts.Logger.Error().Err(last), delivery).Str("reason", reason(last)).Msg("published event is a dead letter")
		err := panics.Do(func() error { return r.bus.DeadLetter(ctx, newDeadLetter(delivery, last)) })
		if err == nil {
			err = e.Ack()
		}
		if err != nil {
			failed = append(failed, failure{e, errors.Join(cause, err)})
		}
	}
	return failed
}

// handBack hands events back to the bus, for the longer the more often they have failed. So they make way for others.
func (r *Router) handBack(ctx context.Context, failed []failure) {
	for _, f := range failed {
		delivery, again := f.event.Delivery(), time.Duration(0)
		if ctx.Err() == nil { // otherwise another process takes over
			if again = deferFor; Classify(f.err) != Continue { // a full task stream has room again when a batch ends
				again = min(deferFor<<min(delivery.Attempts-1, 10), deferMost)
			}
			r.metrics.deferrals.Inc()
			logDelivery(r.opts.Logger.Error().Err(f.err), delivery).Stringer("again_in", again).
				Msg("a published message cannot be routed now: routing other messages first")
		}
		r.releaseAfter(f.event, again)
	}
}

func (r *Router) releaseAfter(item bus.Received, after time.Duration) {
	if err := item.Release(after); err != nil {
		logDelivery(r.opts.Logger.Warn().Err(err), item.Delivery()).Msg("handing a published event back failed: the bus hands it out again later")
	}
}
