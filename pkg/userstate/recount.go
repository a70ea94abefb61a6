package userstate

import (
	"slices"

	"github.com/fanmail/fanmail/pkg/bucket"
)

// A sweep only raises the numbers of gaps, because counts may arrive in any order. A number that is too high stays: for example, if a clock
// that was behind ended a span before messages that the gap counts. BeginRecount and EndRecount set such a number right. In between, the
// user has a sweep, whose token only this recount holds. A worker that leaves a message to a gap takes the token away (see OweSweep). So a
// recount never replaces a newer count.

// BeginRecount returns the state with a sweep under the lease, and true. If a rehydration is due or under way, BeginRecount returns false,
// because that rehydration has to count first.
func (s State) BeginRecount(lease Lease) (State, bool) {
	if s.Rehydrating() || !s.Known() {
		return s, false
	}
	s.Sweep, s.Lease = s.sweepFrom(s.Horizon), lease.cut() // nothing is missing in buckets
	return s, true
}

// Recount is the result of counting all gaps and what is read in them.
type Recount struct {
	// Of is the state that was counted.
	Of State
	// Gaps are those of Of, with the right numbers.
	Gaps []Gap
	// ReadMark is that of Of, with the right numbers.
	ReadMark bucket.ReadMark
}

// EndRecount returns the state with the numbers of a recount and without its sweep, and true. If the gaps or the read mark are not as they
// were counted, it returns the state unchanged, and the holder of the token must count again. It returns false if token does not hold the
// lease of a sweep.
func (s State) EndRecount(token string, c Recount) (State, bool) {
	switch {
	case !s.holds(token) || s.Mark != nil || s.Sweep == nil:
		return s, false
	case !slices.EqualFunc(s.Gaps, c.Of.Gaps, Gap.Equal) || s.ReadMark != c.Of.ReadMark:
		return s, true
	}
	s.Gaps, s.ReadMark = c.Gaps, c.ReadMark
	s.Sweep, s.Lease = nil, Lease{}
	return s, true
}
