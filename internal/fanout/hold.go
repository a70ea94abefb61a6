package fanout

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/pulse"
)

// stuckChecks is how often Options.StuckAfter is divided: a worker gives a stuck batch up at most a tenth later.
const stuckChecks = 10

// hold is a held task, and the batch that a worker processes for it.
type hold struct {
	bus.Held
	lane  *lane
	began time.Time
	pulse pulse.Pulse // of the batch

	// attempts ends with the context of the batch, or when the worker gives the task up. Then the batch is not repeated.
	attempts context.Context //nolint:containedctx // see above
	lose     context.CancelFunc
	givenUp  atomic.Bool
	waits    bool // that is all that the batch did
}

// newHold returns a hold whose batch runs within ctx. Call lose after its last use.
func newHold(ctx context.Context, held bus.Held) *hold {
	h := &hold{Held: held}
	h.attempts, h.lose = context.WithCancel(ctx)
	return h
}

// Done implements bus.Held. A task that was given up is in the queue again, and stays there.
func (h *hold) Done(ctx context.Context) error {
	if h.givenUp.Load() {
		return nil
	}
	return h.Held.Done(ctx)
}

// keep extends a hold every Options.ExtendEvery, until the returned function is called. If no call of the store returns
// for Options.StuckAfter, keep hands the task back and stops extending the hold. Then another worker gets the task. The
// batch may continue. Its appends and records are harmless beside those of the next worker.
func (d *Deliverer) keep(intake context.Context, h *hold) (stop func()) {
	quit := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() {
		extend := time.NewTicker(d.opts.ExtendEvery)
		defer extend.Stop()
		check := time.NewTicker(d.opts.StuckAfter / stuckChecks)
		defer check.Stop()
		for silent, beats := 0, h.pulse.Beats(); ; {
			select {
			case <-quit:
				return
			case <-extend.C:
				d.extend(h)
			case <-check.C:
				if now := h.pulse.Beats(); now != beats {
					silent, beats = 0, now
				} else if silent++; silent == stuckChecks {
					d.giveUpStuck(intake, h)
					return
				}
			}
		}
	})
	return func() {
		close(quit)
		keeper.Wait()
	}
}

func (d *Deliverer) extend(h *hold) {
	if err := panics.Do(h.Extend); err != nil {
		d.recordPanic(err, h.First())
		logDelivery(d.opts.Logger.Warn().Err(err), h.First()).Msg("extending a hold failed: another worker may take the task")
	}
}

// giveUpStuck hands back the task of a batch that is stuck. That is no attempt, because the store is to blame.
func (d *Deliverer) giveUpStuck(intake context.Context, h *hold) {
	logDelivery(d.opts.Logger.Error(), h.First()).Stringer("took", d.opts.Now().Sub(h.began).Round(time.Millisecond)).Stringer("stuck_after", d.opts.StuckAfter).
		Msg("a batch is stuck in a call of the store: another worker gets its task")
	h.lane.stuck.Inc()
	h.givenUp.Store(true)
	h.lose()
	d.recordPanic(panics.Do(func() error {
		d.giveBack(intake, h)
		return nil
	}), h.First())
}

// giveBack hands a task back whose batch has not begun, or is stuck. That is no attempt.
func (d *Deliverer) giveBack(intake context.Context, held bus.Held) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(intake), time.Second)
	defer cancel()
	if err := held.GiveBack(ctx); err != nil {
		logDelivery(d.opts.Logger.Warn().Err(err), held.First()).Msg("handing a task back failed: the bus hands it out again later")
	}
}

// release hands a held task back to the bus. If that fails, the bus hands the task out again when the hold expires.
func (d *Deliverer) release(processing context.Context, held bus.Held) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(processing), time.Second)
	defer cancel()
	if err := held.Release(ctx); err != nil {
		logDelivery(d.opts.Logger.Warn().Err(err), held.First()).Msg("handing a task back failed: the bus hands it out again later")
	}
}

// underWay has the batches of a lane that are under way.
type underWay struct {
	mu    sync.Mutex
	holds map[*hold]struct{}
}

func (u *underWay) add(h *hold) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.holds == nil {
		u.holds = make(map[*hold]struct{})
	}
	u.holds[h] = struct{}{}
}

func (u *underWay) remove(h *hold) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.holds, h)
}

// oldest returns the age of the oldest batch, or 0 if no batch is under way.
func (u *underWay) oldest(now time.Time) (age time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for h := range u.holds {
		age = max(age, now.Sub(h.began))
	}
	return age
}
