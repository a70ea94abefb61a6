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
)

// edgeStore is the follow.Store of an opened database.
type edgeStore struct {
	Store      follow.Store
	Partitions int
	Reopen     func(t *testing.T) edgeStore
}

type edgeSuite struct{ backend Backend }

// open returns the store of a new, empty database.
func (s edgeSuite) open(t *testing.T) edgeStore {
	t.Helper()
	return s.of(s.backend.New(t))
}

func (s edgeSuite) of(db Database) edgeStore {
	return edgeStore{
		Store: db.Edges, Partitions: s.backend.Partitions,
		Reopen: func(t *testing.T) edgeStore { t.Helper(); return s.of(db.Reopen(t)) },
	}
}

// run tests a backend's follow.Store.
func (s edgeSuite) run(t *testing.T) {
	t.Helper()
	t.Run("Follow/opens a span seen from both ends", s.follow)
	t.Run("Follow/returns edges in the order of pairs", s.followReturnsInOrder)
	t.Run("Follow/leaves an open edge as it is", s.followIsIdempotent)
	t.Run("Follow/again opens another span", s.followAgain)
	t.Run("Follow/by a clock that lags begins where the last span ended", s.followByLaggingClock)
	t.Run("Follow/cuts times to milliseconds in UTC", s.followCutsTimes)
	t.Run("Follow/of one edge by many opens one span", s.followConcurrently)
	t.Run("Follow/of many edges to one followee loses none", s.followOneFolloweeConcurrently)
	t.Run("Unfollow/ends the open span", s.unfollow)
	t.Run("Unfollow/of what is not followed changes nothing", s.unfollowNothing)
	t.Run("Unfollow/never ends a span before it began", s.unfollowByLaggingClock)
	t.Run("DropSpans/leaves the other spans and the newest", s.dropSpans)
	t.Run("Follow and Unfollow/by many keep the spans in order", s.followAndUnfollowConcurrently)
	t.Run("Followers/ascend above after up to limit in one partition", s.followers)
	t.Run("Audience/has every edge to any followee up to limit", s.audience)
	t.Run("Following/ascends above after up to limit", s.following)
	t.Run("Count/has every edge of each follower up to limit", s.count)
	t.Run("Ended/finds those that had ended by a time", s.endedEdges)
	t.Run("Remove/of edges that have not changed", s.removeEdges)
	t.Run("Remove/beside those who follow again", s.removeBesideFollow)
	t.Run("Users/with similar ids are kept apart", s.similarIDs)
	t.Run("Subscribe/opens a span with a number", s.subscribeKeepsTheNumber)
	t.Run("Subscribe/of one edge by many keeps one number", s.subscribeConcurrently)
	t.Run("End/of a span with this number only", s.endComparesTheNumber)
	t.Run("Topics/and authors with similar names are kept apart", s.besideAuthors)
	t.Run("Reopen/keeps edges in both directions", s.reopen)
}

func pair(follower message.UserID, followee message.Source) follow.Pair {
	return follow.Pair{Follower: follower, Followee: followee}
}

func edge(p follow.Pair, spans ...follow.Span) follow.Edge {
	return follow.Edge{Follower: p.Follower, Followee: p.Followee, Spans: spans}
}

// requireEdge demands that both ends know exactly that edge of the pair.
func (h edgeStore) requireEdge(t *testing.T, want follow.Edge) {
	t.Helper()
	got, err := h.Store.Get(t.Context(), []follow.Pair{pair("nobody", want.Followee), pair(want.Follower, want.Followee)})
	require.NoError(t, err)
	require.Equal(t, []follow.Edge{edge(pair("nobody", want.Followee)), want}, got, "got by its pair, after one that never was")
	followers, err := h.Store.Followers(t.Context(), want.Followee, partition.Of(want.Follower, h.Partitions), "", math.MaxInt32)
	require.NoError(t, err)
	require.Contains(t, followers, want, "among the followers")
	following, err := h.Store.Following(t.Context(), want.Follower, "", math.MaxInt32)
	require.NoError(t, err)
	require.Contains(t, following, want, "among those followed")
}

func (h edgeStore) follow(t *testing.T, at time.Time, pairs ...follow.Pair) []follow.Edge {
	t.Helper()
	edges, err := h.Store.Follow(t.Context(), pairs, at)
	require.NoError(t, err)
	return edges
}

func (s edgeSuite) follow(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	p := pair("ann", "bob")
	want := edge(p, follow.Span{Since: epoch})
	require.Equal(t, []follow.Edge{want}, h.follow(t, epoch, p))
	h.requireEdge(t, want)
	back, err := h.Store.Following(t.Context(), "bob", "", 10)
	require.NoError(t, err)
	require.Empty(t, back, "an edge has a direction")
	require.Empty(t, h.follow(t, epoch), "nothing to follow")
}

func (s edgeSuite) followReturnsInOrder(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.follow(t, epoch, pair("mia", "star"))
	later := epoch.Add(time.Second)
	got := h.follow(t, later, pair("zoe", "star"), pair("mia", "star"), pair("ann", "moon"), pair("ann", "bob"))
	require.Equal(t, []follow.Edge{
		edge(pair("zoe", "star"), follow.Span{Since: later}),
		edge(pair("mia", "star"), follow.Span{Since: epoch}),
		edge(pair("ann", "moon"), follow.Span{Since: later}),
		edge(pair("ann", "bob"), follow.Span{Since: later}),
	}, got)
	for _, e := range got {
		h.requireEdge(t, e)
	}
}

func (s edgeSuite) followIsIdempotent(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	p := pair("ann", "bob")
	first := h.follow(t, epoch, p)
	require.Equal(t, first, h.follow(t, epoch.Add(time.Hour), p))
	require.Equal(t, first, h.follow(t, epoch.Add(-time.Hour), p))
	h.requireEdge(t, first[0])
}

func (s edgeSuite) followAgain(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	p := pair("ann", "bob")
	var spans []follow.Span
	for i := range 3 {
		since, until := epoch.Add(time.Duration(2*i)*time.Hour), epoch.Add(time.Duration(2*i+1)*time.Hour)
		got := h.follow(t, since, p)
		require.Equal(t, append(slices.Clone(spans), follow.Span{Since: since}), got[0].Spans)
		require.NoError(t, h.Store.Unfollow(t.Context(), p, until))
		spans = append(spans, follow.Span{Since: since, Until: until})
		h.requireEdge(t, edge(p, spans...))
	}
}

func (s edgeSuite) followByLaggingClock(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	p := pair("ann", "bob")
	h.follow(t, epoch, p)
	ended := epoch.Add(time.Hour)
	require.NoError(t, h.Store.Unfollow(t.Context(), p, ended))
	want := edge(p, follow.Span{Since: epoch, Until: ended}, follow.Span{Since: ended})
	require.Equal(t, []follow.Edge{want}, h.follow(t, epoch.Add(time.Minute), p))
	h.requireEdge(t, want)
}

func (s edgeSuite) followCutsTimes(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	p := pair("ann", "bob")
	east := time.FixedZone("east", 3600)
	got := h.follow(t, epoch.Add(1999*time.Microsecond).In(east), p)
	require.Equal(t, []follow.Span{{Since: epoch.Add(time.Millisecond)}}, got[0].Spans)
	require.NoError(t, h.Store.Unfollow(t.Context(), p, epoch.Add(2999*time.Microsecond).In(east)))
	h.requireEdge(t, edge(p, follow.Span{Since: epoch.Add(time.Millisecond), Until: epoch.Add(2 * time.Millisecond)}))
}

func (s edgeSuite) followConcurrently(t *testing.T) {
	t.Parallel()
	const callers = 8
	h := s.open(t)
	p := pair("ann", "bob")
	got := make([][]follow.Edge, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			at := epoch.Add(time.Duration(i) * time.Second)
			got[i], errs[i] = h.Store.Follow(t.Context(), []follow.Pair{p, pair("ann", message.Source(fmt.Sprint("other-", i)))}, at)
		})
	}
	wg.Wait()
	for i := range callers {
		require.NoError(t, errs[i])
		require.Equal(t, got[0][0], got[i][0], "all are told of the same span")
	}
	require.Len(t, got[0][0].Spans, 1)
	h.requireEdge(t, got[0][0])
}

func (s edgeSuite) followOneFolloweeConcurrently(t *testing.T) {
	t.Parallel()
	const callers, each = 8, 25
	h := s.open(t)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			var pairs []follow.Pair
			for n := range each {
				pairs = append(pairs, pair(message.UserID(fmt.Sprintf("fan-%d-%d", i, n)), "star"))
			}
			_, errs[i] = h.Store.Follow(t.Context(), pairs, epoch)
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	count := 0
	for part := range h.Partitions {
		edges, err := h.Store.Followers(t.Context(), "star", part, "", math.MaxInt32)
		require.NoError(t, err)
		count += len(edges)
	}
	require.Equal(t, callers*each, count)
}

func (s edgeSuite) unfollow(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	p := pair("ann", "bob")
	h.follow(t, epoch, p)
	want := edge(p, follow.Span{Since: epoch, Until: epoch.Add(time.Hour)})
	require.NoError(t, h.Store.Unfollow(t.Context(), p, epoch.Add(time.Hour)))
	h.requireEdge(t, want)
	require.NoError(t, h.Store.Unfollow(t.Context(), p, epoch.Add(2*time.Hour)))
	h.requireEdge(t, want)
}

func (s edgeSuite) unfollowNothing(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	require.NoError(t, h.Store.Unfollow(t.Context(), pair("ann", "bob"), epoch))
	following, err := h.Store.Following(t.Context(), "ann", "", 10)
	require.NoError(t, err)
	require.Empty(t, following)
	followers, err := h.Store.Followers(t.Context(), "bob", partition.Of("ann", h.Partitions), "", 10)
	require.NoError(t, err)
	require.Empty(t, followers)
}

func (s edgeSuite) unfollowByLaggingClock(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	p := pair("ann", "bob")
	h.follow(t, epoch, p)
	require.NoError(t, h.Store.Unfollow(t.Context(), p, epoch.Add(-time.Hour)))
	h.requireEdge(t, edge(p, follow.Span{Since: epoch, Until: epoch}))
}

func (s edgeSuite) followAndUnfollowConcurrently(t *testing.T) {
	t.Parallel()
	const callers, rounds = 4, 10
	h := s.open(t)
	p := pair("ann", "bob")
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for round := range rounds {
				at := epoch.Add(time.Duration(round) * time.Second)
				if _, err := h.Store.Follow(t.Context(), []follow.Pair{p}, at); err != nil {
					errs[i] = err
				}
				if err := h.Store.Unfollow(t.Context(), p, at.Add(time.Millisecond)); err != nil {
					errs[i] = err
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	following, err := h.Store.Following(t.Context(), "ann", "", 10)
	require.NoError(t, err)
	require.Len(t, following, 1)
	spans := following[0].Spans
	require.NotEmpty(t, spans)
	require.LessOrEqual(t, len(spans), callers*rounds)
	for i, span := range spans {
		require.False(t, span.Open(), "whoever followed last has unfollowed")
		require.False(t, span.Until.Before(span.Since))
		if i > 0 {
			require.False(t, span.Since.Before(spans[i-1].Until), "spans do not overlap")
		}
	}
	h.requireEdge(t, following[0])
}

// inPartition returns n user ids of one partition, ascending.
func inPartition(part, partitions, n int) []message.UserID {
	var users []message.UserID
	for i := 0; len(users) < n; i++ {
		if user := message.UserID(fmt.Sprintf("user-%05d", i)); partition.Of(user, partitions) == part {
			users = append(users, user)
		}
	}
	return users
}

func (s edgeSuite) followers(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	part := h.Partitions - 1
	users := inPartition(part, h.Partitions, 9)
	var odd []message.UserID // the even ones are gaps between followers
	for i := len(users) - 2; i > 0; i -= 2 {
		odd = append([]message.UserID{users[i]}, odd...)
		h.follow(t, epoch, pair(users[i], "star"), pair(users[i], "another"))
	}
	if h.Partitions > 1 {
		h.follow(t, epoch, pair(inPartition(0, h.Partitions, 1)[0], "star"))
	}
	require.NoError(t, h.Store.Unfollow(t.Context(), pair(odd[1], "star"), epoch.Add(time.Hour)))
	h.follow(t, epoch, pair(users[0], "stars"), pair(users[2], "sta"))
	for _, test := range []struct {
		name  string
		after message.UserID
		limit int
		want  []message.UserID
	}{
		{"everybody, ended edges too", "", 100, odd},
		{"limit", "", 2, odd[:2]},
		{"exactly as many", "", len(odd), odd},
		{"after is excluded", odd[0], 2, odd[1:3]},
		{"after lies between", users[2], 100, odd[1:]},
		{"after is the beginning of an id", odd[2][:len(odd[2])-1], 1, odd[2:3]},
		{"after the last", odd[3], 100, nil},
	} {
		edges, err := h.Store.Followers(t.Context(), "star", part, test.after, test.limit)
		require.NoError(t, err, test.name)
		var got []message.UserID
		for _, e := range edges {
			require.Equal(t, message.Source("star"), e.Followee, test.name)
			require.Equal(t, e.Follower != odd[1], e.Open(), test.name)
			got = append(got, e.Follower)
		}
		require.Equal(t, test.want, got, test.name)
	}
}

func (s edgeSuite) audience(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	news := message.Topic("news").Source()
	var all []follow.Edge
	for p := range min(h.Partitions, 3) {
		for i, user := range inPartition(p, h.Partitions, 3) {
			for n, followee := range []message.Source{"star", news, "another"}[:1+i] {
				h.follow(t, epoch, pair(user, followee))
				e := edge(pair(user, followee), follow.Span{Since: epoch})
				if n == i && p == 0 { // ended edges count
					require.NoError(t, h.Store.Unfollow(t.Context(), pair(user, followee), epoch.Add(time.Hour)))
					e.Spans[0].Until = epoch.Add(time.Hour)
				}
				all = append(all, e)
			}
		}
	}
	h.follow(t, epoch, pair("ann", "sta"), pair("ann", "stars"), pair("star", "ann"), pair("ann", message.Topic("news/sport").Source()))
	of := func(followees ...message.Source) (want []follow.Edge) {
		for _, e := range all {
			if slices.Contains(followees, e.Followee) {
				want = append(want, e)
			}
		}
		return want
	}
	for _, followees := range [][]message.Source{{"star"}, {news, "another"}, {news, "another", "nobody", "star"}, {"nobody"}, nil} {
		want := of(followees...)
		for _, limit := range []int{0, 1, len(want) - 1, len(want), len(want) + 1, 1000} {
			got, err := h.Store.Audience(t.Context(), followees, limit)
			require.NoError(t, err)
			require.Len(t, got, max(0, min(limit, len(want))), "%q up to %d", followees, limit)
			require.Subset(t, want, got)
			if limit >= len(want) {
				require.ElementsMatch(t, want, got)
			}
		}
	}
}

func (s edgeSuite) following(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.follow(t, epoch, pair("ann", "m"), pair("ann", "c"), pair("ann", "x"), pair("anna", "d"), pair("an", "e"), pair("c", "ann"))
	require.NoError(t, h.Store.Unfollow(t.Context(), pair("ann", "m"), epoch.Add(time.Hour)))
	for _, test := range []struct {
		name  string
		after message.Source
		limit int
		want  []message.Source
	}{
		{"everybody, ended edges too", "", 100, []message.Source{"c", "m", "x"}},
		{"limit", "", 2, []message.Source{"c", "m"}},
		{"after is excluded", "c", 1, []message.Source{"m"}},
		{"after lies between", "d", 100, []message.Source{"m", "x"}},
		{"after continues an id", "mm", 100, []message.Source{"x"}},
		{"after the last", "x", 100, nil},
	} {
		edges, err := h.Store.Following(t.Context(), "ann", test.after, test.limit)
		require.NoError(t, err, test.name)
		var got []message.Source
		for _, e := range edges {
			require.Equal(t, message.UserID("ann"), e.Follower, test.name)
			require.Equal(t, e.Followee != "m", e.Open(), test.name)
			got = append(got, e.Followee)
		}
		require.Equal(t, test.want, got, test.name)
	}
}

func (s edgeSuite) similarIDs(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	users := []message.UserID{"a", "aa", "a~", "a\u00ff", "\u00ff", "b", message.UserID(fmt.Sprintf("%0128d", 0)), message.UserID(fmt.Sprintf("%0127d", 0))}
	for i, follower := range users {
		for _, followee := range users[i+1:] {
			h.follow(t, epoch, pair(follower, followee.Source()))
		}
	}
	for i, user := range users {
		following, err := h.Store.Following(t.Context(), user, "", 100)
		require.NoError(t, err)
		want := slices.Clone(users[i+1:])
		slices.Sort(want)
		require.Len(t, following, len(want))
		for n, e := range following {
			require.Equal(t, edge(pair(user, want[n].Source()), follow.Span{Since: epoch}), e, "ids are ordered byte by byte")
		}
		followers := 0
		for part := range h.Partitions {
			edges, err := h.Store.Followers(t.Context(), user.Source(), part, "", 100)
			require.NoError(t, err)
			followers += len(edges)
		}
		require.Equal(t, i, followers)
	}
}

func (s edgeSuite) reopen(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.follow(t, epoch, pair("ann", "bob"), pair("cid", "bob"))
	require.NoError(t, h.Store.Unfollow(t.Context(), pair("ann", "bob"), epoch.Add(time.Hour)))
	h = h.Reopen(t)
	ended := follow.Span{Since: epoch, Until: epoch.Add(time.Hour)}
	h.requireEdge(t, edge(pair("ann", "bob"), ended))
	h.requireEdge(t, edge(pair("cid", "bob"), follow.Span{Since: epoch}))
	h.follow(t, epoch.Add(2*time.Hour), pair("ann", "bob"))
	h = h.Reopen(t)
	h.requireEdge(t, edge(pair("ann", "bob"), ended, follow.Span{Since: epoch.Add(2 * time.Hour)}))
}

func (s edgeSuite) dropSpans(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	p := pair("ann", "bob")
	var spans []follow.Span
	for i := range 4 {
		span := follow.Span{Since: epoch.Add(time.Duration(2*i) * time.Hour), Until: epoch.Add(time.Duration(2*i+1) * time.Hour)}
		h.follow(t, span.Since, p)
		require.NoError(t, h.Store.Unfollow(t.Context(), p, span.Until))
		spans = append(spans, span)
	}
	for range 2 { // a repetition changes nothing
		require.NoError(t, h.Store.DropSpans(t.Context(), p, []follow.Span{spans[3], spans[1]}))
		h.requireEdge(t, edge(p, spans[0], spans[2], spans[3]))
	}
	never := pair("ann", "cid")
	require.NoError(t, h.Store.DropSpans(t.Context(), never, spans))
	h.requireEdge(t, edge(p, spans[0], spans[2], spans[3]))
}
