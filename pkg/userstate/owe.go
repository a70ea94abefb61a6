package userstate

import (
	"context"
	"fmt"
	"time"
)

// OweSweep returns the state with a sweep that no worker holds yet, and true. The sweep counts the gaps again. A worker that is sweeping
// loses its lease, because it may have counted already. If a later sweep is certain anyway, OweSweep returns false: after a mark, or if
// no worker has taken an existing sweep.
func (s State) OweSweep(now time.Time) (State, bool) {
	if s.Mark != nil || s.Sweep != nil && s.Lease.Token == "" {
		return s, false
	}
	since := now.UTC().Truncate(time.Millisecond)
	if s.Sweep != nil {
		since = s.Lease.Since
	}
	s.Sweep = s.sweepFrom(s.Horizon) // nothing is missing in buckets
	s.Lease = untaken(since)
	return s, true
}

// OweFrom returns the state with a sweep from the given time, or from the begin of an earlier one, that no worker holds yet, and true. A worker
// that holds a lease loses it, because it may have looked already. If the user has no record, or no worker has taken a sweep from then on,
// OweFrom returns false: a later look is certain anyway.
func (s State) OweFrom(from, now time.Time) (State, bool) {
	if from = from.UTC().Truncate(time.Millisecond); !s.Known() || s.Sweep != nil && !from.Before(s.Sweep.From) && s.Lease.Token == "" {
		return s, false
	}
	since := now.UTC().Truncate(time.Millisecond)
	if s.Rehydrating() {
		since = s.Lease.Since
	}
	s.Sweep = s.sweepFrom(from)
	s.Lease = untaken(since)
	return s, true
}

// untaken returns the lease of a sweep that no worker has taken yet.
func untaken(since time.Time) Lease { return Lease{Until: time.UnixMilli(0).UTC(), Since: since} }

// Owe makes sure that the gaps of each state are counted again. A worker that leaves a message to a gap calls Owe before the message counts
// as handled: the gap may have been counted before the message became visible. The worker passes the states by which it decided. They must
// have been read after the message was stored, and each user may occur once. lazy is that of Step.
func Owe(ctx context.Context, store Store, states []State, now time.Time, lazy bool) error {
	for len(states) > 0 {
		var steps []Step
		for _, st := range states {
			if next, owed := st.OweSweep(now); owed {
				steps = append(steps, Step{From: st, To: next, Lazy: lazy})
			}
		}
		if len(steps) == 0 {
			return nil
		}
		stepped, err := store.Step(ctx, steps)
		if err != nil {
			return fmt.Errorf("owe a count of gaps: %w", err)
		}
		states = states[:0:0]
		for _, s := range stepped {
			if !s.Applied {
				states = append(states, s.State)
			}
		}
	}
	return nil
}
