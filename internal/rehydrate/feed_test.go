package rehydrate_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// always is the stretch of everything.
var always = bucket.Stretch{Before: message.MaxID}

func shownIDs(entries []bucket.Entry) (shown []message.ID) {
	for _, e := range entries {
		shown = append(shown, e.ID)
	}
	return shown
}

// requireFeed demands that a feed holds messages, however it is read.
func requireFeed(t *testing.T, w *world, want []message.ID) {
	t.Helper()
	f := w.Rehydrator(0, 0).Feed("ann", rig.Rules())
	count, err := f.Count(t.Context(), always)
	require.NoError(t, err)
	require.Equal(t, len(want), int(count))
	for limit := 1; limit <= len(want)+1; limit++ {
		oldest, err := f.Oldest(t.Context(), always, limit)
		require.NoError(t, err)
		require.Equal(t, want[:min(limit, len(want))], shownIDs(oldest))
		newest, err := f.Newest(t.Context(), always, limit)
		require.NoError(t, err)
		reversed := slices.Clone(want[max(0, len(want)-limit):])
		slices.Reverse(reversed)
		require.Equal(t, reversed, shownIDs(newest))
	}
}

// A feed holds what was sent within a span, since included and until not, and what names the user, each once, but for what
// is void.
func TestFeedHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pair := follow.Pair{Follower: "ann", Followee: "author"}
	at := func(ms int) time.Time { return rig.Epoch.Add(time.Duration(ms) * time.Millisecond) }
	require.NoError(t, w.Edges.Unfollow(t.Context(), pair, at(3)))
	_, err := w.Edges.Follow(t.Context(), []follow.Pair{pair}, at(6))
	require.NoError(t, err)
	require.NoError(t, w.Edges.Unfollow(t.Context(), pair, at(8)))
	var want []message.ID
	for ms := range 10 {
		m := w.store(t, at(ms))
		if ms < 3 || ms == 6 || ms == 7 {
			want = append(want, m.ID)
		}
	}
	named := w.store(t, at(12), "ann", "bob") // names her, though she follows nobody by now
	w.store(t, at(13), "bob")
	both := message.Message{ID: message.MinID(at(7)), From: "author", To: []message.UserID{"ann"}, Audience: message.AudienceFollowers, Body: "both"}
	both.ID[6], both.ID[8], both.ID[15] = 0x70, 0x80, 0xff
	_, err = w.Messages.Insert(t.Context(), []message.Message{both}, rig.Rules().Timing())
	require.NoError(t, err)
	want = append(want, both.ID, named.ID)
	w.store(t, at(-1).Add(-rig.Slack), "ann") // is void
	requireFeed(t, w, want)
}

// A feed holds the messages of a topic and of all topics below it, within the spans of the subscription, and each message once, by however many
// of its author, names and topics it is for the user.
func TestFeedHoldsTopics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := func(ms int) time.Time { return rig.Epoch.Add(time.Duration(ms) * time.Millisecond) }
	subscribe := func(path string, since, until int) {
		pair := follow.Pair{Follower: "ann", Followee: message.Topic(path).Source()}
		_, err := w.Edges.Follow(t.Context(), []follow.Pair{pair}, at(since))
		require.NoError(t, err)
		if until > 0 {
			require.NoError(t, w.Edges.Unfollow(t.Context(), pair, at(until)))
		}
	}
	subscribe("go", 2, 6)
	subscribe("go/fmt", 4, 8)
	subscribe("news", 5, 0)
	require.NoError(t, w.Edges.Unfollow(t.Context(), follow.Pair{Follower: "ann", Followee: "author"}, at(9)))
	var want []message.ID
	store := func(ms int, holds bool, m message.Message) {
		m.ID = message.MinID(at(ms))
		m.ID[6], m.ID[8], m.ID[15] = 0x70, 0x80, byte(len(want))
		_, err := w.Messages.Insert(t.Context(), []message.Message{m}, rig.Rules().Timing())
		require.NoError(t, err)
		if holds {
			want = append(want, m.ID)
		}
	}
	to := func(paths ...string) (topics []message.Topic) {
		for _, path := range paths {
			topics = append(topics, message.Topic(path))
		}
		return topics
	}
	store(1, false, message.Message{From: "other", Body: "before", Topics: to("go")})
	store(2, true, message.Message{From: "other", Body: "below", Topics: to("go/fmt/verbs")})
	store(3, false, message.Message{From: "other", Body: "begins alike", Topics: to("gopher")})
	store(4, true, message.Message{From: "other", Body: "by two topics", Topics: to("go/fmt", "news")})
	store(5, true, message.Message{From: "author", Body: "by all", Topics: to("go/fmt", "news"), To: []message.UserID{"ann"}, Audience: message.AudienceFollowers})
	store(6, false, message.Message{From: "other", Body: "ended", Topics: to("go")})
	store(7, true, message.Message{From: "other", Body: "the other", Topics: to("go/fmt")})
	store(7, true, message.Message{From: "other", Body: "named, too", Topics: to("go/fmt"), To: []message.UserID{"ann"}})
	store(8, false, message.Message{From: "author", Body: "to subscribers only", Topics: to("go/fmt")})
	store(9, true, message.Message{From: "ann", Body: "her own", Topics: to("news")})
	requireFeed(t, w, want)
}

// What the newest messages cost depends on how many are asked for, and not on how many there are, or how long ago.
func TestNewestCostsTheSameForManyAsForFew(t *testing.T) {
	t.Parallel()
	cost := func(messages int, away time.Duration) int {
		w := newWorld(t)
		many := make([]message.Message, messages)
		for i := range many {
			many[i] = message.Message{ID: message.MinID(rig.Epoch.Add(time.Duration(i-messages) * time.Millisecond)), From: "author", Audience: message.AudienceFollowers, Body: "body"}
			many[i].ID[6], many[i].ID[8] = 0x70, 0x80
		}
		_, err := w.Messages.Insert(t.Context(), many, rig.Rules().Timing())
		require.NoError(t, err)
		w.Clock.Advance(away)
		a := rig.Start(t.Context(), rig.None, 0, func(ctx context.Context) error {
			newest, err := w.Rehydrator(0, 0).Feed("ann", rig.Rules()).Newest(ctx, always, 10)
			if err == nil && len(newest) != 10 {
				err = fmt.Errorf("%d messages", len(newest))
			}
			return err
		})
		require.NoError(t, a.Err())
		return len(a.Trace())
	}
	require.Equal(t, 3, cost(10, 0), "whom she follows, and two queries")
	require.Equal(t, 3, cost(20_000, 0))
	require.Equal(t, 3, cost(10, 10*365*24*time.Hour), "also if they were sent over years")
}

// An attempt at a rehydration within the limit reads everything in one pass, and says in three changes what it has come to.
func TestAnAttemptCosts(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	s := w.Rehydrator(0, 0)
	w.login(t, s)
	a := w.work(t, s, rig.None, "", 0)
	cost := make(map[string]int)
	for _, operation := range a.Trace() {
		cost[operation]++
	}
	require.Equal(t, 3, cost[changes], "%v", a.Trace())
	require.Equal(t, 1, cost["Push"], "%v", a.Trace())
	require.Equal(t, 2, cost["Following"], "%v", a.Trace())
	w.rest(t, s)
}
