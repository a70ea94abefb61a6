package userstate_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// TestFinishCountsGaps requires that a count replaces a lower one of the same gap, and nothing else.
func TestFinishCountsGaps(t *testing.T) {
	t.Parallel()
	st := swept()
	other := userstate.Gap{After: epoch, Before: epoch.Add(day), Messages: 4}
	st.Gaps = append(st.Gaps, other)
	higher, lower, cut := st.Gaps[0], other, st.Gaps[0]
	higher.Messages, lower.Messages, cut.Messages = 11, 3, 20
	cut.After = cut.After.Add(ms)
	before := slices.Clone(st.Gaps)
	got, ok := st.Finish("mine", 2, []userstate.GapCount{{Gap: cut}, {Gap: lower}, {Gap: higher}})
	require.True(t, ok)
	require.Equal(t, []userstate.Gap{higher, other}, got.Gaps)
	require.Equal(t, st.Recovered+2+2, got.Recovered, "what a gap has gained is recovered, too")
	require.Equal(t, before, st.Gaps, "what it was made of is as it was")
}

// A count also raises the number of the read mark, if it was made by that mark. Otherwise the sweep has to count again.
func TestFinishCountsWhatIsRead(t *testing.T) {
	t.Parallel()
	gap := swept().Gaps[0]
	upTo, other := message.MinID(gap.After.Add(time.Hour)), message.MinID(gap.After.Add(2*time.Hour))
	gap.Messages = 11
	for name, test := range map[string]struct {
		mark        bucket.ReadMark
		counted     userstate.GapCount
		inGap       int64
		cut, sweeps bool // whether the gap was cut meanwhile, and whether the sweep remains
	}{
		"more":                    {mark: bucket.ReadMark{UpTo: upTo, Gaps: 1, InGap: 3}, counted: userstate.GapCount{Gap: gap, UpTo: upTo, Read: 4}, inGap: 4},
		"fewer":                   {mark: bucket.ReadMark{UpTo: upTo, Gaps: 1, InGap: 3}, counted: userstate.GapCount{Gap: gap, UpTo: upTo, Read: 2}, inGap: 3},
		"by another mark":         {mark: bucket.ReadMark{UpTo: other, Gaps: 1, InGap: 3}, counted: userstate.GapCount{Gap: gap, UpTo: upTo, Read: 4}, inGap: 3, sweeps: true},
		"of a gap that was cut":   {mark: bucket.ReadMark{UpTo: upTo, Gaps: 1, InGap: 3}, counted: userstate.GapCount{Gap: gap, UpTo: upTo, Read: 4}, inGap: 3, cut: true, sweeps: true},
		"before there was a mark": {mark: bucket.ReadMark{UpTo: upTo, Gaps: 1}, counted: userstate.GapCount{Gap: gap}, sweeps: true},
	} {
		st, want := swept(), int64(11)
		st.ReadMark = test.mark
		if test.cut {
			st.Gaps[0].After, want = st.Gaps[0].After.Add(ms), 9
		}
		got, ok := st.Finish("mine", 0, []userstate.GapCount{test.counted})
		require.True(t, ok, name)
		require.Equal(t, want, got.Gaps[0].Messages, name)
		require.Equal(t, test.sweeps, got.Sweep != nil, name)
		require.Equal(t, test.sweeps, got.Lease.Token == "mine", name)
		test.mark.InGap = test.inGap
		require.Equal(t, test.mark, got.ReadMark, name)
	}
}
