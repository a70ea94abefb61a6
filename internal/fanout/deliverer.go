package fanout

import (
	"context"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// cachedMessages is how many messages a Deliverer keeps: a message is needed again in every batch of its fan-out.
	cachedMessages = 1024
	// rememberedBurials is for how many tasks a Deliverer knows that they are dead letters: those of the batches under way.
	rememberedBurials = 4096
)

// Deliverer works on tasks. It is safe for concurrent use, and a prometheus.Collector of its own metrics.
type Deliverer struct {
	stores   Stores
	bus      bus.Emitter
	opts     Options
	messages *lru.Cache[message.ID, message.Stored]
	buried   *lru.Cache[burial, struct{}]
	metrics  delivererMetrics
}

// burial names a task that has become a dead letter. Were the stream made anew, its sequences would begin anew, too.
type burial struct {
	sequence uint64
	stored   time.Time
}

// NewDeliverer returns a Deliverer.
func NewDeliverer(stores Stores, bus bus.Emitter, opts Options) *Deliverer {
	messages, err := lru.New[message.ID, message.Stored](cachedMessages)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	buried, err := lru.New[burial, struct{}](rememberedBurials)
	if err != nil {
		panic(err) // the same
	}
	return &Deliverer{stores: stores, bus: bus, opts: opts, messages: messages, buried: buried, metrics: newDelivererMetrics(opts.Workers)}
}

// Run takes tasks of all lanes and partitions, and delivers them, until intake ends; the batches under way then are
// finished under work, or handed back when that ends.
//
// Each lane has workers of its own, so that no lane waits for another.
func (d *Deliverer) Run(intake, work context.Context, take func(ctx context.Context, lane event.Lane, partition int) (bus.Held, error)) {
	var takers sync.WaitGroup
	for _, lane := range event.Lanes() {
		slots := d.metrics.lanes[lane].slots
		for p := range d.opts.Partitions {
			takers.Go(func() {
				seat := seat{slots: slots}
				if lane == event.Bulk {
					seat.stay = bulkStay
				}
				defer seat.leave()
				for intake.Err() == nil {
					held, err := take(intake, lane, p)
					switch {
					case err == nil:
						d.hold(intake, work, held, &seat)
					case intake.Err() == nil:
						d.opts.Logger.Error().Err(err).Str("lane", string(lane)).Int("partition", p).Msg("taking a task failed: trying again")
						pause(intake, time.Second)
					}
				}
			})
		}
	}
	takers.Wait()
}

// hold works on what is held as soon as one of the lane's workers is free, and keeps the hold meanwhile.
func (d *Deliverer) hold(intake, work context.Context, held bus.Held, seat *seat) {
	logger := d.opts.Logger.With().Str("subject", held.First().Subject).Uint64("sequence", held.First().Sequence).Logger()
	stop := d.keep(held)
	defer stop()
	if !seat.take(intake) {
		d.release(work, held)
		return
	}
	defer seat.rise()
	err := d.Deliver(work, held)
	if Classify(err) == GoOn {
		logger.Warn().Err(err).Msg("there is no room for the tasks that go on with a batch: going on with those that are held")
	}
	for Classify(err) == GoOn && intake.Err() == nil {
		err = d.Deliver(work, held)
	}
	if err != nil {
		logger.Warn().Err(err).Msg("batch was not finished: handing it back")
		d.release(work, held)
	}
}

// release hands a held task back. Without that, somebody else takes it when the bus has waited long enough.
func (d *Deliverer) release(work context.Context, held bus.Held) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(work), time.Second)
	defer cancel()
	if err := held.Release(ctx); err != nil {
		about(d.opts.Logger.Warn().Err(err), held.First()).Msg("handing a task back failed: it is handed out again later")
	}
}

// keep extends the hold until the returned function is called.
func (d *Deliverer) keep(held bus.Held) (stop func()) {
	quit := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() {
		ticker := time.NewTicker(d.opts.ExtendEvery)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				if err := held.Extend(); err != nil {
					about(d.opts.Logger.Warn().Err(err), held.First()).Msg("extending a hold failed: somebody else may take the task")
				}
			}
		}
	})
	return func() {
		close(quit)
		keeper.Wait()
	}
}

// Deliver works on one batch: the held task, and those that wait with it. It returns nil when the batch is done and the hold
// ended. After an error, which is that of a ctx that has ended unless the bus failed at the very end, the task is
// still held, and whoever takes it next repeats what is not recorded.
func (d *Deliverer) Deliver(ctx context.Context, held bus.Held) (err error) {
	first := held.First()
	tasks := []event.Delivery{first}
	if first.Attempts > d.opts.MaxAttempts {
		return d.abandon(ctx, held)
	}
	// A task that was handed out suspiciously often is worked on alone, to find out whether it is the culprit.
	if first.Attempts <= (d.opts.MaxAttempts+1)/2 {
		waiting, err := held.Waiting(ctx, d.opts.BatchTasks-1)
		if err != nil {
			return fmt.Errorf("read waiting tasks: %w", err)
		}
		tasks = append(tasks, waiting...)
	}
	ctx, span := d.begin(ctx, tasks)
	defer func() { span.Done(err) }()
	var left map[uint64]bool
	err = retry(ctx, d.opts.Logger, d.metrics.retries, first.Subject, func() (err error) {
		left, err = d.work(ctx, tasks)
		return err
	})
	if Classify(err) == DeadLetter {
		left, err = nil, d.isolate(ctx, tasks)
	}
	if err != nil {
		return err
	}
	return d.remove(ctx, held, tasks, left)
}

// isolate works on every task alone, since together they failed for good, and makes dead letters of those that fail alone.
func (d *Deliverer) isolate(ctx context.Context, tasks []event.Delivery) error {
	for _, task := range tasks {
		err := retry(ctx, d.opts.Logger, d.metrics.retries, task.Subject, func() error {
			left, err := d.work(ctx, []event.Delivery{task})
			if err == nil && left[task.Sequence] {
				err = d.again(ctx, task)
			}
			return err
		})
		if cause := err; Classify(cause) == DeadLetter {
			err = retry(ctx, d.opts.Logger, d.metrics.retries, task.Subject, func() error { return d.bury(ctx, task, cause) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// abandon makes a dead letter of the held task.
func (d *Deliverer) abandon(ctx context.Context, held bus.Held) error {
	err := retry(ctx, d.opts.Logger, d.metrics.retries, "dead letter", func() error {
		return d.bury(ctx, held.First(), fmt.Errorf("%w (%d times)", errAttempts, held.First().Attempts))
	})
	if err != nil {
		return err
	}
	return held.Done(ctx)
}

// remove removes from the queue what is not left in it. The held task goes last, since it holds the others' place; if
// it has to wait on, it goes to the end of the queue.
func (d *Deliverer) remove(ctx context.Context, held bus.Held, tasks []event.Delivery, left map[uint64]bool) error {
	gone := make([]event.Delivery, 0, len(tasks)-1)
	for _, task := range tasks[1:] {
		if !left[task.Sequence] {
			gone = append(gone, task)
		}
	}
	if len(gone) > 0 {
		if err := held.Remove(ctx, gone); err != nil {
			return fmt.Errorf("remove tasks: %w", err)
		}
	}
	if left[tasks[0].Sequence] {
		if err := d.again(ctx, tasks[0]); err != nil {
			return err
		}
	}
	if err := held.Done(ctx); err != nil {
		return fmt.Errorf("remove held task: %w", err)
	}
	return nil
}

// again puts a task at the end of its queue as it is.
func (d *Deliverer) again(ctx context.Context, delivery event.Delivery) error {
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
