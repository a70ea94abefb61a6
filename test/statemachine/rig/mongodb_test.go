//go:build mongodb

package rig_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestByCommand stops a call of three commands before each of them: the writes of the first two stay. The rest
// follows if the call continues, and never if the call dies.
func TestByCommand(t *testing.T) {
	t.Parallel()
	r, err := rig.OpenOn(t.Context(), rig.NewMongoDBByCommand(t), rig.NewClock(), nil, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	start := func(follower message.UserID) *rig.Actor {
		return rig.Start(t.Context(), rig.StallBefore, 0, func(ctx context.Context) error {
			_, err := r.Edges.Follow(ctx, []follow.Pair{{Follower: follower, Followee: "star"}}, rig.Epoch)
			return err
		})
	}
	// following reads what the second command writes. A read from the beginning would write it.
	following := func(follower message.UserID) int {
		edges, err := r.Edges.Following(t.Context(), follower, "a", 10)
		require.NoError(t, err)
		return len(edges)
	}
	ann, ben := start("ann"), start("ben")
	for n, want := range []int{0, 0, 1} { // before the operation, and before its second and its third command
		require.False(t, ann.Finished(), n)
		require.Equal(t, want, following("ann"), n)
		ann.Resume(rig.StallBefore, 0)
	}
	require.True(t, ann.Finished())
	require.NoError(t, ann.Err())

	ben.Resume(rig.StallBefore, 0)
	ben.Kill()
	require.True(t, ben.Died())
	require.ErrorIs(t, ben.Err(), rig.ErrDead)
	require.Zero(t, following("ben"), "the second command was not sent")
	edges, err := r.Edges.Get(t.Context(), []follow.Pair{{Follower: "ben", Followee: "star"}})
	require.NoError(t, err)
	require.Len(t, edges[0].Spans, 1, "the first one was")
}

// TestCrashOfMongoDB loses nothing, and gives each rig a database of its own.
func TestCrashOfMongoDB(t *testing.T) {
	t.Parallel()
	databases := rig.NewMongoDB(t)
	r, err := rig.OpenOn(t.Context(), databases, rig.NewClock(), nil, nil)
	require.NoError(t, err)
	pairs := []follow.Pair{{Follower: "ann", Followee: "star"}}
	want, err := r.Edges.Follow(t.Context(), pairs, rig.Epoch)
	require.NoError(t, err)
	again, err := r.Crash(t.Context(), 0, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, again.Close()) }()
	_, err = r.Edges.Get(t.Context(), pairs)
	require.Error(t, err, "whoever crashed is gone")
	got, err := again.Edges.Get(t.Context(), pairs)
	require.NoError(t, err)
	require.Equal(t, want, got)

	other, err := rig.OpenOn(t.Context(), databases, rig.NewClock(), nil, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	got, err = other.Edges.Get(t.Context(), pairs)
	require.NoError(t, err)
	require.Empty(t, got[0].Spans)
}
