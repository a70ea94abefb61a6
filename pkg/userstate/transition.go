package userstate

import (
	"slices"
	"time"
)

// Arrive returns what becomes of a state when its user has looked at the given time, which is cut to milliseconds.
// Whether they were dormant is judged by now, and not by that time: somebody who looked long ago is as dormant as
// somebody who is not known. If so, a mark is set under the lease; a mark that is there keeps what it says and changes
// hands only if its lease is dead. LastViewed never goes backwards.
func (r Rules) Arrive(s State, at, now time.Time, lease Lease) State {
	next := s
	if at = at.UTC().Truncate(time.Millisecond); at.After(s.LastViewed) {
		next.LastViewed = at
	}
	switch {
	case s.Mark != nil:
		if s.Lease.Until.Before(now) {
			next.Lease = lease.since(s.Lease.Since)
		}
	case !r.Active(s, now):
		next.Mark, next.Lease = &Mark{From: r.Horizon(s)}, lease.cut()
	}
	return next
}

// TakeOver returns the state under another lease, if there is anything to be done.
func (s State) TakeOver(lease Lease) (State, bool) {
	if s.Mark == nil && s.Sweep == nil {
		return s, false
	}
	s.Lease = lease.since(s.Lease.Since)
	return s, true
}

// Renew returns the state with the lease of the token's holder renewed.
func (s State) Renew(token string, until time.Time) (State, bool) {
	if !s.holds(token) {
		return s, false
	}
	s.Lease.Until = until.UTC().Truncate(time.Millisecond)
	return s, true
}

// Bound returns the state with what is left to a gap decided by the token's holder: nothing if the gap is nil.
func (s State) Bound(token string, gap *Gap) (State, bool) {
	if !s.holds(token) || s.Mark == nil || s.Mark.Bounded {
		return s, false
	}
	s.Mark = &Mark{From: s.Mark.From, Bounded: true}
	if gap != nil {
		s.Gaps = append(slices.Clip(s.Gaps), *gap)
	}
	return s, true
}

// Settle returns the state with its mark turned into a sweep from the given time, or from that of a sweep that is
// there already, whichever is earlier; by the token's holder, who has found so many messages.
func (s State) Settle(token string, from time.Time, recovered int64) (State, bool) {
	if !s.holds(token) || s.Mark == nil {
		return s, false
	}
	from = from.UTC().Truncate(time.Millisecond)
	if s.Sweep != nil && s.Sweep.From.Before(from) {
		from = s.Sweep.From
	}
	s.Mark, s.Sweep, s.Recovered = nil, &Sweep{From: from}, recovered
	return s, true
}

// Finish returns the state with its sweep ended by the token's holder, who has found so many messages more.
func (s State) Finish(token string, recovered int64) (State, bool) {
	if !s.holds(token) || s.Mark != nil || s.Sweep == nil {
		return s, false
	}
	s.Sweep, s.Lease = nil, Lease{}
	s.Recovered += recovered
	return s, true
}

func (s State) holds(token string) bool { return token != "" && s.Lease.Token == token }

// cut returns the lease with its times as they are stored.
func (l Lease) cut() Lease {
	l.Until, l.Since = l.Until.UTC().Truncate(time.Millisecond), l.Since.UTC().Truncate(time.Millisecond)
	return l
}

// since returns the lease for a rehydration that has been due for longer.
func (l Lease) since(t time.Time) Lease {
	l = l.cut()
	l.Since = t
	return l
}
