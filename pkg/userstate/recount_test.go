package userstate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/userstate"
)

func TestBeginRecount(t *testing.T) {
	t.Parallel()
	st := seen(horizon)
	st.Gaps = swept().Gaps
	got, ok := st.BeginRecount(lease("mine", horizon))
	require.True(t, ok)
	require.Equal(t, &userstate.Sweep{From: st.Horizon}, got.Sweep, "nothing is missing in buckets")
	require.Equal(t, lease("mine", horizon), got.Lease)
	for name, busy := range map[string]userstate.State{"a mark": marked(), "a sweep": swept(), "no record": {User: "ann"}} {
		got, ok := busy.BeginRecount(lease("other", horizon))
		require.False(t, ok, name)
		require.Equal(t, busy, got, name)
	}
}

func TestEndRecount(t *testing.T) {
	t.Parallel()
	of := swept()
	c := userstate.Recount{Of: of, Gaps: []userstate.Gap{of.Gaps[0]}, ReadMark: of.ReadMark}
	c.Gaps[0].Messages, c.ReadMark.Read = 8, 3
	got, ok := of.EndRecount("mine", c)
	require.True(t, ok)
	want := of
	want.Gaps, want.ReadMark, want.Sweep, want.Lease = c.Gaps, c.ReadMark, nil, userstate.Lease{}
	require.Equal(t, want, got)

	seen := of
	seen.LastViewed = seen.LastViewed.Add(day)
	got, ok = seen.EndRecount("mine", c)
	require.True(t, ok)
	require.Nil(t, got.Sweep, "a view changes no number")

	for name, change := range map[string]func(*userstate.State){
		"a gap was raised":   func(s *userstate.State) { s.Gaps = []userstate.Gap{s.Gaps[0]}; s.Gaps[0].Messages++ },
		"a gap came":         func(s *userstate.State) { s.Gaps = append(s.Gaps[:1:1], s.Gaps[0]) },
		"the mark was moved": func(s *userstate.State) { s.ReadMark.Slots++ },
	} {
		changed := of
		change(&changed)
		got, ok := changed.EndRecount("mine", c)
		require.True(t, ok, name)
		require.Equal(t, changed, got, name)
	}
	for name, state := range map[string]userstate.State{"a mark": marked(), "finished": seen} {
		if name == "finished" {
			state.Sweep, state.Lease = nil, userstate.Lease{}
		}
		_, ok = state.EndRecount("mine", c)
		require.False(t, ok, name)
	}
	_, ok = of.EndRecount("other", c)
	require.False(t, ok)
}
