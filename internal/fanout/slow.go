package fanout

import (
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// A stage logs at most slowLines slow fan-outs and lost workers in slowPeriod: after an outage, every message is slow.
const (
	slowLines  = 50
	slowPeriod = 10 * time.Second
)

// rememberedSlow is for how many messages a stage remembers what it has logged. Beyond that, it logs some again.
const rememberedSlow = 10_000

// slowLogger returns a logger with that limit.
func slowLogger(logger zerolog.Logger) zerolog.Logger {
	return logger.Sample(&zerolog.BurstSampler{Burst: slowLines, Period: slowPeriod})
}

// logEnding logs the end of a fan-out, as information if it has taken Options.SlowAfter.
func (o Options) logEnding(e message.Ending) {
	line, took := o.Logger.Debug(), o.Now().Sub(e.Ref.ID.Time())
	if o.SlowAfter > 0 && took >= o.SlowAfter {
		line = o.slow.Info()
	}
	line.Stringer("message_id", e.Ref.ID).Str("from", string(e.Ref.From)).Str("lane", e.Lane).Stringer("took", took.Round(time.Millisecond)).
		Int64("delivered", e.Delivered).Int64("skipped", e.Skipped).Int64("given_up", e.GivenUp).Msg("message is done")
}

// logTakeover logs that this process takes over a task that a worker has not finished, once for each message. A task that the bus hands out again
// before the lease could end was handed back by its worker.
func (d *Deliverer) logTakeover(first event.Delivery) {
	task, err := event.DecodeTask(first.Payload)
	after := d.opts.Now().Sub(first.Stored)
	if err != nil || first.Attempts < 2 || after < d.opts.Waits.Lease {
		return
	}
	if known, _ := d.takenOver.ContainsOrAdd(task.ID, struct{}{}); !known {
		logDelivery(d.opts.slow.Info(), first).Str("lane", string(task.Lane)).Int("partition", task.Partition).Stringer("after", after.Round(time.Millisecond)).
			Msg("a worker has not finished its task: this one takes it over")
	}
}

// logStanding logs a fan-out that has not moved for Options.SlowAfter, once for each time that it stands still.
func (r *resumption) logStanding(ctx context.Context, ref message.Ref, plan progress.Fanout) {
	moved := movedAt(ref, plan)
	last, known := r.standing.Get(ref.ID)
	if r.opts.SlowAfter == 0 || r.now.Sub(moved) < r.opts.SlowAfter || known && last.Equal(moved) {
		return
	}
	line := r.opts.slow.Info()
	if !line.Enabled() { // what is too much for one look is left to the next ones
		return
	}
	if plan.ID.IsZero() { // it may have ended since the page was read
		if endings, err := r.stores.Messages.Endings(ctx, []message.Ref{ref}); err != nil || endings[0].Over() {
			return
		}
	}
	r.standing.Add(ref.ID, moved)
	r.describe(line, ref, plan).Msg("a fan-out stands still")
}

// describe adds to a log line how far a fan-out is, and what it waits for.
func (r *resumption) describe(line *zerolog.Event, ref message.Ref, plan progress.Fanout) *zerolog.Event {
	counts, open := plan.Counts(), openScans(plan)
	slices.Sort(open)
	waitingFor, _ := r.opts.Waits.For(plan, r.now)
	return line.Stringer("message_id", ref.ID).Str("from", string(ref.From)).Str("lane", plan.Lane).Ints("partitions", open).
		Stringer("since_sent", r.now.Sub(ref.ID.Time()).Round(time.Millisecond)).Stringer("stands_still", r.now.Sub(movedAt(ref, plan)).Round(time.Millisecond)).
		Int64("delivered", counts.Delivered).Int64("skipped", counts.Skipped).Str("waiting_for", string(waitingFor))
}

// movedAt returns when a fan-out last moved: when its message was sent, if it has no plan.
func movedAt(ref message.Ref, plan progress.Fanout) time.Time {
	if plan.ID.IsZero() {
		return ref.ID.Time()
	}
	return plan.Moved
}
