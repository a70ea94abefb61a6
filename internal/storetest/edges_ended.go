package storetest

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// ended returns all edges that had ended by a time, read a few at a time.
func (h edgeStore) ended(t *testing.T, by time.Time) (edges []follow.Edge) {
	t.Helper()
	for place, n := "", 0; n == 0 || place != ""; n++ {
		require.Less(t, n, 100, "it comes to no end")
		some, next, err := h.Store.Ended(t.Context(), place, by, 3)
		require.NoError(t, err)
		require.LessOrEqual(t, len(some), 3)
		edges, place = append(edges, some...), next
	}
	return edges
}

func (h edgeStore) unfollow(t *testing.T, at time.Time, p follow.Pair) {
	t.Helper()
	require.NoError(t, h.Store.Unfollow(t.Context(), p, at))
}

func (s edgeSuite) count(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	for i := range 5 {
		h.follow(t, epoch, pair("ann", message.Source(fmt.Sprint("star", i))), pair("annie", "star0"))
	}
	h.follow(t, epoch, pair("ann", message.Topic("star").Source()), pair("ann", message.UserID("bob").Block()), pair("bob", "ann"))
	h.unfollow(t, later(1), pair("ann", "star3"))
	for limit, want := range map[int][]int{1: {0, 1, 1}, 6: {0, 6, 1}, 8: {0, 7, 1}} {
		got, err := h.Store.Count(t.Context(), []message.UserID{"an", "ann", "annie"}, limit)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func (s edgeSuite) endedEdges(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	require.Empty(t, h.ended(t, epoch.Add(time.Hour)))
	var want []follow.Edge
	for i := range 10 {
		p := pair(message.UserID(fmt.Sprint("fan", i)), message.Source(fmt.Sprint("star", i%3)))
		h.follow(t, epoch, p)
		until := epoch.Add(time.Duration(i) * time.Minute)
		if h.unfollow(t, until, p); i <= 5 {
			want = append(want, edge(p, follow.Span{Since: epoch, Until: until}))
		}
	}
	h.follow(t, epoch, pair("fan0", "moon"))
	h.follow(t, epoch.Add(time.Second), pair("fan1", "star1"))
	h.unfollow(t, epoch.Add(time.Hour), pair("fan1", "star1"))
	want = append(want[:1], want[2:]...)
	require.ElementsMatch(t, want, h.ended(t, epoch.Add(5*time.Minute)), "one is open, and one has a span that ended later")
}

func (s edgeSuite) removeEdges(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	stays, goes, again := pair("ann", "star"), pair("bob", "star"), pair("ann", "moon")
	for _, p := range []follow.Pair{stays, goes, again} {
		h.follow(t, epoch, p)
		h.unfollow(t, later(1), p)
	}
	found := h.ended(t, later(1))
	require.Len(t, found, 3)
	h.follow(t, later(2), stays)
	require.NoError(t, h.Store.Remove(t.Context(), nil))
	for range 2 {
		require.NoError(t, h.Store.Remove(t.Context(), found))
		h.requireEdge(t, edge(stays, follow.Span{Since: epoch, Until: later(1)}, follow.Span{Since: later(2)}))
		h.requireNoEdge(t, goes)
		h.requireNoEdge(t, again)
	}
	require.Empty(t, h.ended(t, later(100)))
	h.follow(t, later(3), again)
	h.requireEdge(t, edge(again, follow.Span{Since: later(3)}))
	require.NoError(t, h.Store.Remove(t.Context(), found), "what was read before")
	h.requireEdge(t, edge(again, follow.Span{Since: later(3)}))
}

// requireNoEdge demands that neither end knows an edge of the pair.
func (h edgeStore) requireNoEdge(t *testing.T, p follow.Pair) {
	t.Helper()
	got, err := h.Store.Get(t.Context(), []follow.Pair{p})
	require.NoError(t, err)
	require.Empty(t, got[0].Spans)
	followers, err := h.Store.Followers(t.Context(), p.Followee, partition.Of(p.Follower, h.Partitions), "", math.MaxInt32)
	require.NoError(t, err)
	for _, e := range followers {
		require.NotEqual(t, p.Follower, e.Follower)
	}
	following, err := h.Store.Following(t.Context(), p.Follower, "", math.MaxInt32)
	require.NoError(t, err)
	for _, e := range following {
		require.NotEqual(t, p.Followee, e.Followee)
	}
}

// removeBesideFollow lets users follow again while their edges are removed. Whoever was first, both ends know the new span.
func (s edgeSuite) removeBesideFollow(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	var pairs []follow.Pair
	for i := range 20 {
		pairs = append(pairs, pair(message.UserID(fmt.Sprint("fan", i)), "star"))
	}
	h.follow(t, epoch, pairs...)
	for _, p := range pairs {
		h.unfollow(t, later(1), p)
	}
	found := h.ended(t, later(1))
	require.Len(t, found, len(pairs))
	errs := make([]error, 2*len(pairs))
	var group sync.WaitGroup
	for i := range pairs {
		group.Go(func() { errs[2*i] = h.Store.Remove(t.Context(), found[i:i+1]) })
		group.Go(func() { _, errs[2*i+1] = h.Store.Follow(t.Context(), pairs[i:i+1], later(2)) })
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	edges, err := h.Store.Get(t.Context(), pairs)
	require.NoError(t, err)
	for _, e := range edges {
		require.True(t, e.Open(), "%v", e)
		h.requireEdge(t, e)
	}
}
