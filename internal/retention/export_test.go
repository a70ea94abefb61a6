package retention

import (
	"context"

	"golang.org/x/time/rate"

	"github.com/fanmail/fanmail/pkg/userstate"
)

// SetKeep replaces Keep in the walk.
func (w *Walker) SetKeep(keep func(context.Context, userstate.State, Round) (Kept, error)) {
	w.keepUser = keep
}

// Due says that a round has ended.
func (w *Walker) Due(r Round) { w.due(r) }

// CollectNow collects after a round that has ended.
func (w *Walker) CollectNow(ctx context.Context, r Round) {
	w.collect(ctx, r)
	w.collectEdges(ctx, r)
}

// Rates returns how many buckets may be emptied in a second, how many plans and messages removed, and how many edges.
func (w *Walker) Rates() [3]rate.Limit {
	return [3]rate.Limit{w.emptying.Limit(), w.removals.Limit(), w.edgeRemovals.Limit()}
}
