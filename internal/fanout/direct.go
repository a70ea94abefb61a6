package fanout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// retriesAtOnce is how many messages of a round that has failed are tried alone at the same time.
	retriesAtOnce = 64
	// retryWithin is how long such a try may take. A store may answer for all recipients but those of one shard.
	retryWithin = time.Second
)

// deliverAll delivers messages directly, in passes of at most roundRecipients. Where that does not succeed at the second try, it gives the message
// the audience of a larger one: then the message is planned, and its failures are those of a task.
func (r *Router) deliverAll(ctx context.Context, mailings []*mailing) {
	for len(mailings) > 0 {
		n, sum := 0, 0
		for _, l := range mailings {
			if sum += len(l.audience.recipients); n > 0 && sum > roundRecipients {
				break
			}
			n++
		}
		together := mailings[:n]
		mailings = mailings[n:]
		failed := r.deliver(ctx, together)
		var again errgroup.Group
		again.SetLimit(retriesAtOnce)
		for _, l := range together {
			again.Go(func() error {
				cause := failed
				if cause != nil && ctx.Err() == nil {
					r.metrics.retries.Inc()
					alone, cancel := context.WithTimeout(ctx, retryWithin)
					defer cancel()
					cause = r.deliver(alone, []*mailing{l})
				}
				if cause == nil {
					cause = l.job.dead
				}
				if cause != nil {
					r.handOver(l, cause)
				}
				return nil
			})
		}
		_ = again.Wait()
	}
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
// become durable with the endings.
func (r *Router) deliver(ctx context.Context, mailings []*mailing) (err error) {
	defer panics.Catch(&err)
	ctx, span := r.opts.startSpan(ctx, "deliver", func() []event.Trace {
		traces := make([]event.Trace, len(mailings))
		for i, l := range mailings {
			traces[i] = l.trace
		}
		return traces
	})
	defer func() { span.Done(err) }()
	p := &pass{stores: r.stores, bus: r.bus, opts: r.opts, metrics: r.metrics.direct}
	slices.SortFunc(mailings, func(x, y *mailing) int { return x.message.ID.Compare(y.message.ID) })
	streams, jobs := make([]*stream, len(mailings)), make([]*job, len(mailings))
	for i, l := range mailings {
		l.job = &job{message: l.message, entry: bucket.EntryOf(l.message), order: i}
		jobs[i] = l.job
		streams[i] = &stream{jobs: []*job{l.job}, buffer: l.audience.recipients, ended: true}
	}
	if err := p.appendAll(ctx, streams); err != nil {
		return err
	}
	if err := p.fileDamaged(ctx); err != nil {
		return err
	}
	var endings []message.Ending
	for _, l := range mailings {
		if l.job.dead == nil {
			endings = append(endings, message.Ending{
				Ref: l.message.Ref(), Delivered: l.job.counts.Delivered, Skipped: l.job.counts.Skipped,
			})
		}
	}
	if err := r.stores.ender().End(ctx, endings); err != nil {
		return err
	}
	describe(span, event.Direct, jobs)
	describeCounts(span, jobs)
	p.report(endings)
	return nil
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
	fanout, err := r.stores.Progress.Plan(ctx, l.message.ID, l.audience.partitions, r.opts.Now())
	if err != nil {
		return fmt.Errorf("plan %s: %w", l.message.ID, err)
	}
	if fanout.Done() {
		_, err := r.stores.ender().EndPlanned(ctx, []message.Ref{l.message.Ref()})
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
