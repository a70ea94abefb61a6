package userstate

import (
	"slices"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Purge is a raise of the purge point, as it was counted.
type Purge struct {
	// Of is the state that was counted.
	Of State
	// To becomes the purge point. It is the last possible id of a millisecond, and above that of Of.
	To message.ID
	// Oldest becomes that of the state.
	Oldest uint32
	// Cuts has a count for each gap of Of that begins below To.
	Cuts []Cut
}

// Cut is the result of counting a gap into which the purge point rises.
type Cut struct {
	// Left is what is left of the gap, as Gap.Above returns it, and as it was counted. It is not counted if it is empty.
	Left GapCount
	// Expired counts the messages of the gap that are at or below the new purge point.
	Expired int64
}

// Purge returns the state with the higher purge point, and true. In the same step it cuts each gap to the part above the purge point,
// removes empty gaps, and lowers the read mark's numbers by the expired messages. It returns false if the purge point, the gaps or the read
// mark have changed since they were counted. Then the caller must count again.
//
// The number of a gap falls by at most what has expired, because a message may become visible in the gap after the count.
func (s State) Purge(p Purge) (State, bool) {
	if s.Purged != p.Of.Purged || !s.Purged.Less(p.To) || s.ReadMark != p.Of.ReadMark || !slices.EqualFunc(s.Gaps, p.Of.Gaps, Gap.Equal) {
		return s, false
	}
	gaps, mark, cuts := []Gap(nil), s.ReadMark, p.Cuts
	for i, was := range s.Gaps {
		left := was.Above(p.To)
		if left.After.Equal(was.After) {
			gaps = append(gaps, was)
			continue
		}
		if len(cuts) == 0 || !cuts[0].Left.After.Equal(left.After) || !cuts[0].Left.Before.Equal(left.Before) {
			return s, false
		}
		if left.Messages = 0; !left.Stretch().Empty() {
			left.Messages = max(cuts[0].Left.Messages, was.Messages-cuts[0].Expired)
			gaps = append(gaps, left)
		}
		if i < s.ReadMark.Gaps {
			mark = cutMark(mark, p.To, was, left, cuts[0])
		}
		cuts = cuts[1:]
	}
	s.Purged, s.Oldest, s.Gaps, s.ReadMark = p.To, max(s.Oldest, p.Oldest), gaps, mark
	return s, true
}

// cutMark returns a read mark after a gap that it lists was cut.
func cutMark(m bucket.ReadMark, purged message.ID, was, left Gap, cut Cut) bucket.ReadMark {
	switch {
	case !purged.Less(m.UpTo): // all that the mark covers has expired: see bucket.Counts
		m.InGap = 0
	case was.Stretch().Holds(m.UpTo):
		m.InGap = max(cut.Left.Read, m.InGap-cut.Expired)
	}
	if left.Stretch().Empty() {
		m.Gaps--
	}
	return m
}
