package retention

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// Status says how far the walk over all users is.
type Status struct {
	// Walked says that there is a low-water mark. Otherwise no round has ended since messages of all users expire by age.
	Walked bool
	// LowWater is the low-water mark: every message up to there has expired for every user.
	LowWater message.ID
	// AsOf is the time as of which messages expire by age; zero if there is none yet.
	AsOf time.Time
	// Overdue is by how much the oldest message may have outlived its age that has not expired yet.
	Overdue time.Duration
}

// Status returns how far the walk is.
func (w *Walker) Status(ctx context.Context) (Status, error) {
	r, err := w.stores.Rounds.Load(ctx)
	if err != nil {
		return Status{}, err
	}
	keep := w.opts.Retention()
	if keep.MaxAge == 0 || r.LowWater.IsZero() {
		return Status{AsOf: r.AsOf}, nil
	}
	return Status{
		Walked: true, LowWater: r.LowWater, AsOf: r.AsOf, Overdue: max(0, w.opts.Now().Add(-keep.MaxAge).Sub(r.LowWater.Time())),
	}, nil
}
