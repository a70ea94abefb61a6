package retention

import (
	"context"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// PlanStays is how long a plan stays after its last move. Who completes a plan ends it at once, so what is left later was left behind by a crash.
	// It has nothing to do with safety. Where messages are kept for a shorter time, plans are, too.
	PlanStays = 15 * time.Minute
	// plansTogether is how many plans are read at a time. With 16 partitions they take about 1 MiB.
	plansTogether = 500
	// damagedRemembered is for how many damaged plans a Walker remembers that it has logged them.
	damagedRemembered = 10_000
)

// Conclude ends the plans of messages whose fan-out is over and that have not moved for PlanStays: it moves the counts into the message, and
// then removes the plan. It returns how many it has removed, also with an error. It blocks for as long as the rate demands, and returns when
// ctx ends.
//
// A plan is over if all of its scans are done or given up, or if its message is concluded or gone. A damaged plan or message stays as it is,
// and does not hold the others up. Conclude may be repeated, and run twice at the same time: the first counts stay.
func (w *Walker) Conclude(ctx context.Context) (n int, err error) {
	defer panics.Catch(&err)
	still := w.opts.Now().Add(-min(PlanStays, w.opts.Canonical()))
	upTo := message.LastBefore(still) // later messages have moved since
	for after := (message.ID{}); ; {
		page, err := w.stores.Progress.List(ctx, after, upTo, plansTogether)
		if err != nil {
			return n, fmt.Errorf("list plans: %w", err)
		}
		removed, err := w.concludeSome(ctx, page, still)
		n += removed
		if err != nil || len(page) < plansTogether {
			return n, err
		}
		after = page[len(page)-1].Fanout.ID
	}
}

// concludeSome ends those of the plans that are over and have not moved since a time.
func (w *Walker) concludeSome(ctx context.Context, page []progress.Found, still time.Time) (int, error) {
	var candidates []progress.Fanout
	var refs []message.Ref
	for _, found := range page {
		switch {
		case found.Err != nil:
			w.skip(found.Fanout.ID, found.Err)
		case !found.Fanout.Moved.After(still):
			candidates, refs = append(candidates, found.Fanout), append(refs, message.Ref{ID: found.Fanout.ID})
		}
	}
	if len(candidates) == 0 {
		return 0, nil
	}
	endings, err := w.stores.Messages.Endings(ctx, refs)
	if err != nil {
		return 0, fmt.Errorf("endings: %w", err)
	}
	var over []message.ID
	var done []message.Ref
	for i, plan := range candidates {
		switch known := endings[i]; {
		case known.Err != nil:
			w.skip(plan.ID, known.Err)
		case known.Over():
			over = append(over, plan.ID)
		case plan.Done():
			done = append(done, known.Ref)
		}
	}
	if err := wait(ctx, w.removals, len(over)+len(done)); err != nil {
		return 0, err
	}
	ender := progress.Ender{Messages: w.stores.Messages, Plans: w.stores.Progress, Round: Number(w.stores.Rounds)}
	ended, err := ender.EndPlanned(ctx, done)
	if err != nil {
		return 0, err
	}
	if err := w.stores.Progress.Remove(ctx, over); err != nil {
		return len(ended), fmt.Errorf("remove plans: %w", err)
	}
	return len(ended) + len(over), nil
}

// skip leaves a damaged plan or message as it is. It logs each once.
func (w *Walker) skip(id message.ID, err error) {
	w.metrics.skipped.Inc()
	if known, _ := w.logged.ContainsOrAdd(id, struct{}{}); !known {
		w.opts.Logger.Error().Err(err).Stringer("message_id", id).Msg("a plan or its message is damaged: the plan stays")
	}
}
