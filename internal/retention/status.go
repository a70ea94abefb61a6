package retention

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Status says how far the walk over all users is.
type Status struct {
	// Walked says that there is a low-water mark. Otherwise no round has ended since messages of all users expire, or one has found damage.
	Walked bool
	// LowWater is the low-water mark: every message up to there has expired for every user.
	LowWater message.ID
	// Overdue is by how much the oldest message may have outlived its age that has not expired yet; 0 if messages do not expire by age.
	Overdue time.Duration
}

// Status returns how far the walk is.
func (w *Walker) Status(ctx context.Context) (Status, error) {
	r, err := w.stores.Rounds.Load(ctx)
	if err != nil {
		return Status{}, err
	}
	keep := w.opts.Retention()
	if keep == (userstate.Retention{}) || r.LowWater.IsZero() {
		return Status{}, nil
	}
	s := Status{Walked: true, LowWater: r.LowWater}
	if keep.MaxAge > 0 {
		s.Overdue = max(0, w.opts.Now().Add(-keep.MaxAge).Sub(r.LowWater.Time()))
	}
	return s, nil
}
