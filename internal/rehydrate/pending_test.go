//go:build mongodb

package rehydrate_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// TestLoginFindsAPendingEdge lets a follow die when half of its edge is written. Ann returns before fan-out reaches her with an old
// message. Fan-out completes the edge, and leaves the message to her rehydration, which has read her edges by then. The sweep reads
// them again, and does not look for messages that old.
func TestLoginFindsAPendingEdge(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, rig.NewMongoDBByCommand(t))
	since := w.now()
	_, err := w.Edges.Follow(t.Context(), []follow.Pair{{Follower: "twin", Followee: "star"}}, since)
	require.NoError(t, err)
	dying := rig.Start(t.Context(), rig.StallBefore, 0, func(ctx context.Context) error {
		_, err := w.Edges.Follow(ctx, []follow.Pair{{Follower: "ann", Followee: "star"}}, since)
		return err
	})
	dying.Resume(rig.StallBefore, 0) // before its second command, which writes the other half
	dying.Kill()
	require.True(t, dying.Died())

	w.Clock.Advance(rig.DormantAfter + time.Minute)
	m := w.storeFrom(t, "star", w.now())
	w.Clock.Advance(3 * rig.Slack)
	s := w.Rehydrator(0, 0)
	w.login(t, s)
	attempt := w.work(t, s, rig.StallBefore, changes, 0)
	w.fanOut(t, m)
	attempt.Resume(rig.None, 0)
	require.NoError(t, attempt.Err())
	w.rest(t, s)
	require.EqualValues(t, 1, w.State(t.Context(), t, "ann").Recovered)
}
