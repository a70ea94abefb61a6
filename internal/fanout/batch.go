package fanout

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// messagesPerRead bounds how many messages one call reads from the store.
const messagesPerRead = 256

// batch processes tasks of one lane and partition.
type batch struct {
	pass
	deliverer *Deliverer
	partition int
	lane      *lane // nil while the batch has no task

	jobs      []*job          // ascending by message id, each message once
	room      int             // how many bytes further jobs may take
	postponed map[uint64]bool // sequences of tasks that stay in the queue

	moved         []*job
	steps         []progress.Move // one for each job of moved
	continuations []event.Task    // to be emitted
	ended         []*job          // those whose scan is done in this partition

	waits    bool // a task waits for a part of the store that cannot be reached
	progress bool // another one does not
}

// runBatch opens, appends, records, emits and finishes one batch. It returns the sequences of the tasks that stay in
// the queue, and whether all that it did is to let tasks wait. Tasks that cannot succeed are dead letters when it returns. runBatch may be repeated at
// any time. If its error classifies as DeadLetter or HandBack, the error concerns the batch as a whole.
func (d *Deliverer) runBatch(ctx context.Context, deliveries []event.Delivery) (postponed map[uint64]bool, waits bool, err error) {
	defer panics.Catch(&err)
	b := &batch{pass: pass{stores: d.stores, bus: d.bus, opts: d.opts, reach: d.reach}, deliverer: d, postponed: make(map[uint64]bool)}
	began := d.opts.Now()
	if err := b.open(ctx, deliveries); err != nil {
		return nil, false, err
	}
	b.describe(trace.SpanFromContext(ctx))
	if err := b.advance(ctx); err != nil {
		return nil, false, err
	}
	describeCounts(trace.SpanFromContext(ctx), b.moved)
	if err := b.record(ctx); err != nil {
		return nil, false, err
	}
	if err := b.finish(ctx); err != nil {
		return nil, false, err
	}
	if err := b.emit(ctx); err != nil {
		return nil, false, err
	}
	b.measure(began)
	return b.postponed, b.waits && !b.progress, nil
}

// open decodes the tasks and reads their records and messages. Tasks with nothing to deliver drop out of the batch.
func (b *batch) open(ctx context.Context, deliveries []event.Delivery) error {
	for _, delivery := range deliveries {
		task, err := event.DecodeTask(delivery.Payload)
		if err == nil && task.Partition >= b.opts.Partitions {
			err = fmt.Errorf("%w: partition is %d of %d", event.ErrMalformed, task.Partition, b.opts.Partitions)
		}
		if err != nil {
			if err := b.deliverer.deadLetter(ctx, delivery, err); err != nil {
				return err
			}
			continue
		}
		b.partition, b.lane, task.Trace = task.Partition, b.deliverer.metrics.lanes[task.Lane], delivery.Trace
		b.metrics = &b.lane.passMetrics
		b.jobs = append(b.jobs, &job{delivery: delivery, task: task})
	}
	slices.SortStableFunc(b.jobs, func(x, y *job) int { return x.task.ID.Compare(y.task.ID) })
	b.jobs = slices.CompactFunc(b.jobs, func(x, y *job) bool { return x.task.ID == y.task.ID })
	if err := b.readScans(ctx); err != nil {
		return err
	}
	return b.readMessages(ctx)
}

// readScans reads the records of the tasks. Tasks without a record drop out, because the plans of their messages have ended. So do tasks whose scan
// is done or dead.
func (b *batch) readScans(ctx context.Context) error {
	planned := make([]bool, len(b.jobs))
	open := b.jobs[:0]
	jobs := b.jobs
	err := b.each(ctx, jobs, func(ctx context.Context, first, end int) error {
		ids := make([]message.ID, end-first)
		for i, j := range jobs[first:end] {
			ids[i] = j.task.ID
		}
		scans, found, err := b.stores.Progress.Scans(ctx, b.partition, ids)
		if err != nil {
			return fmt.Errorf("read scans: %w", err)
		}
		copy(planned[first:], found)
		for i, j := range jobs[first:end] {
			j.recorded = scans[i]
		}
		return nil
	}, func(i int, j *job) {
		switch {
		case !planned[i]:
		case j.recorded.Done:
			b.ended = append(b.ended, j)
		case !j.recorded.Dead:
			open = append(open, j)
		}
	})
	b.jobs = open
	return err
}

// each makes a call for jobs, together or one by one, and uses each for which the call succeeded. The others come back later.
func (b *batch) each(ctx context.Context, jobs []*job, call func(ctx context.Context, first, end int) error, use func(int, *job)) error {
	missed := b.reach.split(ctx, len(jobs), func(i int) string { return string(jobs[i].task.ID[:]) }, call)
	for i, j := range jobs {
		switch err := missed[i]; {
		case err == nil:
			use(i, j)
		case passing(ctx, err):
			j.unread = err
			b.comeBack(j)
		default:
			return err
		}
	}
	return nil
}

func refsOf(jobs []*job) []message.Ref {
	refs := make([]message.Ref, len(jobs))
	for i, j := range jobs {
		refs[i] = j.task.Ref()
	}
	return refs
}

// comeBack puts the task of a job at the end of its queue, because a part of the store cannot be reached. That is no attempt.
func (b *batch) comeBack(j *job) {
	b.waits = true
	b.continuations = append(b.continuations, j.task)
}

// readMessages reads the messages of the tasks until one does not fit into Options.BatchBytes. That task and the
// remaining ones are postponed.
func (b *batch) readMessages(ctx context.Context) error {
	waiting := b.jobs
	b.jobs, b.room = nil, b.opts.BatchBytes
	for fits := true; fits && len(waiting) > 0; {
		// The sizes are known only after the read. So a call reads no more messages than fit if all are of the greatest size.
		page := waiting[:min(len(waiting), messagesPerRead, max(1, b.room/message.MaxMemory))]
		read, found, err := b.read(ctx, page)
		if err != nil {
			return err
		}
		handled, err := b.admit(ctx, read, found)
		if err != nil {
			return err
		}
		if fits = handled == len(read); !fits {
			page = page[:slices.Index(page, read[handled])]
		}
		waiting = waiting[len(page):]
	}
	for _, j := range waiting {
		if j.unread == nil {
			b.postponed[j.delivery.Sequence] = true
		}
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
		j.set(stored.Message)
		j.order = len(b.jobs)
		if b.room -= j.memory(); b.room < 0 && len(b.jobs) > 0 {
			return i, nil
		}
		b.jobs = append(b.jobs, j)
	}
	return len(jobs), nil
}

// memory returns about how many bytes of memory the job takes during the batch.
func (j *job) memory() int {
	return j.message.Memory() + len(j.delivery.Payload)
}

// read returns those of jobs whose messages can be read, and their messages.
func (b *batch) read(ctx context.Context, jobs []*job) (read []*job, found []message.Found, err error) {
	all := make([]message.Found, len(jobs))
	err = b.each(ctx, jobs, func(ctx context.Context, first, end int) error {
		some, err := b.stores.Messages.GetMany(ctx, refsOf(jobs[first:end]))
		if err != nil {
			return fmt.Errorf("read messages: %w", err)
		}
		copy(all[first:], some)
		return nil
	}, func(i int, j *job) { read, found = append(read, j), append(found, all[i]) })
	return read, found, err
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
	stepped := make([]progress.Moved, len(steps))
	var recorded tally.Counters
	defer func() { b.opts.Tally.Add(recorded) }()
	return b.each(ctx, moved, func(ctx context.Context, first, end int) error {
		some, err := b.stores.Progress.Step(ctx, steps[first:end], b.opts.Now())
		if err != nil {
			return fmt.Errorf("record: %w", err)
		}
		copy(stepped[first:], some)
		return nil
	}, func(i int, j *job) {
		if stepped[i].Applied && j.missed == nil {
			recorded = recorded.Plus(j.passed)
		}
		if stepped[i].Applied && stepped[i].Scan.Done {
			*recorded.Finished.In(j.task.Lane)++
		}
		switch scan := stepped[i].Scan; {
		case scan.Done:
			b.ended = append(b.ended, j)
		case !scan.Dead:
			b.waits = b.waits || j.missed != nil
			b.continuations = append(b.continuations, j.task)
		}
	})
}

// emit emits the continuations.
func (b *batch) emit(ctx context.Context) error {
	if len(b.continuations) == 0 {
		return nil
	}
	if err := emitTasks(ctx, b.bus, b.continuations); err != nil {
		return fmt.Errorf("emit continuations: %w", err)
	}
	return nil
}

// finish ends the messages that are done in all partitions. If two batches complete a message at the same time, both may measure it.
func (b *batch) finish(ctx context.Context) error {
	var mu sync.Mutex
	var endings []message.Ending
	err := b.each(ctx, b.ended, func(ctx context.Context, first, end int) error {
		some, err := b.stores.ender().EndPlanned(ctx, refsOf(b.ended[first:end]))
		mu.Lock()
		defer mu.Unlock()
		endings = append(endings, some...)
		return err
	}, func(int, *job) { b.progress = true })
	b.report(endings)
	return err
}

// describe adds to the span of the batch which messages it delivers.
func (b *batch) describe(span trace.Span) {
	if span.IsRecording() && len(b.jobs) > 0 {
		describe(span, b.jobs[0].task.Lane, b.jobs)
		span.SetAttributes(tracing.Partition.Int(b.partition))
	}
}

// describe adds to the span of a pass which messages it delivers.
func describe(span trace.Span, lane event.Lane, jobs []*job) {
	if !span.IsRecording() {
		return
	}
	ids := make([]string, min(len(jobs), tracing.ListMax))
	for i := range ids {
		ids[i] = jobs[i].message.ID.String()
	}
	span.SetAttributes(tracing.Lane.String(string(lane)), tracing.Messages.Int(len(jobs)), tracing.MessageIDs.StringSlice(ids))
}

// describeCounts adds to the span of a pass how many deliveries it made and skipped.
func describeCounts(span trace.Span, jobs []*job) {
	if !span.IsRecording() {
		return
	}
	var counts progress.Counts
	for _, j := range jobs {
		counts.Delivered += j.counts.Delivered
		counts.Skipped += j.counts.Skipped
	}
	span.SetAttributes(tracing.Delivered.Int64(counts.Delivered), tracing.Skipped.Int64(counts.Skipped))
}
