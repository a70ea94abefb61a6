package following_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// block is that the author blocks ann.
var block = follow.Pair{Follower: "author", Followee: "ann"}

// requireSpans requires that ann's edge to the author has so many spans, and that none is open.
func (w *world) requireSpans(t *testing.T, n int) {
	t.Helper()
	spans := w.spans(t)
	require.Len(t, spans, n)
	for _, s := range spans {
		require.False(t, s.Open())
	}
}

func TestBlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	service, both := w.Following(0), append(pair("ann"), block)
	for range 2 {
		require.NoError(t, service.Follow(t.Context(), both))
		w.Clock.Advance(time.Millisecond)
		require.NoError(t, service.Block(t.Context(), block))
		require.NoError(t, service.Block(t.Context(), block))
		require.Equal(t, follow.RefusedError{both[0]: &follow.BlockedError{Pair: both[0]}, both[1]: &follow.BlockedError{Pair: both[1]}},
			service.Follow(t.Context(), append(both, pair("bob")...)))
		blocks, err := service.Blocks(t.Context(), append(both, block))
		require.NoError(t, err)
		require.Equal(t, map[follow.Pair]bool{block: true, pair("ann")[0]: false}, blocks)
		edges, err := w.Edges.Get(t.Context(), append(both, pair("bob")...))
		require.NoError(t, err)
		require.Equal(t, []bool{false, false, true}, []bool{edges[0].Open(), edges[1].Open(), edges[2].Open()})
		require.NoError(t, service.Unblock(t.Context(), block))
		require.NoError(t, service.Unblock(t.Context(), block))
		w.Clock.Advance(time.Millisecond)
	}
	require.ErrorIs(t, service.Block(t.Context(), follow.Pair{Follower: "ann", Followee: "ann"}), follow.ErrSelf)
	require.ErrorIs(t, service.Unblock(t.Context(), follow.Pair{Follower: "ann", Followee: "a b"}), message.ErrInvalid)
}

// The record of a block has room for every block, because none of its spans is needed.
func TestBlocksAreNeverFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	service := w.Following(0)
	for range follow.MaxSpans + 1 {
		require.NoError(t, service.Block(t.Context(), block))
		w.Clock.Advance(time.Millisecond)
		require.NoError(t, service.Unblock(t.Context(), block))
	}
	require.NoError(t, service.Block(t.Context(), block))
	require.ErrorContains(t, service.Follow(t.Context(), pair("ann")), "ann cannot follow author, because one of them blocks the other")
	w.requireSpans(t, 0)
}

// A block and a follow run at the same time: one of them stops before any of its operations while the other runs. No edge is left, and a follow
// after a block opens no span.
func TestBlockWhileFollowing(t *testing.T) {
	t.Parallel()
	for before := range 6 {
		t.Run(fmt.Sprintf("the follow stops before operation %d", before), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			actor := w.follow(t, "ann", rig.StallBefore, before)
			require.NoError(t, w.Following(0).Block(t.Context(), block))
			actor.Resume(rig.None, 0)
			if before < 3 {
				require.ErrorAs(t, actor.Err(), new(*follow.BlockedError))
			}
			w.requireSpans(t, min(before, 1))
		})
		t.Run(fmt.Sprintf("the block stops before operation %d", before), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			require.NoError(t, w.Following(0).Follow(t.Context(), pair("ann")))
			w.Clock.Advance(time.Millisecond)
			require.NoError(t, w.Following(0).Unfollow(t.Context(), pair("ann")[0]))
			actor := rig.Start(t.Context(), rig.StallBefore, before, func(ctx context.Context) error { return w.Following(0).Block(ctx, block) })
			_ = w.Following(0).Follow(t.Context(), pair("ann"))
			actor.Resume(rig.None, 0)
			require.NoError(t, actor.Err())
			w.requireSpans(t, 2-min(before, 1))
		})
	}
}

// A follow dies between the span and its second look at the block. Its repetition ends the edge, and so does that of the block.
func TestBlockAfterADeath(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(context.Context, *world) error{
		"follow": func(ctx context.Context, w *world) error { return w.Following(0).Follow(ctx, pair("ann")) },
		"block":  func(ctx context.Context, w *world) error { return w.Following(0).Block(ctx, block) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			actor := w.follow(t, "ann", rig.StallBefore, 1)
			require.NoError(t, w.Following(0).Block(t.Context(), block))
			actor.Resume(rig.DieAfter, 0)
			require.Len(t, w.spans(t), 1)
			_ = again(t.Context(), w)
			w.requireSpans(t, 1)
		})
	}
}

func TestBlocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	service := w.Following(0)
	for _, user := range users(5) {
		require.NoError(t, service.Block(t.Context(), follow.Pair{Follower: "ann", Followee: user.Source()}))
	}
	require.NoError(t, service.Unblock(t.Context(), follow.Pair{Follower: "ann", Followee: "user-02"}))
	require.NoError(t, service.Follow(t.Context(), []follow.Pair{{Follower: "ann", Followee: "bob"}, {Follower: "ann", Followee: message.Topic("go").Source()}}))
	listed, next, err := service.Blocked(t.Context(), "ann", "", 2)
	require.NoError(t, err)
	require.Equal(t, []message.UserID{"user-00", "user-01"}, listed)
	listed, next, err = service.Blocked(t.Context(), "ann", next, 2)
	require.NoError(t, err)
	require.Equal(t, []message.UserID{"user-03", "user-04"}, listed)
	require.Empty(t, next)
}
