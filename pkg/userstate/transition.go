package userstate

import (
	"slices"
	"time"
)

// Arrive returns the state after the user has opened the inbox at the given time, which is cut to milliseconds. Neither LastViewed nor
// the horizon goes backwards. If the user is dormant now, Arrive sets a mark under the lease. It compares with now, not with at: a
// user who last looked long ago is dormant, like a user without a record. An existing mark does not change; it gets the lease if its
// own lease is dead.
//
// Each raise of the horizon leaves a debt in the same update, because fan-out may have skipped messages beyond
// the old horizon: the mark, or for an active user a sweep from the old horizon. A new sweep gets the lease. Its holder
// may Finish it at once if no message was sent since its begin. An existing sweep loses its worker, which has looked up to the old
// horizon only, and may owe a count of gaps. To save debts, a view of an active user raises the horizon only if that gains a part of
// DormantAfter.
func (r Rules) Arrive(s State, at, now time.Time, lease Lease) State {
	next := s
	if at = at.UTC().Truncate(time.Millisecond); at.After(s.LastViewed) {
		next.LastViewed = at
	}
	active := r.Active(s, now)
	var risen bool
	next.Horizon, risen = r.raise(s, at, active)
	switch {
	case s.Mark != nil:
		if r.Dead(now).Holds(s.Lease) {
			next.Lease = lease.since(s.Lease.Since)
		}
	case !active:
		next.Mark, next.Lease = &Mark{From: s.Horizon}, lease.cut()
	case risen:
		next.Sweep = s.sweepFrom(s.Horizon)
		if next.Lease = lease.cut(); s.Sweep != nil {
			next.Lease = untaken(s.Lease.Since)
		}
	}
	return next
}

// raise returns the horizon after a view at the given time, and whether it has risen. That of an active user rises only if that gains
// enough.
func (r Rules) raise(s State, at time.Time, active bool) (horizon time.Time, risen bool) {
	to := at.Add(r.DormantAfter).Truncate(time.Millisecond)
	if gain := to.Sub(s.Horizon); gain <= 0 || active && gain < r.DormantAfter/raiseParts {
		return s.Horizon, false
	}
	return to, true
}

// TakeOver returns the state under another lease, and true. If the state has no mark and no sweep, it returns false.
func (s State) TakeOver(lease Lease) (State, bool) {
	if s.Mark == nil && s.Sweep == nil {
		return s, false
	}
	s.Lease = lease.since(s.Lease.Since)
	return s, true
}

// Renew returns the state with the lease extended until the given time. It returns false if token does not hold the lease.
func (s State) Renew(token string, until time.Time) (State, bool) {
	if !s.holds(token) {
		return s, false
	}
	s.Lease.Until = until.UTC().Truncate(time.Millisecond)
	return s, true
}

// Bound returns the state after the worker has decided which messages it leaves to a gap; a nil gap means none. If the purge point has
// risen into the gap, Bound returns the state unchanged, and the worker must decide again. It returns false if
// token does not hold the lease, or if the state has no mark or was bounded before.
func (s State) Bound(token string, gap *Gap) (State, bool) {
	if !s.holds(token) || s.Mark == nil || s.Mark.Bounded {
		return s, false
	}
	if gap != nil && gap.Stretch().After.Less(s.Purged) {
		return s, true
	}
	s.Mark = &Mark{From: s.Mark.From, Bounded: true}
	if gap != nil {
		s.Gaps = append(slices.Clip(s.Gaps), *gap)
		s.GapsMade++
	}
	return s, true
}

// Settle returns the state with the mark replaced by a sweep, after the worker has recovered so many messages. The sweep begins where
// the mark began, or an existing sweep if that is earlier: no clock says which messages the worker could not see yet. Settle returns
// false if token does not hold the lease or the state has no mark.
func (s State) Settle(token string, recovered int64) (State, bool) {
	if !s.holds(token) || s.Mark == nil {
		return s, false
	}
	s.Sweep = s.sweepFrom(s.Mark.From)
	s.Mark, s.Recovered = nil, recovered
	return s, true
}

// Finish returns the state without its sweep, after the sweep has appended so many messages and has counted the messages of gaps as
// Count says. If the read mark was moved after the count, or a gap was cut, the sweep stays, and its holder must count again.
// Finish returns false if token does not hold the lease, or if the state has a mark or no sweep.
func (s State) Finish(token string, appended int64, counted []GapCount) (State, bool) {
	if !s.holds(token) || s.Mark != nil || s.Sweep == nil {
		return s, false
	}
	s.Recovered += appended
	if !slices.ContainsFunc(counted, s.outdated) {
		s.Sweep, s.Lease = nil, Lease{}
	}
	return s.Count(counted), true
}

// outdated reports whether the read mark was moved or the gap was cut after a count of the gap.
func (s State) outdated(c GapCount) bool {
	return c.UpTo != s.ReadMark.UpTo ||
		slices.ContainsFunc(s.Gaps, func(g Gap) bool { return g.Before.Equal(c.Before) && !g.After.Equal(c.After) })
}

// Count returns the state after the messages of gaps were counted. A count that is higher replaces that of the gap with the same ends,
// and the difference counts as recovered. The same holds for the number of read messages, if the read mark has the counted UpTo. So
// neither the order of counts matters nor a repetition.
func (s State) Count(counted []GapCount) State {
	s.Gaps = slices.Clone(s.Gaps)
	for i := range s.Gaps {
		for _, c := range counted {
			if !c.After.Equal(s.Gaps[i].After) || !c.Before.Equal(s.Gaps[i].Before) {
				continue
			}
			if more := c.Messages - s.Gaps[i].Messages; more > 0 {
				s.Gaps[i].Messages = c.Messages
				s.Recovered += more
			}
			if c.UpTo == s.ReadMark.UpTo {
				s.ReadMark.InGap = max(s.ReadMark.InGap, c.Read)
			}
		}
	}
	return s
}

// sweepFrom returns a sweep that begins at from, or at the begin of the existing sweep if that is earlier.
func (s State) sweepFrom(from time.Time) *Sweep {
	if s.Sweep != nil && s.Sweep.From.Before(from) {
		from = s.Sweep.From
	}
	return &Sweep{From: from}
}

func (s State) holds(token string) bool { return token != "" && s.Lease.Token == token }

// cut returns the lease with its times in UTC, cut to milliseconds.
func (l Lease) cut() Lease {
	l.Until, l.Since = l.Until.UTC().Truncate(time.Millisecond), l.Since.UTC().Truncate(time.Millisecond)
	return l
}

// since returns the lease for a rehydration that became due at t.
func (l Lease) since(t time.Time) Lease {
	l = l.cut()
	l.Since = t
	return l
}
