package retention

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// Status says how far the walk over all users is.
type Status struct {
	// Walked says that there is a low-water mark. Otherwise no round has ended since messages of all users expire, or one has found damage.
	Walked bool
	// LowWater is the low-water mark: every message up to there has expired for every user.
	LowWater message.ID
	// Overdue is by how much the oldest message may have outlived its age that has not expired yet; 0 if messages do not expire by age.
	Overdue time.Duration
	// Rate is how many messages expire in a second: in this round, or in the last one if none is under way.
	Rate float64
	// Freed is how many bytes were freed, before compression. What another process has freed since it last walked is missing.
	Freed int64
}

// Status returns how far the walk is.
func (w *Walker) Status(ctx context.Context) (Status, error) {
	r, err := w.stores.Rounds.Load(ctx)
	if err != nil {
		return Status{}, err
	}
	keep, now := w.opts.Retention(), w.opts.Now()
	s := Status{Rate: r.Rate, Freed: r.Freed + w.freed.Load() - w.counted.Load()}
	if took := now.Sub(r.Began).Seconds(); !r.Ended && took > 1 {
		s.Rate = float64(r.Expired) / took
	}
	if keep.MaxAge == 0 && keep.Newest == 0 || r.LowWater.IsZero() {
		return s, nil
	}
	s.Walked, s.LowWater = true, r.LowWater
	if keep.MaxAge > 0 {
		s.Overdue = max(0, now.Add(-keep.MaxAge).Sub(r.LowWater.Time()))
	}
	return s, nil
}
