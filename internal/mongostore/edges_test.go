//go:build mongodb

package mongostore_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// dying returns a context that ends just before the nth command that writes to the database is sent, as if its host went down then.
func dying(t *testing.T, opts *mongostore.Options, n int64) (context.Context, *atomic.Int64) {
	t.Helper()
	ctx, die := context.WithCancel(t.Context())
	t.Cleanup(die)
	var writes atomic.Int64
	watched := opts.Monitor.Started
	opts.Monitor = &event.CommandMonitor{Started: func(ctx context.Context, e *event.CommandStartedEvent) {
		watched(ctx, e)
		if e.CommandName == "update" && writes.Add(1) == n {
			die()
		}
	}}
	return ctx, &writes
}

// TestEdgesSurviveDeathBetweenWrites lets a call die before each of its writes. What it has left behind is either nothing or an edge
// that is the same from both ends as soon as fan-out, the follower, or anybody who asks for it, has passed it.
func TestEdgesSurviveDeathBetweenWrites(t *testing.T) {
	t.Parallel()
	at := messagetest.Epoch
	ended := follow.Span{Since: at, Until: at.Add(time.Hour)}
	edge := func(spans ...follow.Span) follow.Edge { return follow.Edge{Spans: spans} }
	followed := func(ctx context.Context, edges *mongostore.Edges, pair follow.Pair) error {
		_, err := edges.Follow(ctx, []follow.Pair{pair}, at)
		return err
	}
	unfollowed := func(ctx context.Context, edges *mongostore.Edges, pair follow.Pair) error {
		return edges.Unfollow(ctx, pair, ended.Until)
	}
	refollowed := func(ctx context.Context, edges *mongostore.Edges, pair follow.Pair) error {
		_, err := edges.Follow(ctx, []follow.Pair{pair}, at.Add(2*time.Hour))
		return err
	}
	type change func(context.Context, *mongostore.Edges, follow.Pair) error
	other, shared := create(t) // with users of its own for each case
	cases := 0
	for name, test := range map[string]struct {
		before        []change
		call          change
		without, with follow.Edge
		first         int // which of its writes is the first that changes something
	}{
		"Follow":       {nil, followed, edge(), edge(follow.Span{Since: at}), 1},
		"Unfollow":     {[]change{followed}, unfollowed, edge(follow.Span{Since: at}), edge(ended), 1},
		"Follow again": {[]change{followed, unfollowed}, refollowed, edge(ended), edge(ended, follow.Span{Since: at.Add(2 * time.Hour)}), 2},
	} {
		writes := test.first + 2
		for n := range writes + 1 {
			for _, passing := range []string{"fan-out", "the follower", "a reader", "the same call"} {
				cases++
				pair := follow.Pair{Follower: message.UserID(fmt.Sprintf("ann-%d", cases)), Followee: message.UserID(fmt.Sprintf("bob-%d", cases)).Source()}
				t.Run(fmt.Sprintf("%s dies before write %d, then %s passes", name, n+1, passing), func(t *testing.T) {
					t.Parallel()
					opts := shared
					for _, call := range test.before {
						require.NoError(t, call(t.Context(), other.Edges(), pair))
					}
					ctx, written := dying(t, &opts, int64(n+1))
					err := test.call(ctx, open(t, opts).Edges(), pair)
					require.Equal(t, n == writes, err == nil, "a call that did not make all its writes has failed: %v", err)
					require.EqualValues(t, min(n+1, writes), written.Load())

					want := test.without
					if n >= test.first {
						want = test.with
					}
					if n == test.first {
						half, err := raw(t, opts).Collection("following").CountDocuments(t.Context(),
							bson.D{{Key: "follower", Value: pair.Follower}, {Key: "revision", Value: len(test.before) + 1}})
						require.NoError(t, err)
						require.Zero(t, half, "the other direction must not have the change yet")
					}
					switch passing {
					case "fan-out":
						require.Equal(t, spans(want), spans(followers(t, other, pair)...))
					case "the follower":
						require.Equal(t, spans(want), spans(following(t, other, pair)...))
					case "a reader":
						got, err := other.Edges().Get(t.Context(), []follow.Pair{pair})
						require.NoError(t, err)
						require.Equal(t, spans(want), spans(got...))
					case "the same call":
						want = test.with
						require.NoError(t, test.call(t.Context(), other.Edges(), pair))
					}
					require.Equal(t, spans(want), spans(following(t, other, pair)...))
					require.Equal(t, spans(want), spans(followers(t, other, pair)...))
					left, err := raw(t, opts).Collection("followers").CountDocuments(t.Context(), bson.D{{Key: "follower", Value: pair.Follower}, {Key: "pending", Value: true}})
					require.NoError(t, err)
					require.Zero(t, left, "no edge is pending any more")
				})
			}
		}
	}
}

// halfWritten lets a follow by ann die when only the first half of each of its edges is written.
func halfWritten(t *testing.T, opts mongostore.Options, followees ...message.UserID) {
	t.Helper()
	ctx, _ := dying(t, &opts, 2)
	pairs := make([]follow.Pair, len(followees))
	for i, followee := range followees {
		pairs[i] = follow.Pair{Follower: "ann", Followee: followee.Source()}
	}
	_, err := open(t, opts).Edges().Follow(ctx, pairs, messagetest.Epoch)
	require.ErrorIs(t, err, context.Canceled)
}

// TestNoEdgeSlipsThroughFollowing completes a pending edge between the two queries of a reader: the edge is found, whichever of its
// writes come before, between and after them.
func TestNoEdgeSlipsThroughFollowing(t *testing.T) {
	t.Parallel()
	other, opts := create(t)
	halfWritten(t, opts, "bob")
	queries := 0
	watched := opts.Monitor.Started
	opts.Monitor = &event.CommandMonitor{Started: func(ctx context.Context, e *event.CommandStartedEvent) {
		watched(ctx, e)
		if e.CommandName != "find" {
			return
		}
		if queries++; queries == 2 {
			require.Len(t, followers(t, other, follow.Pair{Follower: "ann", Followee: "bob"}), 1, "fan-out passes the edge, and completes it")
		}
	}}
	reader := open(t, opts)
	queries = 0
	require.Len(t, following(t, reader, follow.Pair{Follower: "ann"}), 1)
	require.Equal(t, 2, queries)
}

// TestFollowingCosts counts commands. Pending edges cost one query for a list from its beginning, and nothing for what follows.
func TestFollowingCosts(t *testing.T) {
	t.Parallel()
	db, opts, meter := metered(t, nil)
	edges := db.Edges()
	_, err := edges.Follow(t.Context(), []follow.Pair{{Follower: "ann", Followee: "bob"}, {Follower: "ann", Followee: "cid"}}, messagetest.Epoch)
	require.NoError(t, err)
	costs := func(after message.UserID, edgesFound int) cost {
		t.Helper()
		meter.take()
		found, err := edges.Following(t.Context(), "ann", after.Source(), 10)
		require.NoError(t, err)
		require.Len(t, found, edgesFound)
		return meter.take()
	}
	require.Equal(t, cost{Finds: 2, Documents: 2}, costs("", 2))
	require.Equal(t, cost{Finds: 1, Documents: 1}, costs("bob", 1))

	halfWritten(t, opts, "dan", "eve")
	require.Equal(t, cost{Finds: 1, Documents: 1}, costs("bob", 1), "a page further on leaves pending edges alone")
	require.Equal(t, cost{Finds: 2, Documents: 2 + 4, Updates: 2}, costs("", 4), "two edges are completed together")
	require.Equal(t, cost{Finds: 2, Documents: 4}, costs("", 4), "and once")
}

// spans returns the spans of an edge, or of none.
func spans(edges ...follow.Edge) []follow.Span {
	if len(edges) == 0 || len(edges[0].Spans) == 0 {
		return nil
	}
	return edges[0].Spans
}

func followers(t *testing.T, db *mongostore.DB, pair follow.Pair) []follow.Edge {
	t.Helper()
	edges, err := db.Edges().Followers(t.Context(), pair.Followee, partition.Of(pair.Follower, partitions), "", 10)
	require.NoError(t, err)
	return edges
}

func following(t *testing.T, db *mongostore.DB, pair follow.Pair) []follow.Edge {
	t.Helper()
	edges, err := db.Edges().Following(t.Context(), pair.Follower, "", 10)
	require.NoError(t, err)
	return edges
}

// TestFollowersInRanges goes through a large audience in pages, over and over while it grows, from places that are not those of the
// last time too.
func TestFollowersInRanges(t *testing.T) {
	t.Parallel()
	const page, audience = 1000, 4500
	db, opts := create(t)
	var ids []message.UserID
	for i := 0; len(ids) < audience+500; i++ {
		if user := message.UserID(fmt.Sprintf("user-%06d", i)); partition.Of(user, partitions) == 3 {
			ids = append(ids, user)
		}
	}
	late, ids := ids[:500], ids[500:] // those who come late are before all others
	followAll := func(users []message.UserID) {
		pairs := make([]follow.Pair, len(users))
		for i, user := range users {
			pairs[i] = follow.Pair{Follower: user, Followee: "star"}
		}
		_, err := db.Edges().Follow(t.Context(), pairs, messagetest.Epoch)
		require.NoError(t, err)
	}
	followAll(ids)
	var ranges atomic.Int64
	watched := opts.Monitor.Started
	opts.Monitor = &event.CommandMonitor{Started: func(ctx context.Context, e *event.CommandStartedEvent) {
		watched(ctx, e)
		if end := e.Command.Lookup("filter", "follower", "$lte"); !end.IsZero() {
			ranges.Add(1)
		}
	}}
	edges := open(t, opts).Edges()
	from := func(after message.UserID, limit int) (got []message.UserID) {
		for {
			list, err := edges.Followers(t.Context(), "star", 3, after, limit)
			require.NoError(t, err)
			for _, e := range list {
				got = append(got, e.Follower)
			}
			if len(list) < limit {
				return got
			}
			after = got[len(got)-1]
		}
	}
	require.Equal(t, ids, from("", page))
	require.Zero(t, ranges.Load(), "nothing is known of where pages end")
	require.Equal(t, ids, from("", page))
	require.Positive(t, ranges.Load())
	require.Equal(t, ids[1701:], from(ids[1700], page))
	followAll(late)
	all := slices.Concat(late, ids)
	for _, limit := range []int{page, 300, 2500, audience, 10 * audience} {
		require.Equal(t, all, from("", limit), limit)
		require.Equal(t, all[777:], from(all[776], limit), limit)
	}
}
