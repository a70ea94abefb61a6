package fanout

import (
	"context"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// messagesPerRead bounds how many messages one call reads from the store.
const messagesPerRead = 256

// batch processes tasks of one lane and partition.
type batch struct {
	deliverer *Deliverer
	partition int
	lane      *lane // nil while the batch has no task

	jobs      []*job          // ascending by message id, each message once
	room      int             // how many bytes further jobs may take
	postponed map[uint64]bool // sequences of tasks that stay in the queue

	damaged       map[message.UserID]damage // the owners whom the batch misses because of damage
	moved         []*job
	steps         []progress.Move   // one for each job of moved
	continuations []event.Task      // to be emitted
	unplanned     []event.Published // to be emitted: messages without a plan
	ended         []message.Ref     // messages whose scan is done in this partition
	endedHere     []message.ID      // the messages of ended whose scan this batch has completed
}

// job is a task in a batch.
type job struct {
	delivery event.Delivery
	task     event.Task
	message  message.Message
	entry    bucket.Entry
	order    int // its index in batch.jobs

	recorded progress.Scan // the stored record, as read when the batch began
	scan     progress.Scan // recorded, joined to the position of the batch

	counts progress.Counts // the deliveries that this batch adds to the record
	dead   error           // the reason if the task has to become a dead letter
}

// runBatch opens, appends, records, emits and finishes one batch. It returns the sequences of the tasks that stay in
// the queue. Tasks that cannot succeed are dead letters when it returns. runBatch may be repeated at any time. If its
// error classifies as DeadLetter or HandBack, the error concerns the batch as a whole.
func (d *Deliverer) runBatch(ctx context.Context, deliveries []event.Delivery) (postponed map[uint64]bool, err error) {
	defer panics.Catch(&err)
	b := &batch{deliverer: d, postponed: make(map[uint64]bool)}
	began := d.opts.Now()
	if err := b.open(ctx, deliveries); err != nil {
		return nil, err
	}
	b.describe(trace.SpanFromContext(ctx))
	express, scanning := b.divide()
	if err := b.express(ctx, express); err != nil {
		return nil, err
	}
	if err := b.advance(ctx, scanning); err != nil {
		return nil, err
	}
	b.describeCounts(trace.SpanFromContext(ctx))
	if err := b.record(ctx); err != nil {
		return nil, err
	}
	if err := b.emit(ctx); err != nil {
		return nil, err
	}
	if err := b.finish(ctx); err != nil {
		return nil, err
	}
	b.measure(began)
	return b.postponed, nil
}

// open decodes the tasks and reads their records and messages. Tasks with nothing to deliver drop out of the batch.
func (b *batch) open(ctx context.Context, deliveries []event.Delivery) error {
	for _, delivery := range deliveries {
		task, err := event.DecodeTask(delivery.Payload)
		if err == nil && task.Partition >= b.deliverer.opts.Partitions {
			err = fmt.Errorf("%w: partition is %d of %d", event.ErrMalformed, task.Partition, b.deliverer.opts.Partitions)
		}
		if err != nil {
			if err := b.deliverer.deadLetter(ctx, delivery, err); err != nil {
				return err
			}
			continue
		}
		b.partition, b.lane, task.Trace = task.Partition, b.deliverer.metrics.lanes[task.Lane], delivery.Trace
		b.jobs = append(b.jobs, &job{delivery: delivery, task: task})
	}
	slices.SortStableFunc(b.jobs, func(x, y *job) int { return x.task.ID.Compare(y.task.ID) })
	b.jobs = slices.CompactFunc(b.jobs, func(x, y *job) bool { return x.task.ID == y.task.ID })
	if err := b.readScans(ctx); err != nil {
		return err
	}
	return b.readMessages(ctx)
}

// readScans reads the records of the tasks. Tasks without a record, and tasks whose scan is done or dead, drop out. Their messages are planned
// again, unless they are over.
func (b *batch) readScans(ctx context.Context) error {
	ids := make([]message.ID, len(b.jobs))
	for i, j := range b.jobs {
		ids[i] = j.task.ID
	}
	scans, planned, err := b.deliverer.stores.Progress.Scans(ctx, b.partition, ids)
	if err != nil {
		return fmt.Errorf("read scans: %w", err)
	}
	open := b.jobs[:0]
	for i, j := range b.jobs {
		switch j.recorded = scans[i]; {
		case !planned[i]:
			unplanned := event.NewPublished(j.task.Ref())
			unplanned.Trace = j.task.Trace
			b.unplanned = append(b.unplanned, unplanned)
		case j.recorded.Done:
			b.ended = append(b.ended, j.task.Ref())
		case !j.recorded.Dead:
			open = append(open, j)
		}
	}
	b.jobs = open
	return b.dropOver(ctx)
}

// readMessages reads the messages of the tasks until one does not fit into Options.BatchBytes. That task and the
// remaining ones are postponed.
func (b *batch) readMessages(ctx context.Context) error {
	waiting := b.jobs
	b.jobs, b.room = nil, b.deliverer.opts.BatchBytes
	for fits := true; fits && len(waiting) > 0; {
		// The sizes are known only after the read. So a call reads no more messages than fit if all are of the greatest size.
		page := waiting[:min(len(waiting), messagesPerRead, max(1, b.room/message.MaxMemory))]
		found, err := b.deliverer.readMessages(ctx, page)
		if err != nil {
			return err
		}
		handled, err := b.admit(ctx, page, found)
		if err != nil {
			return err
		}
		waiting, fits = waiting[handled:], handled == len(page)
	}
	for _, j := range waiting {
		b.postponed[j.delivery.Sequence] = true
	}
	return nil
}

// admit adds jobs to the batch until one does not fit, and returns how many of them it has handled. The first job of the
// batch always fits. A task whose message is missing or corrupt becomes a dead letter.
func (b *batch) admit(ctx context.Context, jobs []*job, found []message.Found) (handled int, err error) {
	for i, j := range jobs {
		stored, err := found[i].Stored, found[i].Err
		switch {
		case Classify(err) == DeadLetter:
			if err := b.deliverer.deadLetter(ctx, j.delivery, err); err != nil {
				return i, err
			}
			continue
		case err != nil:
			return i, err
		}
		j.message, j.entry, j.order = stored.Message, bucket.EntryOf(stored.Message), len(b.jobs)
		if b.room -= j.memory(); b.room < 0 && len(b.jobs) > 0 {
			return i, nil
		}
		b.jobs = append(b.jobs, j)
	}
	return len(jobs), nil
}

// memory returns about how many bytes of memory the job takes during the batch.
func (j *job) memory() int {
	return j.message.Memory() + len(j.delivery.Payload) + message.UsersMemory(j.task.Recipients)
}

// readMessages returns the messages of jobs, in their order, by one call of the store.
func (d *Deliverer) readMessages(ctx context.Context, jobs []*job) ([]message.Found, error) {
	refs := make([]message.Ref, len(jobs))
	for i, j := range jobs {
		refs[i] = j.task.Ref()
	}
	found, err := d.stores.Messages.GetMany(ctx, refs)
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	return found, nil
}

// divide separates the express jobs, whose tasks name their recipients, from the jobs that scan.
func (b *batch) divide() (express, scanning []*job) {
	for _, j := range b.jobs {
		if j.task.Lane == event.Express {
			express = append(express, j)
		} else {
			scanning = append(scanning, j)
		}
	}
	return express, scanning
}

// express delivers jobs to all recipients that their tasks name.
func (b *batch) express(ctx context.Context, jobs []*job) error {
	streams := make([]*stream, len(jobs))
	for i, j := range jobs {
		streams[i] = b.listStream(j, j.task.Recipients, "")
	}
	merger := newMerger(streams, "")
	all := func(*job, recipient) bool { return true }
	for at := (position{}); !at.toEnd; {
		var err error
		if at, err = b.appendNext(ctx, merger, all); err != nil {
			return err
		}
	}
	for _, j := range jobs {
		b.move(j, j.recorded.Finish(j.counts))
	}
	return nil
}

// move notes the next record of a job.
func (b *batch) move(j *job, to progress.Scan) {
	b.moved = append(b.moved, j)
	b.steps = append(b.steps, progress.Move{ID: j.task.ID, Partition: b.partition, From: j.recorded, To: to})
}

// record stores the new records. If another worker has stored a record first, that record holds, and the task
// continues from there. Jobs that failed alone become dead letters instead.
func (b *batch) record(ctx context.Context) error {
	if err := b.fileDamaged(ctx); err != nil {
		return err
	}
	steps, moved := b.steps[:0], b.moved[:0]
	for i, j := range b.moved {
		if j.dead == nil {
			steps, moved = append(steps, b.steps[i]), append(moved, j)
			continue
		}
		if err := b.deliverer.deadLetter(ctx, j.delivery, j.dead); err != nil {
			return err
		}
	}
	if len(steps) == 0 {
		return nil
	}
	stepped, err := b.deliverer.stores.Progress.Step(ctx, steps, b.deliverer.opts.Now())
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	for i, j := range moved {
		switch scan := stepped[i].Scan; {
		case scan.Done:
			b.ended = append(b.ended, j.task.Ref())
			if stepped[i].Applied {
				b.endedHere = append(b.endedHere, j.task.ID)
			}
		case !scan.Dead:
			b.continuations = append(b.continuations, continuation(j.task))
		}
	}
	return nil
}

// continuation returns the task that continues the scan of a task. An express task has a continuation only if its
// message was planned for another lane before: then another task is scanning, and the continuation scans too.
func continuation(task event.Task) event.Task { return task.Scanning() }

// emit emits the continuations, and the messages that have to be planned again.
func (b *batch) emit(ctx context.Context) error {
	if len(b.continuations) > 0 {
		if err := emitTasks(ctx, b.deliverer.bus, b.continuations); err != nil {
			return fmt.Errorf("emit continuations: %w", err)
		}
	}
	if len(b.unplanned) > 0 {
		if err := b.deliverer.bus.EmitPublished(ctx, b.unplanned, true); err != nil {
			return fmt.Errorf("emit messages without a plan: %w", err)
		}
	}
	return nil
}

// finish marks the messages as finished that are done in all partitions.
func (b *batch) finish(ctx context.Context) error {
	if len(b.ended) == 0 {
		return nil
	}
	ids := make([]message.ID, len(b.ended))
	for i, ref := range b.ended {
		ids[i] = ref.ID
	}
	fanouts, planned, err := b.deliverer.stores.Progress.GetMany(ctx, ids)
	if err != nil {
		return fmt.Errorf("read the progress of %d messages: %w", len(ids), err)
	}
	var done []message.Ref
	for i, ref := range b.ended {
		if !planned[i] || !fanouts[i].Done() {
			continue
		}
		done = append(done, ref)
		b.measureMessage(ref.ID)
		counts := fanouts[i].Counts()
		b.deliverer.opts.Logger.Debug().Stringer("message_id", ref.ID).Str("from", string(ref.From)).
			Int64("delivered", counts.Delivered).Int64("skipped", counts.Skipped).Msg("message is done")
	}
	if len(done) == 0 {
		return nil
	}
	return b.deliverer.stores.Messages.Finish(ctx, done)
}

// describe adds to the span of the batch which messages it delivers.
func (b *batch) describe(span trace.Span) {
	if !span.IsRecording() || len(b.jobs) == 0 {
		return
	}
	ids := make([]string, min(len(b.jobs), tracing.ListMax))
	for i := range ids {
		ids[i] = b.jobs[i].task.ID.String()
	}
	span.SetAttributes(
		tracing.Lane.String(string(b.jobs[0].task.Lane)), tracing.Partition.Int(b.partition),
		tracing.Messages.Int(len(b.jobs)), tracing.MessageIDs.StringSlice(ids),
	)
}

// describeCounts adds to the span of the batch how many deliveries it made and skipped.
func (b *batch) describeCounts(span trace.Span) {
	if !span.IsRecording() {
		return
	}
	var counts progress.Counts
	for _, j := range b.moved {
		counts.Delivered += j.counts.Delivered
		counts.Skipped += j.counts.Skipped
	}
	span.SetAttributes(tracing.Delivered.Int64(counts.Delivered), tracing.Skipped.Int64(counts.Skipped))
}
