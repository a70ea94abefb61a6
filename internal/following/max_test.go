package following_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// edgesOf returns whom a user follows, blocks and is subscribed to, now or in the past.
func (w *world) edgesOf(t *testing.T, user message.UserID) (of []message.Source) {
	t.Helper()
	edges, err := w.Edges.Following(t.Context(), user, "", 100)
	require.NoError(t, err)
	for _, e := range edges {
		of = append(of, e.Followee)
	}
	return of
}

// A user who has as many edges as is allowed has ended three. That in which a message was sent stays, and the others go when another edge
// needs room, but not before no message can appear in them.
func TestEndedEdgesMakeRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.MaxEdges = 4
	to := func(sources ...message.Source) (pairs []follow.Pair) {
		for _, s := range sources {
			pairs = append(pairs, follow.Pair{Follower: "ann", Followee: s})
		}
		return pairs
	}
	limit := func(sources ...message.Source) follow.RefusedError {
		refused := make(follow.RefusedError)
		for _, p := range to(sources...) {
			refused[p] = &follow.FullError{Pair: p, Max: 4}
		}
		return refused
	}
	blocked := message.UserID("cid").Block()
	service, ahead := w.Following(0), w.Following(time.Hour)
	require.NoError(t, service.Follow(t.Context(), to("author", "moon", "bob")))
	require.NoError(t, service.Block(t.Context(), to("cid")[0]))
	w.publish(t)
	w.Clock.Advance(time.Millisecond)
	for _, p := range to("author", "moon") {
		require.NoError(t, service.Unfollow(t.Context(), p))
	}
	require.NoError(t, service.Unblock(t.Context(), to("cid")[0]))
	require.Equal(t, limit("star"), service.Follow(t.Context(), append(to("star"), to("bob")...)))
	w.Clock.Advance(settle - time.Millisecond)
	require.Equal(t, limit("star"), ahead.Follow(t.Context(), to("star")), "the clocks disagree")
	require.Equal(t, limit("star"), service.Follow(t.Context(), to("star")))
	require.Equal(t, []message.Source{blocked, "author", "bob", "moon"}, w.edgesOf(t, "ann"))
	w.Clock.Advance(time.Millisecond)
	require.NoError(t, service.Follow(t.Context(), to("star")))
	require.Equal(t, []message.Source{"author", "bob", "star"}, w.edgesOf(t, "ann"))
	require.Equal(t, limit("venus"), service.Follow(t.Context(), to("sun", "venus")))
	require.Equal(t, limit(blocked), service.Block(t.Context(), to("cid")[0]))
	require.NoError(t, service.Follow(t.Context(), to("author")), "again")

	w.MaxEdges = 1
	lower := w.Following(0)
	for _, p := range to("author", "bob", "star", "sun") {
		require.NoError(t, lower.Unfollow(t.Context(), p))
	}
	w.Clock.Advance(settle)
	refused := follow.RefusedError{to("moon")[0]: &follow.FullError{Pair: to("moon")[0], Max: 1}}
	require.Equal(t, refused, lower.Follow(t.Context(), to("moon")), "too many were left")
	require.Equal(t, []message.Source{"author", "bob", "star", "sun"}, w.edgesOf(t, "ann"), "the first is needed")
}

// What ended long ago and is not needed makes room again for users who have more than is allowed by now.
func TestFewerEdgesAreAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var pairs []follow.Pair
	for _, s := range []message.Source{"a", "b", "c", "d", "e"} {
		pairs = append(pairs, follow.Pair{Follower: "ann", Followee: s})
	}
	require.NoError(t, w.Following(0).Follow(t.Context(), pairs[:4]))
	w.Clock.Advance(time.Millisecond)
	for _, p := range pairs[:4] {
		require.NoError(t, w.Following(0).Unfollow(t.Context(), p))
	}
	w.Clock.Advance(settle)
	w.MaxEdges = 2
	require.Error(t, w.Following(0).Follow(t.Context(), pairs[4:]))
	require.Equal(t, []message.Source{"c", "d"}, w.edgesOf(t, "ann"))
	require.NoError(t, w.Following(0).Follow(t.Context(), pairs[4:]))
	require.Equal(t, []message.Source{"e"}, w.edgesOf(t, "ann"))
}
