package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// job is a task in a batch.
type job struct {
	delivery event.Delivery
	task     event.Task
	message  message.Message
	entry    bucket.Entry
	order    int // its place in batch.jobs

	recorded progress.Scan // as it was when the batch began
	scan     progress.Scan // joined, while the batch moves it

	delivered, skipped int64
	dead               error // why it is to become a dead letter
}

// work carries a batch through append, record and emit, and returns the sequences of the tasks that are to be left
// in the queue, for their turn has not come. It may be repeated at any time. Tasks that cannot succeed have become
// dead letters when it returns. An error that is to be dead-lettered concerns the batch as a whole.
func (d *Deliverer) work(ctx context.Context, deliveries []event.Delivery) (left map[uint64]bool, err error) {
	b := &batch{deliverer: d, rules: d.opts.Rules(), left: make(map[uint64]bool)}
	began := d.opts.Now()
	if err := b.open(ctx, deliveries); err != nil {
		return nil, err
	}
	b.tell(ctx)
	express, scanning := b.divide()
	if err := b.express(ctx, express); err != nil {
		return nil, err
	}
	if err := b.advance(ctx, scanning); err != nil {
		return nil, err
	}
	b.tellCounts(ctx)
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
	return b.left, nil
}

// batch is the work on tasks of one lane and partition.
type batch struct {
	deliverer *Deliverer
	rules     userstate.Rules // that held when the batch began
	partition int
	lane      *lane // where its tasks are from; nil while there are none

	jobs []*job // ascending by message id, each message once
	left map[uint64]bool

	steps     []progress.Step // of the jobs in moved
	moved     []*job
	tasks     []event.Task      // to be emitted: continuations
	unplanned []event.Published // to be emitted: messages without a plan
	ended     []message.Ref     // messages of which a scan was found, or has come, to its end
	finished  []message.ID      // those of them whose scan this batch has brought there
}

// open reads the tasks, their records and their messages. What is malformed or already done is sorted out.
func (b *batch) open(ctx context.Context, deliveries []event.Delivery) error {
	for _, delivery := range deliveries {
		task, err := event.DecodeTask(delivery.Payload)
		if err == nil && task.Partition >= b.deliverer.opts.Partitions {
			err = fmt.Errorf("%w: partition is %d of %d", event.ErrMalformed, task.Partition, b.deliverer.opts.Partitions)
		}
		if err != nil {
			if err := b.deliverer.bury(ctx, delivery, err); err != nil {
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
	return nil
}

// readMessages loads the messages, as far as their bodies fit into the bounds of a batch. The first always does.
func (b *batch) readMessages(ctx context.Context) error {
	bytes := 0
	open := b.jobs[:0]
	for _, j := range b.jobs {
		if bytes > b.deliverer.opts.BatchBytes {
			b.left[j.delivery.Sequence] = true
			continue
		}
		stored, err := b.deliverer.message(ctx, j.task.Ref())
		switch {
		case Classify(err) == DeadLetter:
			if err := b.deliverer.bury(ctx, j.delivery, err); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		case b.rules.Void(stored):
			b.ended = append(b.ended, stored.Ref())
			continue
		}
		j.message, j.entry = stored.Message, bucket.EntryOf(stored.Message)
		bytes += len(stored.Body) + len(stored.Attrs)
		open = append(open, j)
	}
	for i, j := range open {
		j.order = i
	}
	b.jobs = open
	return nil
}

func (d *Deliverer) message(ctx context.Context, ref message.Ref) (message.Stored, error) {
	if stored, ok := d.messages.Get(ref.ID); ok {
		return stored, nil
	}
	stored, err := d.stores.Messages.Get(ctx, ref)
	if err != nil {
		return stored, fmt.Errorf("message %s: %w", ref.ID, err)
	}
	d.messages.Add(ref.ID, stored)
	return stored, nil
}

// divide separates the jobs that carry their recipients from those that scan.
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

// express delivers jobs to all of their recipients.
func (b *batch) express(ctx context.Context, jobs []*job) error {
	streams := make([]*stream, len(jobs))
	for i, j := range jobs {
		streams[i] = listStream(j, j.task.Recipients, "")
	}
	merger := newMerger(streams, "")
	everybody := func(*job, recipient) bool { return true }
	for toEnd := false; !toEnd; {
		var err error
		if _, toEnd, err = b.carry(ctx, merger, everybody); err != nil {
			return err
		}
	}
	for _, j := range jobs {
		b.move(j, j.recorded.Finish(j.delivered, j.skipped))
	}
	return nil
}

// move notes that a job has moved its scan.
func (b *batch) move(j *job, to progress.Scan) {
	b.moved = append(b.moved, j)
	b.steps = append(b.steps, progress.Step{ID: j.task.ID, Partition: b.partition, From: j.recorded, To: to})
}

// record records how far the scans are. Where somebody else was first, their record holds, and the task goes on from there.
func (b *batch) record(ctx context.Context) error {
	steps, moved := b.steps[:0], b.moved[:0]
	for i, j := range b.moved {
		if j.dead == nil {
			steps, moved = append(steps, b.steps[i]), append(moved, j)
			continue
		}
		if err := b.deliverer.bury(ctx, j.delivery, j.dead); err != nil {
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
				b.finished = append(b.finished, j.task.ID)
			}
		case !scan.Dead:
			b.tasks = append(b.tasks, continuation(j.task))
		}
	}
	return nil
}

// continuation returns the task that goes on where the scan of a task stands. An express task comes here only if its
// message has been planned for another lane before, so that somebody else is scanning.
func continuation(task event.Task) event.Task {
	if task.Lane == event.Express {
		task.Lane, task.Recipients = event.Medium, nil
	}
	return task
}

func (b *batch) emit(ctx context.Context) error {
	if len(b.tasks) > 0 {
		if err := emitTasks(ctx, b.deliverer.bus, b.tasks); err != nil {
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

// finish takes note of the messages that are done in all partitions.
func (b *batch) finish(ctx context.Context) error {
	var done []message.Ref
	for _, ref := range b.ended {
		fanout, err := b.deliverer.stores.Progress.Get(ctx, ref.ID)
		switch {
		case errors.Is(err, progress.ErrNotFound):
		case err != nil:
			return fmt.Errorf("progress of %s: %w", ref.ID, err)
		case fanout.Done():
			done = append(done, ref)
			b.arrived(ref.ID)
			delivered, skipped := fanout.Counts()
			b.deliverer.opts.Logger.Debug().Stringer("message_id", ref.ID).Str("from", string(ref.From)).
				Int64("delivered", delivered).Int64("skipped", skipped).Msg("message is done")
		}
	}
	if len(done) == 0 {
		return nil
	}
	return b.deliverer.stores.Messages.Finish(ctx, done)
}

// bury makes a dead letter of a task, and records that its scan goes no further. It may be repeated: there is one letter, unless
// others repeat it.
func (d *Deliverer) bury(ctx context.Context, delivery event.Delivery, cause error) error {
	if buried := (burial{delivery.Sequence, delivery.Stored}); !d.buried.Contains(buried) {
		letter := deadLetter(delivery, cause)
		about(d.opts.Logger.Error().Err(cause), delivery).Str("reason", letter.Reason).Msg("task is a dead letter")
		if err := d.bus.DeadLetter(ctx, letter); err != nil {
			return fmt.Errorf("dead letter: %w", err)
		}
		d.buried.Add(buried, struct{}{})
	}
	task, err := event.DecodeTask(delivery.Payload)
	if err != nil || task.Partition >= d.opts.Partitions {
		return nil //nolint:nilerr // what cannot be read has no record
	}
	scans, planned, err := d.stores.Progress.Scans(ctx, task.Partition, []message.ID{task.ID})
	if err != nil || !planned[0] || scans[0].Done {
		return err
	}
	dead := scans[0]
	dead.Dead = true
	_, err = d.stores.Progress.Step(ctx, []progress.Step{{ID: task.ID, Partition: task.Partition, From: scans[0], To: dead}}, d.opts.Now())
	return err
}

// partitionOf returns those of the ascending users who are in a partition.
func partitionOf(users []message.UserID, p, partitions int) []message.UserID {
	var in []message.UserID
	for _, user := range users {
		if partition.Of(user, partitions) == p {
			in = append(in, user)
		}
	}
	return in
}
