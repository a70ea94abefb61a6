package storetest

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

// subscription returns a user's subscription to the topic of a path that has a number.
func subscription(user message.UserID, path string, number topic.Number) follow.Subscription {
	return follow.Subscription{Pair: follow.Pair{Follower: user, Followee: message.Topic(path).Source()}, Number: number}
}

func numbered(e follow.Edge, number topic.Number) follow.Edge {
	e.Number = number
	return e
}

func (h edgeStore) subscribe(t *testing.T, at time.Time, subscriptions ...follow.Subscription) []follow.Edge {
	t.Helper()
	edges, err := h.Store.Subscribe(t.Context(), subscriptions, at)
	require.NoError(t, err)
	return edges
}

func (h edgeStore) end(t *testing.T, at time.Time, sub follow.Subscription) {
	t.Helper()
	require.NoError(t, h.Store.End(t.Context(), sub, at))
}

func (s edgeSuite) subscribeKeepsTheNumber(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	first, second := subscription("ann", "news/local", math.MaxInt64), subscription("ann", "news/local", 2)
	want := numbered(edge(first.Pair, follow.Span{Since: epoch}), math.MaxInt64)
	require.Equal(t, []follow.Edge{want}, h.subscribe(t, epoch, first))
	h.requireEdge(t, want)
	require.Equal(t, []follow.Edge{want}, h.subscribe(t, later(1), second), "an open span keeps its number")
	require.Equal(t, []follow.Edge{want}, h.follow(t, later(1), first.Pair))
	h.requireEdge(t, want)
	require.NoError(t, h.Store.Unfollow(t.Context(), first.Pair, later(2)), "whatever the number")
	ended := edge(first.Pair, follow.Span{Since: epoch, Until: later(2)})
	h.requireEdge(t, ended)
	want = numbered(edge(first.Pair, ended.Spans[0], follow.Span{Since: later(3)}), 2)
	require.Equal(t, []follow.Edge{want}, h.subscribe(t, later(3), second))
	h.requireEdge(t, want)
	require.Empty(t, h.subscribe(t, epoch))
}

func (s edgeSuite) endComparesTheNumber(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	sub, other := subscription("ann", "news", 1), subscription("ann", "news", 2)
	h.end(t, epoch, sub)
	want := h.subscribe(t, epoch, sub)[0]
	h.end(t, later(1), other)
	h.requireEdge(t, want)
	h.end(t, later(1), subscription("ann", "news/local", 1))
	h.end(t, later(1), subscription("bob", "news", 1))
	h.requireEdge(t, want)
	h.end(t, later(2), sub)
	ended := edge(sub.Pair, follow.Span{Since: epoch, Until: later(2)})
	h.requireEdge(t, ended)
	h.end(t, later(3), sub)
	h.requireEdge(t, ended)
	again := h.subscribe(t, later(4), other)[0]
	h.end(t, later(5), sub)
	h.requireEdge(t, again)
}

// besideAuthors has edges to topics and blocks beside edges to authors whose ids are as similar as can be.
func (s edgeSuite) besideAuthors(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	paths := []string{"a", "a!", "a/b", "a/b/c", "ab", "news"}
	users := []message.UserID{"a", "a!", "ab", "b", "news"}
	var topics, blocks, authors []follow.Edge
	for i, path := range paths {
		topics = append(topics, h.subscribe(t, later(i), subscription("zoë", path, topic.Number(i+1)))...)
	}
	for i, user := range users {
		blocks = append(blocks, h.follow(t, later(i+10), pair("zoë", user.Block()))...)
		authors = append(authors, h.follow(t, later(i+10), pair("zoë", user.Source()))...)
	}
	all := slices.Concat(topics, blocks, authors)
	for _, e := range all {
		h.requireEdge(t, e)
		followers, err := h.Store.Followers(t.Context(), e.Followee, partition.Of("zoë", h.Partitions), "", 10)
		require.NoError(t, err)
		require.Equal(t, []follow.Edge{e}, followers, "%s has no other follower", e.Followee)
	}
	for after := range len(all) + 1 {
		from := message.Source("")
		if after > 0 {
			from = all[after-1].Followee
		}
		following, err := h.Store.Following(t.Context(), "zoë", from, 3)
		require.NoError(t, err)
		require.Len(t, following, min(3, len(all)-after))
		for i, e := range following {
			require.Equal(t, all[after+i], e, "topics come first")
		}
	}
	for first, want := range map[message.Source][]follow.Edge{message.FirstBlock: slices.Concat(blocks, authors), message.FirstAuthor: authors} {
		following, err := h.Store.Following(t.Context(), "zoë", first, 10)
		require.NoError(t, err)
		require.Equal(t, want, following)
	}

	require.NoError(t, h.Store.Unfollow(t.Context(), follow.Pair{Follower: "zoë", Followee: topics[0].Followee}, later(20)))
	h = h.Reopen(t)
	for _, e := range all[1:] {
		h.requireEdge(t, e)
	}
	ended, _, err := h.Store.Ended(t.Context(), "", later(20), 100)
	require.NoError(t, err)
	require.Len(t, ended, 1)
	require.Equal(t, topics[0].Followee, ended[0].Followee)
	require.NoError(t, h.Store.Remove(t.Context(), ended))
	got, err := h.Store.Get(t.Context(), []follow.Pair{{Follower: "zoë", Followee: ended[0].Followee}})
	require.NoError(t, err)
	require.Empty(t, got[0].Spans)
	for _, e := range all[1:] {
		h.requireEdge(t, e)
	}
}

// subscribeConcurrently lets callers subscribe a user to a topic that is deleted and created again. All are told of the number that the span has.
func (s edgeSuite) subscribeConcurrently(t *testing.T) {
	t.Parallel()
	const callers = 8
	h := s.open(t)
	got := make([][]follow.Edge, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			subs := []follow.Subscription{subscription("ann", "news", topic.Number(i+1)), subscription("ann", fmt.Sprint("other/", i), 9)}
			got[i], errs[i] = h.Store.Subscribe(t.Context(), subs, later(i))
		})
	}
	wg.Wait()
	for i := range callers {
		require.NoError(t, errs[i])
		require.Equal(t, got[0][0], got[i][0])
	}
	since := got[0][0].Spans[0].Since
	require.Equal(t, later(int(got[0][0].Number)-1), since, "the number belongs to the span")
	h.requireEdge(t, got[0][0])
}
