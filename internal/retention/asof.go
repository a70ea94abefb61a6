package retention

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Expired returns a function that returns the id up to which messages of a user with a retention have expired by age now; zero if they do not
// expire. It reads the record of the walk, and no clock: what expires by age, expires as of the time of a round. For the first look of a user these
// are all messages up to the target of the round, because the user has none of them.
func Expired(store Store, rules func() userstate.Rules) func(ctx context.Context, keep userstate.Retention, first bool) (message.ID, error) {
	return func(ctx context.Context, keep userstate.Retention, first bool) (message.ID, error) {
		r, err := store.Load(ctx)
		if err != nil {
			return message.ID{}, err
		}
		expired := r.expired(rules(), keep)
		if first {
			expired = message.Later(expired, message.Later(r.LowWater, r.Target))
		}
		return expired, nil
	}
}

// expired returns the id up to which messages have expired by age as of the time of the round; zero if they do not expire. It is the last possible
// id of a millisecond, and one up to which no message can arrive.
func (r Round) expired(rules userstate.Rules, keep userstate.Retention) message.ID {
	if keep.MaxAge == 0 || r.AsOf.IsZero() {
		return message.ID{}
	}
	settled, expired := rules.Settled(r.AsOf), message.LastBefore(r.AsOf.Add(-keep.MaxAge))
	if settled.Less(expired) {
		return settled
	}
	return expired
}

// held is a reading of the store's clock that this process watches. A wrong clock would let everything expire, for good. So a reading counts only when
// it has stood for Options.Hold, by the time that passes in this process, and no clock has contradicted it since.
type held struct {
	reading time.Time
	since   time.Duration
}

// look compares the recorded reading with what the store's clock shows now. It begins to watch anew when the clocks disagree, when the clock shows an
// earlier time, and when the reading is another one.
func (h *held) look(recorded, now time.Time, agree bool, elapsed time.Duration) {
	switch {
	case !agree || now.Before(recorded):
		*h = held{}
	case !recorded.Equal(h.reading):
		*h = held{reading: recorded, since: elapsed}
	}
}

// ripe reports whether the reading has stood for long enough.
func (h *held) ripe(elapsed, hold time.Duration) bool {
	return !h.reading.IsZero() && elapsed-h.since >= hold
}

// asOf reads the clocks, and reports whether the recorded reading has stood for long enough. If no round is under way, it returns the record with the
// times for the next one: the reading becomes AsOf if it has stood, and is replaced if it counts no more.
func (w *Walker) asOf(ctx context.Context, r Round) (Round, bool, error) {
	now, agree, err := w.opts.Clock(ctx)
	if err != nil {
		return r, false, err
	}
	now = now.UTC().Truncate(time.Millisecond)
	if r.over() && agree && (w.opts.Hold == 0 || r.Reading.IsZero() || now.Before(r.Reading)) {
		r.Reading = now
	}
	elapsed := w.opts.Elapsed()
	w.held.look(r.Reading, now, agree, elapsed)
	ripe := w.held.ripe(elapsed, w.opts.Hold)
	if r.over() && ripe {
		if r.AsOf.Before(r.Reading) {
			r.AsOf = r.Reading
		}
		r.Reading = now
	}
	return r, ripe, nil
}
