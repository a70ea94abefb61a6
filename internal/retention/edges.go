package retention

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// edgesEvery is how long after the end of a pass over all edges the next one begins, unless messages expire sooner: far more of them hold than
	// have ended.
	edgesEvery = 24 * time.Hour
	// edgesPage is how many edges are read at a time. So many of them count as a record that is removed.
	edgesPage, edgesPerRecord = 1000, 10
)

// collectEdges removes edges that had ended before all messages that have not expired for all users. They are needed for as long as messages do
// not expire by age, because an older message may then be looked for at any time.
//
// A process may carry out a change that it has begun for as long as the clock tolerance. So an edge has to have ended twice that long ago. A plan
// that has not ended may still be redriven, also when its message has expired: it needs the edges as they were when that was sent.
func (w *Walker) collectEdges(ctx context.Context, r Round) {
	w.remove(ctx, edges, func(ctx context.Context) (int, error) { return w.removeEdges(ctx, r) })
}

func (w *Walker) removeEdges(ctx context.Context, r Round) (removed int, err error) {
	pass, err := w.stores.Passes.Load(ctx)
	if err != nil {
		return 0, err
	}
	for due := w.edgesDue(pass); due; due = pass.After != "" {
		by, err := w.unneeded(ctx, r)
		if err != nil || by.IsZero() {
			return removed, err
		}
		ended, next, err := w.stores.Edges.Ended(ctx, string(pass.After), by, edgesPage)
		if err == nil {
			err = wait(ctx, w.edgeRemovals, max(len(ended), edgesPage/edgesPerRecord))
		}
		if err == nil {
			err = w.stores.Edges.Remove(ctx, ended)
		}
		if err != nil {
			return removed, err
		}
		removed += len(ended)
		to := Round{Began: pass.Began, After: message.UserID(next)}
		if next == "" {
			to.Began = w.opts.Now().UTC().Truncate(time.Millisecond)
		}
		pass, due, err = w.recordIn(ctx, w.stores.Passes, pass, to)
		if err != nil || !due { // another process goes on
			return removed, err
		}
	}
	return removed, nil
}

// unneeded returns the time by which an edge must have ended to go, by the settings that hold now, or the zero time if all edges stay.
func (w *Walker) unneeded(ctx context.Context, r Round) (time.Time, error) {
	if w.opts.Retention().MaxAge == 0 || r.LowWater.IsZero() {
		return time.Time{}, nil
	}
	oldest, err := w.stores.Progress.List(ctx, message.ID{}, message.MaxID, 1)
	if err != nil {
		return time.Time{}, err
	}
	by := r.LowWater.Time()
	if len(oldest) > 0 && oldest[0].Fanout.ID.Time().Before(by) {
		by = oldest[0].Fanout.ID.Time()
	}
	if latest := r.AsOf.Add(-2 * w.opts.Rules().ClockTolerance); latest.Before(by) {
		by = latest
	}
	return by, nil
}

// edgesDue reports whether it is time to go through the edges: a pass is under way, or the last one ended long ago.
func (w *Walker) edgesDue(pass Round) bool {
	now := w.opts.Now()
	return pass.After != "" || !now.Before(pass.Began.Add(min(edgesEvery, w.opts.Retention().MaxAge))) || now.Before(pass.Began)
}
