package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// bulkKeep is how long a worker slot stays with one partition of the bulk lane while that partition has more tasks.
	// An embedded store, which is ordered by partition and owner, is then written in its order for about a second at a
	// time. Tables that do not overlap need no compaction.
	bulkKeep = time.Second
	// slotGrace is how long a partition waits for its next task before it frees its worker slot. It covers the time in which
	// the bus gets the continuation ready.
	slotGrace = 5 * time.Millisecond
	// pauseFor is how long a partition pauses after the code panicked on its first task, or when all of its tasks wait for room, or for a part
	// of the store that is away. So a passing cause can pass before the task has used up its attempts.
	pauseFor = time.Second
)

// errWaits says that a batch is done, and that nothing came of it: all of its tasks wait for a part of the store that is away.
var errWaits = errors.New("all tasks of the batch wait")

// Deliverer processes tasks. It is safe for concurrent use.
type Deliverer struct {
	stores  Stores
	bus     bus.Emitter
	opts    Options
	letters *lru.Cache[letterKey, struct{}] // tasks that are dead letters already
	reach   *reach
	metrics delivererMetrics
	panics  *panics.Recorder
	// takenOver are messages of tasks that other workers have not finished.
	takenOver *lru.Cache[message.ID, struct{}]
}

// NewDeliverer returns a Deliverer.
func NewDeliverer(stores Stores, bus bus.Emitter, opts Options) *Deliverer {
	letters, err := lru.New[letterKey, struct{}](rememberedLetters)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	takenOver, err := lru.New[message.ID, struct{}](rememberedSlow)
	if err != nil {
		panic(err) // as above
	}
	opts.slow = slowLogger(opts.Logger)
	recorder := panics.NewRecorder(opts.Logger, opts.Metrics, "deliver")
	return &Deliverer{
		stores: stores, bus: bus, opts: opts, letters: letters, reach: newReach(opts, "deliver", recorder), metrics: newDelivererMetrics(opts),
		panics: recorder, takenOver: takenOver,
	}
}

// Taker hands out tasks: see bus.Intake.
type Taker interface {
	Poll(ctx context.Context, lane event.Lane, partition int, wait time.Duration) (bus.Held, error)
	Take(ctx context.Context, lane event.Lane, partition int) (bus.Held, error)
}

// Run takes tasks of all lanes and partitions and delivers them, until intake ends. It finishes the batches that are
// under way then; when processing ends, it hands their tasks back to the bus.
//
// Each lane has worker slots of its own, so no lane waits for another. A lane takes tasks only while it has a free slot, so
// other processes get the tasks for which this one has no worker.
func (d *Deliverer) Run(intake, processing context.Context, taker Taker) {
	var takers sync.WaitGroup
	for _, lane := range event.Lanes() {
		for p := range d.opts.Partitions {
			takers.Go(func() {
				startstop.Keep(intake, processing, d.panics, "deliverer", func(intake, processing context.Context) {
					d.takeFrom(intake, processing, lane, p, taker)
				})
			})
		}
	}
	takers.Wait()
}

// takeFrom takes tasks of one lane and partition and delivers them, until intake ends.
func (d *Deliverer) takeFrom(intake, processing context.Context, lane event.Lane, p int, taker Taker) {
	for intake.Err() == nil {
		if !d.opts.room(lane) {
			startstop.Pause(intake, pauseFor)
			continue
		}
		held, err := d.next(intake, lane, p, taker)
		if err == nil {
			err = d.stay(intake, processing, held, lane, p, taker)
		} else if intake.Err() == nil {
			d.opts.Logger.Error().Err(err).Str("lane", string(lane)).Int("partition", p).Msg("taking a task failed: trying again")
			startstop.Pause(intake, time.Second)
		}
		if Classify(err) == HandBack || errors.Is(err, errWaits) {
			startstop.Pause(intake, pauseFor) // without a worker slot, so other partitions continue
		}
	}
}

// next waits for a task and a worker slot for it. When it returns a task, the slot is busy.
//
// The partition first polls with a slot of its own, so the partitions that have tasks take turns. If it has none, it waits
// for one as long as a slot of the lane is free. If several partitions get tasks for one free slot, those that come too late
// hand them back.
func (d *Deliverer) next(intake context.Context, lane event.Lane, p int, taker Taker) (bus.Held, error) {
	slots := d.metrics.lanes[lane].slots
	for {
		if !slots.acquire(intake) {
			return nil, intake.Err()
		}
		held, err := d.look(intake, lane, p, taker)
		if held != nil || err != nil {
			return held, err
		}
		if held, err = d.wait(intake, lane, p, taker); held != nil || err != nil {
			return held, err
		}
	}
}

// wait waits for a task while a slot of the lane is free. It returns nil if the last slot became busy first.
func (d *Deliverer) wait(intake context.Context, lane event.Lane, p int, taker Taker) (bus.Held, error) {
	slots := d.metrics.lanes[lane].slots
	free, cancel := slots.whileFree(intake)
	defer cancel()
	held, err := taker.Take(free, lane, p)
	switch {
	case err != nil && free.Err() != nil:
		return nil, intake.Err()
	case err != nil:
		return nil, err
	case slots.acquire(free):
		slots.work()
		return held, nil
	default:
		d.giveBack(intake, held)
		return nil, intake.Err()
	}
}

// look polls for a task with an acquired slot. If there is none, it frees the slot.
func (d *Deliverer) look(intake context.Context, lane event.Lane, p int, taker Taker) (held bus.Held, err error) {
	slots := d.metrics.lanes[lane].slots
	defer func() {
		if held == nil { // also if the code panicked
			slots.release()
		}
	}()
	if held, err = taker.Poll(intake, lane, p, 0); held != nil {
		slots.work()
	}
	return held, err
}

// stay delivers the batch of a held task with a busy slot, and then frees the slot. A bulk worker first continues with the
// next tasks of the partition, for up to bulkKeep. It returns the error with which it has handed a task back, or errWaits.
func (d *Deliverer) stay(intake, processing context.Context, held bus.Held, lane event.Lane, p int, taker Taker) error {
	defer d.metrics.lanes[lane].slots.done()
	began := time.Now() //nolint:forbidigo // measures a duration; stored times come from Options.Now
	for {
		err := d.process(intake, processing, held, d.metrics.lanes[lane])
		if err != nil || lane != event.Bulk || !d.opts.room(lane) || intake.Err() != nil || time.Since(began) > bulkKeep {
			return err
		}
		if held, err = taker.Poll(intake, lane, p, slotGrace); held == nil {
			return err
		}
	}
}

// process delivers the batch of a held task. It extends the hold meanwhile, and gives the task up if the batch is stuck. It
// returns the error with which it has handed the task back, or errWaits.
func (d *Deliverer) process(intake, processing context.Context, held bus.Held, lane *lane) error {
	h := newHold(processing, held)
	defer h.lose()
	h.lane, h.began = lane, d.opts.Now()
	lane.underWay.add(h)
	defer lane.underWay.remove(h)
	stop := d.keep(intake, h)
	defer stop()
	ctx := h.pulse.Of(processing)
	logger := d.opts.Logger.With().Str("subject", held.First().Subject).Uint64("sequence", held.First().Sequence).Logger()
	err := d.deliverHeld(ctx, h)
	if Classify(err) == Continue {
		logger.Warn().Err(err).Msg("the task stream has no room for continuations: continuing with the held tasks")
	}
	for Classify(err) == Continue && intake.Err() == nil && !h.givenUp.Load() {
		startstop.Pause(intake, slotGrace) // if all tasks wait for a store that is away, a batch takes no time
		err = d.deliverHeld(ctx, h)
	}
	switch {
	case h.givenUp.Load():
		logger.Info().Err(err).Stringer("took", d.opts.Now().Sub(h.began).Round(time.Millisecond)).Msg("a stuck batch has ended: its worker is free again")
	case err != nil:
		logger.Warn().Err(err).Msg("batch was not finished: handing it back")
		d.release(processing, held)
	case h.waits:
		return errWaits
	}
	return err
}

// Deliver processes one batch: the held task, and the tasks that wait behind it. It returns nil when the batch is done
// and the hold has ended. After an error the task is still held, and the next worker that takes it repeats the part of
// the batch that is not recorded. Deliver retries temporary failures. Its error comes from a ctx that has ended, a full
// task stream, a bus that failed to read or remove tasks, or a panic.
//
// If the code panics, Deliver processes each task alone. The tasks on which it panics again stay in the queue. The held
// task becomes a dead letter at its last attempt.
func (d *Deliverer) Deliver(ctx context.Context, held bus.Held) error {
	h := newHold(ctx, held)
	defer h.lose()
	return d.deliverHeld(ctx, h)
}

// deliverHeld is Deliver for a hold. After the worker has given the task up, it repeats nothing.
func (d *Deliverer) deliverHeld(ctx context.Context, held *hold) (err error) {
	first := held.First()
	defer func() { d.recordPanic(err, first) }()
	defer panics.Catch(&err)
	if first.Attempts > d.opts.MaxAttempts {
		return d.giveUp(ctx, held)
	}
	d.logTakeover(first)
	tasks := []event.Delivery{first}
	// A task that was handed out suspiciously often gets a batch of its own. So it cannot take other tasks down.
	if first.Attempts <= (d.opts.MaxAttempts+1)/2 {
		waiting, err := held.Waiting(ctx, d.opts.BatchTasks-1)
		if err != nil {
			return fmt.Errorf("read waiting tasks: %w", err)
		}
		tasks = append(tasks, waiting...)
	}
	ctx, span := d.opts.startSpan(ctx, "deliver", func() []event.Trace { return tracesOf(tasks) })
	defer func() { span.Done(err) }()
	if span.IsRecording() {
		span.SetAttributes(tracing.Subject.String(first.Subject), tracing.Tasks.Int(len(tasks)))
	}
	var postponed map[uint64]bool
	err = d.retry(held, first.Subject, func() (err error) {
		postponed, held.waits, err = d.runBatch(ctx, tasks)
		return err
	})
	var panicked error
	if action := Classify(err); (action == DeadLetter || action == HandBack) && !held.givenUp.Load() {
		d.recordPanic(err, first)
		postponed, panicked, err = d.runOneByOne(ctx, held, tasks, err)
	}
	switch {
	case err != nil:
		return err
	case panicked != nil:
		return errors.Join(panicked, d.removeWaiting(ctx, held, tasks, postponed))
	default:
		return d.remove(ctx, held, tasks, postponed)
	}
}

// runOneByOne processes each task in a batch of its own, after their common batch failed permanently or panicked with
// cause. A task that fails permanently alone becomes a dead letter. If the code panics on a task, the task is postponed;
// panicked is the panic on the held task, which is the first.
func (d *Deliverer) runOneByOne(ctx context.Context, held *hold, tasks []event.Delivery, cause error) (postponed map[uint64]bool, panicked, err error) {
	postponed = make(map[uint64]bool)
	for i, task := range tasks {
		failure := cause
		if len(tasks) > 1 {
			failure = d.runAlone(ctx, held, task)
		}
		d.recordPanic(failure, task)
		failure = lastPanic(failure, task, d.opts.MaxAttempts)
		switch Classify(failure) {
		case HandBack:
			postponed[task.Sequence] = true
			if i == 0 {
				panicked = failure
			}
			continue
		case DeadLetter:
			err = d.retry(held, task.Subject, func() error { return d.deadLetter(ctx, task, failure) })
		default:
			err = failure
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return postponed, panicked, nil
}

// runAlone processes a task in a batch of its own.
func (d *Deliverer) runAlone(ctx context.Context, held *hold, task event.Delivery) error {
	return d.retry(held, task.Subject, func() error {
		postponed, _, err := d.runBatch(ctx, []event.Delivery{task})
		if err == nil && postponed[task.Sequence] {
			err = d.requeue(ctx, task)
		}
		return err
	})
}

// recordPanic records the panic that an error wraps, with the task that was processed.
func (d *Deliverer) recordPanic(err error, task event.Delivery) {
	d.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return logDelivery(line, task) })
}

// retry repeats an attempt for a held task while its error is one to Retry, until the worker gives the task up.
func (d *Deliverer) retry(held *hold, what string, attempt func() error) error {
	return retry(held.attempts, d.opts.Logger, d.metrics.retries, what, attempt)
}

// giveUp makes the held task a dead letter because the bus has handed it out too often.
func (d *Deliverer) giveUp(ctx context.Context, held *hold) error {
	err := d.retry(held, "dead letter", func() error {
		return d.deadLetter(ctx, held.First(), fmt.Errorf("%w (%d times)", errAttempts, held.First().Attempts))
	})
	if err != nil {
		return err
	}
	return held.Done(ctx)
}

// remove removes the tasks of a batch from the queue, except the postponed ones. The held task goes last, because it
// holds the partition. If the held task itself is postponed, remove puts it at the end of the queue.
func (d *Deliverer) remove(ctx context.Context, held bus.Held, tasks []event.Delivery, postponed map[uint64]bool) error {
	if err := d.removeWaiting(ctx, held, tasks, postponed); err != nil {
		return err
	}
	if postponed[tasks[0].Sequence] {
		if err := d.requeue(ctx, tasks[0]); err != nil {
			return err
		}
	}
	if err := held.Done(ctx); err != nil {
		return fmt.Errorf("remove held task: %w", err)
	}
	return nil
}

// removeWaiting removes the tasks of a batch from the queue, except the postponed ones and the held one.
func (d *Deliverer) removeWaiting(ctx context.Context, held bus.Held, tasks []event.Delivery, postponed map[uint64]bool) error {
	done := make([]event.Delivery, 0, len(tasks)-1)
	for _, task := range tasks[1:] {
		if !postponed[task.Sequence] {
			done = append(done, task)
		}
	}
	if len(done) > 0 {
		if err := held.Remove(ctx, done); err != nil {
			return fmt.Errorf("remove tasks: %w", err)
		}
	}
	return nil
}

// requeue emits a task again, unchanged, at the end of its queue.
func (d *Deliverer) requeue(ctx context.Context, delivery event.Delivery) error {
	task, err := event.DecodeTask(delivery.Payload)
	if err != nil {
		return err
	}
	task.Trace = delivery.Trace
	if err := emitTasks(ctx, d.bus, []event.Task{task}); err != nil {
		return fmt.Errorf("emit task again: %w", err)
	}
	return nil
}

// startSpan starts the span of work for several tasks or messages. If it is for a single one, it continues the trace of that one.
// The span of several starts a trace that links to theirs.
func (o Options) startSpan(ctx context.Context, name string, of func() []event.Trace) (context.Context, tracing.Work) {
	if !o.Tracer.On() {
		return o.Tracer.Start(ctx, "")
	}
	ctx, start := tracing.Together(ctx, of())
	return o.Tracer.Start(ctx, name, append(start, consumer)...)
}

func tracesOf(deliveries []event.Delivery) []event.Trace {
	traces := make([]event.Trace, len(deliveries))
	for i, delivery := range deliveries {
		traces[i] = delivery.Trace
	}
	return traces
}
