package retention

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/message"
)

// What is removed, as logs and metrics name it.
const (
	plans    = "plans"
	letters  = "letters"
	messages = "messages"
	edges    = "edges"
)

// Collect removes what no process needs any more after a round that has ended, until intake ends: plans, dead letters and messages. The next
// round does not wait for it. Several processes may collect at the same time.
func (w *Walker) Collect(intake, _ context.Context) { w.afterRounds(intake, w.ended, w.collect) }

// CollectEdges is Collect for edges, whose number would hold up everything else.
func (w *Walker) CollectEdges(intake, _ context.Context) {
	w.afterRounds(intake, w.endedEdges, w.collectEdges)
}

// due lets collections begin soon after a round that this process has ended. It does not block. Of the rounds that wait, the last counts.
func (w *Walker) due(r Round) {
	for _, waiting := range []chan Round{w.ended, w.endedEdges} {
		select {
		case <-waiting:
		default:
		}
		waiting <- r
	}
}

func (w *Walker) afterRounds(intake context.Context, ended <-chan Round, collect func(context.Context, Round)) {
	for {
		select {
		case <-intake.Done():
			return
		case r := <-ended:
			collect(intake, r)
		}
	}
}

func (w *Walker) collect(ctx context.Context, r Round) {
	w.remove(ctx, plans, w.Conclude)
	if w.opts.Letters != nil {
		w.remove(ctx, letters, func(ctx context.Context) (int, error) { return w.opts.Letters(ctx, r.LowWater) })
	}
	w.remove(ctx, messages, func(ctx context.Context) (int, error) { return w.collectMessages(ctx, r) })
}

// remove removes records of a kind. What cannot be removed is logged, and left to the next round.
func (w *Walker) remove(ctx context.Context, what string, remove func(context.Context) (int, error)) {
	if ctx.Err() != nil {
		return
	}
	removed := 0
	err := panics.Do(func() (err error) {
		removed, err = remove(ctx)
		return err
	})
	w.metrics.removed.WithLabelValues(what).Add(float64(removed))
	if err == nil || ctx.Err() != nil {
		return
	}
	w.metrics.failures.WithLabelValues(what).Inc()
	w.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return line.Str("what", what) })
	w.opts.Logger.Warn().Err(err).Str("what", what).Msg("what has ended cannot be removed: it is tried again after the next round through all users")
}

// collectMessages removes messages that have expired for all users, and for whose deliveries no process works any more.
//
// Four things must hold. The message is at or below the low-water mark. It is older than it must be kept. Its idempotency key has expired.
// Its fan-out had ended before the round began that proved the mark: so no delivery came after that round had passed a user. A void message
// has no deliveries.
func (w *Walker) collectMessages(ctx context.Context, r Round) (removed int, err error) {
	for after := (message.ID{}); ; {
		upTo := w.removable(r)
		if !after.Less(upTo) {
			return removed, nil
		}
		old, err := w.stores.Messages.Oldest(ctx, after, upTo, page)
		if err != nil {
			return removed, err
		}
		n, err := w.removeMessages(ctx, old, r)
		if removed += n; err != nil || len(old) < page {
			return removed, err
		}
		after = old[len(old)-1].ID
	}
}

// removable returns up to where messages may go, by the settings that hold now: an operator may want to stop what has begun. An idempotency key may
// be reserved for publish_slack after the time in the id that it names.
func (w *Walker) removable(r Round) message.ID {
	rules := w.opts.Rules()
	if w.opts.Retention().MaxAge == 0 || r.AsOf.Before(w.opts.KeysUntil()) || r.AsOf.IsZero() {
		return message.ID{}
	}
	upTo := message.LastBefore(r.AsOf.Add(-w.opts.Canonical() - rules.ClockTolerance - rules.PublishSlack))
	if r.LowWater.Less(upTo) {
		return r.LowWater
	}
	return upTo
}

// removeMessages removes those of some messages that may go.
func (w *Walker) removeMessages(ctx context.Context, old []message.Old, r Round) (int, error) {
	var refs []message.Ref
	var stamps []message.Stamp
	for _, m := range old {
		switch {
		case m.Err != nil:
			w.damaged(m.ID, m.Err)
		case !m.Unfinished:
			refs, stamps = append(refs, m.Ref), append(stamps, m.Stamp)
		}
	}
	endings, err := w.stores.Messages.Endings(ctx, refs)
	if err != nil {
		return 0, err
	}
	var ended []message.Ref
	for i, ref := range refs {
		if err := endings[i].Err; err != nil {
			w.damaged(ref.ID, err)
			continue
		}
		if stamps[i].Void || endings[i].Concluded && endings[i].Closed < r.Proven {
			ended = append(ended, ref)
		}
	}
	if err := wait(ctx, w.removals, len(ended)); err != nil {
		return 0, err
	}
	if err := w.stores.Messages.Remove(ctx, ended); err != nil {
		return 0, err
	}
	return len(ended), nil
}

func (w *Walker) damaged(id message.ID, err error) {
	w.opts.Logger.Error().Err(err).Stringer("message_id", id).Msg("a message is damaged: it is not removed")
}
