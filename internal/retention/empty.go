package retention

import (
	"context"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// step is how many buckets are emptied at a time: a fraction of a second's work.
const step = 32

// Empty empties all buckets of a user whose messages have expired. It blocks for as long as the rate demands. It is idempotent, may run at the
// same time for the same user, and returns what ctx says when ctx ends. The next call continues where it was.
func (w *Walker) Empty(ctx context.Context, state userstate.State) error {
	if state.Purged.IsZero() {
		return nil
	}
	emptying := bucket.NewEmptying(w.stores.Buckets, state.User, state.Head, state.Purged)
	for more := true; more; {
		var freed bucket.Emptied
		var err error
		if freed, more, err = emptying.Step(ctx, step); err != nil {
			return err
		}
		w.metrics.buckets.Add(float64(freed.Buckets))
		w.metrics.entries.Add(float64(freed.Entries))
		w.metrics.bytes.Add(float64(freed.Bytes))
		if err := wait(ctx, w.emptying, freed.Buckets); err != nil {
			return err
		}
	}
	return nil
}
