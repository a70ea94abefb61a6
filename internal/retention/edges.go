package retention

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// edgesEvery is how long after a process has gone through all edges it does so again, unless messages expire sooner: far more of them hold
	// than have ended.
	edgesEvery = 24 * time.Hour
	// edgesPage is how many edges are read at a time. So many of them count as a record that is removed.
	edgesPage, edgesPerRecord = 1000, 10
)

// edgeWalk is how far this process has come with the edges. One goroutine uses it.
type edgeWalk struct {
	place  string    // where it goes on
	walked time.Time // when it had gone through all of them
}

// collectEdges removes edges that had ended before all messages that have not expired for all users. They are needed for as long as messages do
// not expire by age, because an older message may then be looked for at any time.
//
// A process may carry out a change that it has begun for as long as the clock tolerance. So an edge has to have ended twice that long ago. A plan
// that has not ended may still be redriven, also when its message has expired: it needs the edges as they were when that was sent.
func (w *Walker) collectEdges(ctx context.Context, r Round) {
	w.remove(ctx, edges, func(ctx context.Context) (int, error) { return w.removeEdges(ctx, r) })
}

func (w *Walker) removeEdges(ctx context.Context, r Round) (removed int, err error) {
	for due := w.edgesDue(); due; due = w.edges.place != "" {
		by, err := w.unneeded(ctx, r)
		if err != nil || by.IsZero() {
			return removed, err
		}
		ended, next, err := w.stores.Edges.Ended(ctx, w.edges.place, by, edgesPage)
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
		if w.edges.place = next; next == "" {
			w.edges.walked = w.opts.Now()
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

// edgesDue reports whether this process should go through the edges now.
func (w *Walker) edgesDue() bool {
	now, walked := w.opts.Now(), w.edges.walked
	return w.edges.place != "" || walked.IsZero() || !now.Before(walked.Add(min(edgesEvery, w.opts.Retention().MaxAge))) || now.Before(walked)
}
