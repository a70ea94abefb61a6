package fanout

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// deliverAll delivers messages directly, in passes of at most roundRecipients. Where that does not succeed, it gives the message the audience of a
// larger one: then the message is planned, and its failures are those of a task. It returns the errors of messages that cannot be ended either, by
// their index.
func (r *Router) deliverAll(ctx context.Context, mailings []*mailing) map[int]error {
	failures := make(map[int]error)
	for first, end := 0, 0; end < len(mailings); first = end {
		for sum := 0; end < len(mailings); end++ {
			if sum += len(mailings[end].audience.recipients); end > first && sum > roundRecipients {
				break
			}
		}
		unended, err := r.deliver(ctx, mailings[first:end])
		for i, l := range mailings[first:end] {
			cause := err
			if cause != nil && end-first > 1 && ctx.Err() == nil { // one of them may be to blame
				r.metrics.retries.Inc()
				var alone map[int]error
				if alone, cause = r.deliver(ctx, []*mailing{l}); alone[0] != nil {
					unended = map[int]error{i: alone[0]}
				}
			}
			switch cause = cmp.Or(cause, l.job.dead, l.job.missed); {
			case cause != nil:
				r.handOver(l, cause)
			case unended[i] != nil:
				failures[first+i] = unended[i]
			}
		}
	}
	return failures
}

// handOver leaves a message to the workers.
func (r *Router) handOver(l *mailing, cause error) {
	delivery := l.events[0].Delivery()
	logDelivery(r.opts.Logger.Warn().Err(cause), delivery).Msg("a message could not be delivered directly: it is planned as a larger one")
	r.panics.Record(cause, func(line *zerolog.Event) *zerolog.Event { return logDelivery(line, delivery) })
	r.metrics.handedOver.Inc()
	l.audience = audience{lane: event.Medium, partitions: r.partitionsOf(l.message)}
}

// deliver delivers messages to their recipients in one pass, and writes the endings of those of which it has handled every recipient. The entries
// become durable with the endings. It returns the errors of endings that could not be written, by the index of the message.
func (r *Router) deliver(ctx context.Context, mailings []*mailing) (unended map[int]error, err error) {
	defer panics.Catch(&err)
	ctx, span := r.opts.startSpan(ctx, "deliver", func() []event.Trace {
		traces := make([]event.Trace, len(mailings))
		for i, l := range mailings {
			traces[i] = l.trace
		}
		return traces
	})
	defer func() { span.Done(err) }()
	p := &pass{stores: r.stores, bus: r.bus, opts: r.opts, reach: r.reach, metrics: r.metrics.direct}
	sorted := slices.SortedFunc(slices.Values(mailings), func(x, y *mailing) int { return x.message.ID.Compare(y.message.ID) })
	streams, jobs := make([]*stream, len(mailings)), make([]*job, len(mailings))
	for i, l := range sorted {
		l.job = &job{order: i}
		l.job.set(l.message)
		jobs[i] = l.job
		streams[i] = &stream{jobs: []*job{l.job}, buffer: l.audience.recipients, ended: true}
	}
	if err := p.appendAll(ctx, streams); err != nil {
		return nil, err
	}
	if err := p.fileDamaged(ctx); err != nil {
		return nil, err
	}
	var endings []message.Ending
	var places []int
	for i, l := range mailings {
		if l.job.dead == nil && l.job.missed == nil {
			places = append(places, i)
			endings = append(endings, message.Ending{
				Ref: l.message.Ref(), Lane: string(event.Direct), Delivered: l.job.counts.Delivered, Skipped: l.job.counts.Skipped,
			})
		}
	}
	key := func(i int) string { return string(endings[i].Ref.ID[:]) }
	failed := r.reach.split(ctx, len(endings), key, func(ctx context.Context, first, end int) error {
		return r.stores.ender().End(ctx, endings[first:end])
	})
	unended = make(map[int]error, len(failed))
	var done tally.Counters
	for i := range endings {
		if err := failed[i]; err != nil {
			unended[places[i]] = err
			continue
		}
		p.report(endings[i : i+1])
		done = done.Plus(mailings[places[i]].job.passed)
		done.Finished.Direct++
	}
	r.opts.Tally.Add(done)
	describe(span, event.Direct, jobs)
	describeCounts(span, jobs)
	return unended, nil
}

// appendAll delivers the jobs of streams to all of their recipients.
func (p *pass) appendAll(ctx context.Context, streams []*stream) (err error) {
	merger := newMerger(streams, "")
	everyone := func(*job, recipient) bool { return true }
	for at := (position{}); !at.toEnd; {
		if at, err = p.appendNext(ctx, merger, everyone); err != nil {
			return err
		}
	}
	return nil
}

// plan plans the fan-out of a message and emits its tasks. If a plan is done already, whoever completed it has died before the end: plan ends the
// message instead.
func (r *Router) plan(ctx context.Context, l *mailing) error {
	var fanout progress.Fanout
	err := r.reach.one(ctx, string(l.message.ID[:]), func(ctx context.Context) (err error) {
		fanout, err = r.stores.Progress.Plan(ctx, l.message.ID, string(l.audience.lane), l.audience.partitions, r.opts.Now())
		return err
	})
	if err != nil {
		return fmt.Errorf("plan %s: %w", l.message.ID, err)
	}
	if fanout.Done() {
		endings, err := r.stores.ender().EndPlanned(ctx, []message.Ref{l.message.Ref()})
		for _, e := range endings {
			r.opts.logEnding(e)
		}
		return err
	}
	var tasks []event.Task
	for p, scan := range fanout.Scans {
		if scan.Open() {
			tasks = append(tasks, event.Task{
				Version: event.Version, ID: l.message.ID, From: l.message.From, Lane: l.audience.lane, Partition: p, Trace: l.trace,
			})
		}
	}
	if len(tasks) > 0 {
		if err := emitTasks(ctx, r.bus, tasks); err != nil {
			return fmt.Errorf("emit tasks: %w", err)
		}
	}
	if l.span.IsRecording() {
		l.span.SetAttributes(tracing.Tasks.Int(len(tasks)))
	}
	r.starter.add(headStart{message: l.message, lane: l.audience.lane, trace: l.trace})
	return nil
}
