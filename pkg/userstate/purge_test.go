package userstate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// end returns the last possible id of a millisecond after the epoch.
func end(millis int) message.ID {
	return message.LastBefore(epoch.Add(time.Duration(millis+1) * ms))
}

// cutGaps counts the gaps that a purge cuts, as its caller does: sent has the milliseconds in which messages were sent.
func cutGaps(st userstate.State, to message.ID, sent []int) (cuts []userstate.Cut) {
	for _, gap := range st.Gaps {
		left := gap.Above(to)
		if left.Equal(gap) {
			continue
		}
		cut := userstate.Cut{Left: userstate.GapCount{Gap: left, UpTo: st.ReadMark.UpTo}}
		cut.Left.Messages = 0
		for _, n := range sent {
			id := message.MinID(epoch.Add(time.Duration(n) * ms)).Next()
			switch stretch := left.Stretch(); {
			case stretch.Holds(id):
				cut.Left.Messages++
				if stretch.Holds(st.ReadMark.UpTo) && !st.ReadMark.UpTo.Less(id) {
					cut.Left.Read++
				}
			case gap.Stretch().Holds(id):
				cut.Expired++
			}
		}
		cuts = append(cuts, cut)
	}
	return cuts
}

// TestPurgeCutsGaps compares purges, one after another, with the lists of the messages in the gaps.
func TestPurgeCutsGaps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const span = 12 // milliseconds
		sent := rapid.SliceOfN(rapid.IntRange(0, 3*span), 0, 20).Draw(t, "sent")
		st := seen(epoch.Add(day))
		upTo := rapid.IntRange(-1, 3*span).Draw(t, "up to")
		listed := rapid.IntRange(0, 3).Draw(t, "listed")
		const inSlots = 5
		st.ReadMark = bucket.ReadMark{UpTo: end(upTo), Gaps: listed, Read: inSlots}
		in := make([][]int, 3) // the messages of each gap
		for i := range 3 {
			first := i*span + rapid.IntRange(0, 4).Draw(t, "first")
			last := first + rapid.IntRange(0, 6).Draw(t, "length")
			gap := userstate.Gap{After: epoch.Add(time.Duration(first-1) * ms), Before: epoch.Add(time.Duration(last+1) * ms)}
			read := 0
			for _, n := range sent {
				if n < first || n > last {
					continue
				}
				in[i] = append(in[i], n)
				gap.Messages++
				if n <= upTo {
					read++
				}
			}
			if i < listed && gap.Stretch().Holds(st.ReadMark.UpTo) {
				st.ReadMark.InGap = int64(read)
			}
			st.Gaps = append(st.Gaps, gap)
		}
		for p := -1; p < 3*span; {
			p = rapid.IntRange(p+1, 3*span+2).Draw(t, "p")
			before := st
			next, ok := st.Purge(userstate.Purge{Of: st, To: end(p), Oldest: uint32(p), Cuts: cutGaps(st, end(p), sent)})
			require.True(t, ok)
			require.Equal(t, before, st, "what it was made of is as it was")
			st = next
			require.Equal(t, end(p), st.Purged)
			require.Equal(t, uint32(p), st.Oldest)
			requireGaps(t, st, in, listed, p, upTo, inSlots)
		}
	})
}

// requireGaps compares the gaps and what is read in them with the messages above p.
func requireGaps(t require.TestingT, st userstate.State, in [][]int, listed, p, upTo, inSlots int) {
	at, wantListed := 0, 0
	for i, messages := range in {
		var left, leftRead int64
		for _, n := range messages {
			if n > p {
				left++
				if n <= upTo {
					leftRead++
				}
			}
		}
		last := i*12 + 100
		if at < len(st.Gaps) {
			last = int(st.Gaps[at].Before.Sub(epoch)/ms) - 1
		}
		if last >= (i+1)*12 { // this one is gone
			require.Zero(t, left, "a gap is removed with messages in it")
			continue
		}
		gap := st.Gaps[at]
		require.Less(t, p, last, "a gap of which nothing is left is removed")
		require.False(t, gap.Stretch().After.Less(end(p)), "a gap begins above the purge point")
		require.Equal(t, left, gap.Messages)
		if i < listed {
			wantListed++
		} else {
			leftRead = 0
		}
		if p < upTo {
			require.Equal(t, leftRead, st.ReadMark.ReadIn(at, gap), "of gap %d", i)
		}
		at++
	}
	require.Len(t, st.Gaps, at)
	require.Equal(t, wantListed, st.ReadMark.Gaps, "the mark lists the gaps that are left of its gaps")
	require.EqualValues(t, inSlots, st.ReadMark.Read)
}

// A purge takes from the read mark what it counts of the part of a gap that is cut off.
func TestPurgeCutsWhatIsRead(t *testing.T) {
	t.Parallel()
	gap := userstate.Gap{After: epoch, Before: epoch.Add(10 * ms), Messages: 9}
	sent := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for name, test := range map[string]struct {
		mark, want bucket.ReadMark
	}{
		"in the gap": {
			bucket.ReadMark{UpTo: end(7), Gaps: 1, Read: 20, InGap: 7},
			bucket.ReadMark{UpTo: end(7), Gaps: 1, Read: 20, InGap: 3},
		},
		"above the gap":      {bucket.ReadMark{UpTo: end(70), Gaps: 1, Read: 20}, bucket.ReadMark{UpTo: end(70), Gaps: 1, Read: 20}},
		"older than the gap": {bucket.ReadMark{UpTo: end(7), Read: 20}, bucket.ReadMark{UpTo: end(7), Read: 20}},
		"all has expired": {
			bucket.ReadMark{UpTo: end(3), Gaps: 1, Read: 20, InGap: 3},
			bucket.ReadMark{UpTo: end(3), Gaps: 1, Read: 20},
		},
	} {
		st := seen(epoch.Add(day))
		st.Gaps, st.ReadMark = []userstate.Gap{gap}, test.mark
		next, ok := st.Purge(userstate.Purge{Of: st, To: end(4), Cuts: cutGaps(st, end(4), sent)})
		require.True(t, ok, name)
		require.Equal(t, test.want, next.ReadMark, name)
		require.EqualValues(t, 5, next.Gaps[0].Messages, name)
	}
}

// A purge applies only to what was counted.
func TestPurgeRefusesAnotherState(t *testing.T) {
	t.Parallel()
	at := func(h int) time.Time { return epoch.Add(time.Duration(h) * time.Hour) }
	counted := seen(epoch.Add(day))
	counted.Gaps = []userstate.Gap{{After: at(0), Before: at(5), Messages: 7}, {After: at(6), Before: at(9), Messages: 3}}
	counted.ReadMark = bucket.ReadMark{UpTo: message.MinID(at(7)), Gaps: 1}
	purge := userstate.Purge{Of: counted, To: message.LastBefore(at(3).Add(ms)), Cuts: []userstate.Cut{{
		Left: userstate.GapCount{Gap: userstate.Gap{After: at(3), Before: at(5), Messages: 4}, UpTo: counted.ReadMark.UpTo}, Expired: 3,
	}}}
	for name, test := range map[string]struct {
		change func(*userstate.State)
		ok     bool
	}{
		"as counted":            {func(*userstate.State) {}, true},
		"viewed":                {func(st *userstate.State) { st.LastViewed = st.LastViewed.Add(day) }, true},
		"rehydrating":           {func(st *userstate.State) { st.Mark = &userstate.Mark{} }, true},
		"counted again":         {func(st *userstate.State) { st.Gaps[0].Messages++ }, false},
		"another gap":           {func(st *userstate.State) { st.Gaps = append(st.Gaps, userstate.Gap{After: at(10), Before: at(11)}) }, false},
		"another read mark":     {func(st *userstate.State) { st.ReadMark.InGap++ }, false},
		"purged":                {func(st *userstate.State) { st.Purged = message.LastBefore(at(2)) }, false},
		"purged up to there":    {func(st *userstate.State) { st.Purged = purge.To }, false},
		"purged more than that": {func(st *userstate.State) { st.Purged = purge.To.Next() }, false},
	} {
		st := counted
		st.Gaps = append([]userstate.Gap(nil), counted.Gaps...)
		test.change(&st)
		next, ok := st.Purge(purge)
		require.Equal(t, test.ok, ok, name)
		if !ok {
			require.Equal(t, st, next, name)
			continue
		}
		require.Equal(t, []userstate.Gap{{After: at(3), Before: at(5), Messages: 4}, counted.Gaps[1]}, next.Gaps, name)
		require.Equal(t, purge.To, next.Purged, name)
	}
	purge.Of.Purged = purge.To
	_, ok := purge.Of.Purge(purge)
	require.False(t, ok, "a purge point only rises")
	purge.Of, purge.Cuts = counted, nil
	_, ok = counted.Purge(purge)
	require.False(t, ok, "a gap that was not counted")
}

// The number of a gap does not fall below what a later count found: see State.Purge.
func TestPurgeKeepsWhatWasCountedLater(t *testing.T) {
	t.Parallel()
	st := seen(epoch)
	gap := userstate.Gap{After: epoch, Before: epoch.Add(10 * ms), Messages: 6}
	st.Gaps = []userstate.Gap{gap}
	left := gap.Above(end(5))
	left.Messages = 3
	next, ok := st.Purge(userstate.Purge{Of: st, To: end(5), Cuts: []userstate.Cut{{Left: userstate.GapCount{Gap: left}, Expired: 2}}})
	require.True(t, ok)
	require.EqualValues(t, 4, next.Gaps[0].Messages)
}

// A worker decides again on a gap into which the purge point has risen meanwhile. Otherwise the gap would count messages that have expired.
func TestBoundAbovePurged(t *testing.T) {
	t.Parallel()
	gap := userstate.Gap{After: horizon, Before: horizon.Add(10 * ms), Messages: 3}
	for after, bounded := range map[time.Duration]bool{-ms: true, 0: true, ms: false, 20 * ms: false} {
		st := marked()
		st.Purged = message.LastBefore(horizon.Add(after + ms))
		got, ok := st.Bound("mine", &gap)
		require.True(t, ok)
		require.Equal(t, bounded, got.Mark.Bounded)
		if !bounded {
			require.Equal(t, st, got)
		}
	}
	st := marked()
	st.Purged = message.MaxID
	got, ok := st.Bound("mine", nil)
	require.True(t, ok)
	require.True(t, got.Mark.Bounded)
}
