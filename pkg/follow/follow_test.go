package follow_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// at returns the time that many milliseconds after the epoch.
func at(ms int) time.Time { return messagetest.Epoch.Add(time.Duration(ms) * time.Millisecond) }

func span(since, until int) follow.Span { return follow.Span{Since: at(since), Until: at(until)} }

func open(since int) follow.Span { return follow.Span{Since: at(since)} }

func edge(spans ...follow.Span) follow.Edge {
	return follow.Edge{Follower: "ann", Followee: "bob", Spans: spans}
}

func TestEdgeHolds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		edge follow.Edge
		held []int // of the milliseconds from 0 to 9
		open bool
	}{
		{"never", edge(), nil, false},
		{"open", edge(open(7)), []int{7, 8, 9}, true},
		{"ended: since is included, until is not", edge(span(3, 5)), []int{3, 4}, false},
		{"empty", edge(span(3, 3)), nil, false},
		{"twice", edge(span(1, 2), span(4, 6), open(8)), []int{1, 4, 5, 8, 9}, true},
		{"again at once", edge(span(1, 2), open(2)), []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.open, test.edge.Open())
			for ms := range 10 {
				require.Equal(t, slices.Contains(test.held, ms), test.edge.Holds(at(ms)), "at %d ms", ms)
				follows := follow.For(messagetest.Message(ms, "bob"), "ann", test.edge)
				require.Equal(t, slices.Contains(test.held, ms), follows, "a message sent at %d ms", ms)
			}
		})
	}
}

func TestEdgeFollow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		edge    follow.Edge
		at      time.Time
		want    follow.Edge
		changed bool
	}{
		{"the first time", edge(), at(5), edge(open(5)), true},
		{"open already", edge(open(5)), at(9), edge(open(5)), false},
		{"again", edge(span(1, 2)), at(5), edge(span(1, 2), open(5)), true},
		{"again at the moment it ended", edge(span(1, 2)), at(2), edge(span(1, 2), open(2)), true},
		{"again by a clock that lags", edge(span(1, 8)), at(5), edge(span(1, 8), open(8)), true},
		{"a time with microseconds, elsewhere", edge(), at(5).Add(999 * time.Microsecond).In(time.FixedZone("east", 3600)), edge(open(5)), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			before := slices.Clone(test.edge.Spans)
			got, changed := test.edge.Follow(test.at)
			require.Equal(t, test.changed, changed)
			require.Equal(t, test.want, got)
			require.Equal(t, before, test.edge.Spans, "the edge that it was called on is left as it is")
		})
	}
}

func TestEdgeUnfollow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		edge    follow.Edge
		at      time.Time
		want    follow.Edge
		changed bool
	}{
		{"never followed", edge(), at(5), edge(), false},
		{"ended already", edge(span(1, 2)), at(5), edge(span(1, 2)), false},
		{"open", edge(span(1, 2), open(3)), at(5), edge(span(1, 2), span(3, 5)), true},
		{"by a clock that lags", edge(open(5)), at(3), edge(span(5, 5)), true},
		{"a time with microseconds, elsewhere", edge(open(1)), at(5).Add(999 * time.Microsecond).In(time.FixedZone("east", 3600)), edge(span(1, 5)), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			before := slices.Clone(test.edge.Spans)
			got, changed := test.edge.Unfollow(test.at)
			require.Equal(t, test.changed, changed)
			require.Equal(t, test.want, got)
			require.Equal(t, before, test.edge.Spans, "the edge that it was called on is left as it is")
		})
	}
}

// Spans stay in order and apart, whatever the clocks say.
func TestEdgeSpansStayInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := edge()
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			now := at(rapid.IntRange(0, 50).Draw(t, "now"))
			wasOpen := e.Open()
			var changed bool
			if rapid.Bool().Draw(t, "follow") {
				e, changed = e.Follow(now)
				require.Equal(t, !wasOpen, changed)
				require.True(t, e.Open())
			} else {
				e, changed = e.Unfollow(now)
				require.Equal(t, wasOpen, changed)
				require.False(t, e.Open())
			}
			for i, s := range e.Spans {
				require.True(t, !s.Open() || i == len(e.Spans)-1, "only the last is open")
				require.True(t, s.Open() || !s.Until.Before(s.Since))
				require.True(t, i == 0 || !s.Since.Before(e.Spans[i-1].Until))
			}
		}
	})
}

func TestFor(t *testing.T) {
	t.Parallel()
	m := messagetest.Message(5, "bob")
	m.To = []message.UserID{"cid", "dan"}
	listed := m
	listed.Audience = message.AudienceListed
	for _, test := range []struct {
		name string
		m    message.Message
		user message.UserID
		edge follow.Edge
		want bool
	}{
		{"named", m, "cid", follow.Edge{}, true},
		{"named and following", m, "cid", edge(open(1)), true},
		{"named who no longer follows", m, "dan", edge(span(1, 2)), true},
		{"following", m, "ann", edge(open(1)), true},
		{"following since that moment", m, "ann", edge(open(5)), true},
		{"following since later", m, "ann", edge(open(6)), false},
		{"unfollowed at that moment", m, "ann", edge(span(1, 5)), false},
		{"unfollowed later", m, "ann", edge(span(1, 6)), true},
		{"neither", m, "ann", follow.Edge{}, false},
		{"following, of a message that names others", listed, "ann", edge(open(1)), false},
		{"named by a message that is not for followers", listed, "dan", follow.Edge{}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, follow.For(test.m, test.user, test.edge))
		})
	}
}

func TestPairValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, follow.Pair{Follower: "ann", Followee: "bob"}.Validate())
	require.ErrorIs(t, follow.Pair{Follower: "ann", Followee: "ann"}.Validate(), follow.ErrSelf)
	for field, pair := range map[string]follow.Pair{
		"follower": {Follower: "a b", Followee: "bob"},
		"followee": {Follower: "ann", Followee: ""},
	} {
		var invalid *message.InvalidError
		require.ErrorAs(t, pair.Validate(), &invalid)
		require.Equal(t, field, invalid.Field)
	}
	require.ErrorIs(t, follow.Pair{}.Validate(), message.ErrInvalid, "two users that are none are not the same one")
}

func TestFullEdge(t *testing.T) {
	t.Parallel()
	e := edge()
	for n := range follow.MaxSpans {
		require.False(t, e.Full())
		e, _ = e.Follow(at(2 * n))
		require.False(t, e.Full(), "an open edge needs no room")
		e, _ = e.Unfollow(at(2*n + 1))
	}
	require.True(t, e.Full())
	again, changed := e.Follow(at(1000))
	require.False(t, changed)
	require.Equal(t, e, again)
	require.EqualError(t, &follow.FullError{Pair: follow.Pair{Follower: "ann", Followee: "bob"}},
		"ann has unfollowed bob 256 times, which is the limit: a time in which nothing was sent stops counting a few minutes later")
}

func TestFullSubscription(t *testing.T) {
	t.Parallel()
	full := &follow.FullError{Pair: follow.Pair{Follower: "ann", Followee: message.Topic("go/fmt").Source()}}
	require.EqualError(t, full, "ann has unsubscribed from go/fmt 256 times, which is the limit: a time in which nothing was sent stops counting a few minutes later")
	require.EqualError(t, follow.RefusedError{full.Pair: full}, "1 pairs are refused: "+full.Error())
}

func TestEdgeDrop(t *testing.T) {
	t.Parallel()
	e := edge(span(1, 2), span(3, 4), span(5, 6))
	got, changed := e.Drop([]follow.Span{span(5, 6), span(1, 2), span(7, 8)})
	require.True(t, changed)
	require.Equal(t, edge(span(3, 4), span(5, 6)), got, "the newest stays")
	_, changed = got.Drop([]follow.Span{span(1, 2), span(3, 5)})
	require.False(t, changed, "neither is there")
	require.Len(t, e.Spans, 3, "the edge that it was called on is left as it is")
}
