package bench

import (
	"context"
	"sync/atomic"

	"github.com/fanmail/fanmail/pkg/bucket"
)

// pushes counts the applied pushes and their entries.
type pushes struct {
	bucket.Store
	applied, entries atomic.Int64
}

// Push implements bucket.Store.
func (p *pushes) Push(ctx context.Context, all []bucket.Push) ([]bucket.Outcome, error) {
	outcomes, err := p.Store.Push(ctx, all)
	for i, o := range outcomes {
		if o.Applied {
			p.applied.Add(1)
			p.entries.Add(int64(len(all[i].Entries)))
		}
	}
	return outcomes, err
}
