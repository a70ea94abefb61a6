package following_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/following"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type world struct{ *rig.Rig }

func newWorld(t *testing.T) *world {
	t.Helper()
	r, err := rig.Open(t.Context(), rig.NewClock(), nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	w := &world{r}
	w.see(t, "ann", "bob")
	return w
}

func (w *world) see(t *testing.T, users ...message.UserID) {
	t.Helper()
	require.NoError(t, storetest.See(t.Context(), w.Users, w.Clock.Now(), rig.DormantAfter, users...))
}

// publish stores a message by the author to the followers, now, and returns its id.
func (w *world) publish(t *testing.T) message.ID {
	t.Helper()
	return w.publishSent(t, w.Clock.Now())
}

// publishSent is publish for a message that was sent at a given time.
func (w *world) publishSent(t *testing.T, sent time.Time) message.ID {
	t.Helper()
	id := message.MinID(sent)
	id[6], id[8] = 0x70, 0x80
	m := message.Message{ID: id, From: "author", Audience: message.AudienceFollowers, Body: "x"}
	_, err := w.Messages.Insert(t.Context(), []message.Message{m}, rig.Rules().Timing())
	require.NoError(t, err)
	return id
}

func pair(user message.UserID) []follow.Pair {
	return []follow.Pair{{Follower: user, Followee: "author"}}
}

// follow lets a user follow the author as an actor.
func (w *world) follow(t *testing.T, user message.UserID, fault rig.Fault, after int) *rig.Actor {
	t.Helper()
	return rig.Start(t.Context(), fault, after, func(ctx context.Context) error {
		return panics.Do(func() error { return w.Following(0).Follow(ctx, pair(user)) }) // as the server does
	})
}

func (w *world) inbox(t *testing.T, user message.UserID) []message.ID {
	t.Helper()
	buckets, err := bucket.ReadSection(t.Context(), w.Inbox, bucket.Section{Owner: user, High: math.MaxUint32}, bucket.AllFields)
	require.NoError(t, err)
	var ids []message.ID
	for _, b := range buckets {
		ids = append(ids, buckettest.IDs(b.Entries)...)
	}
	return ids
}

func users(n int) []message.UserID {
	users := make([]message.UserID, n)
	for i := range users {
		users[i] = message.UserID(fmt.Sprintf("user-%02d", i))
	}
	return users
}

// A message is sent and fanned out after the edge's span began and before the edge is visible. Follow appends the message.
func TestFollowCatchesUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault rig.Fault
		after int
	}{
		"before the edge is visible": {rig.StallBefore, 1},
		"after the edge is visible":  {rig.StallAfter, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			before := w.publish(t)
			w.Clock.Advance(time.Millisecond)
			actor := w.follow(t, "ann", test.fault, test.after)
			same := w.publish(t)
			w.Clock.Advance(time.Second)
			later := w.publish(t)
			actor.Resume(rig.None, 0)
			require.NoError(t, actor.Err())
			require.Equal(t, []message.ID{same, later}, w.inbox(t, "ann"))
			require.NotContains(t, w.inbox(t, "ann"), before)
			require.Empty(t, w.inbox(t, "bob"))
		})
	}
}

// A call of Follow fails or dies at any operation. The repeated call appends the missed message.
func TestFollowAgainAfterADeath(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.DieBefore, rig.DieAfter, rig.FailBefore, rig.FailAfter, rig.PanicBefore, rig.PanicAfter} {
		for after := range 6 {
			t.Run(fmt.Sprintf("fault %d after %d operations", fault, after), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				stalled := w.follow(t, "ann", rig.StallBefore, 0)
				missed := w.publish(t)
				stalled.Resume(fault, after)
				w.Clock.Advance(time.Second)
				again := w.follow(t, "ann", rig.None, 0)
				require.NoError(t, again.Err())
				edges, err := w.Edges.Following(t.Context(), "ann", "", 10)
				require.NoError(t, err)
				if edges[0].Holds(missed.Time()) {
					require.Equal(t, []message.ID{missed}, w.inbox(t, "ann"))
				} else {
					require.Empty(t, w.inbox(t, "ann"), "the edge began after the message was sent")
				}
			})
		}
	}
}

// A repeated Follow appends only messages that fan-out can have missed. Here there are none.
func TestFollowAgainAddsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.follow(t, "ann", rig.None, 0).Err())
	w.Clock.Advance(rig.Slack + time.Second)
	left := w.publish(t) // not fanned out yet
	require.NoError(t, w.follow(t, "ann", rig.None, 0).Err())
	require.NotContains(t, w.inbox(t, "ann"), left)
	edges, err := w.Edges.Following(t.Context(), "ann", "", 10)
	require.NoError(t, err)
	require.Len(t, edges[0].Spans, 1)
}

// A user unfollows while Follow runs. The inbox does not get messages that were sent after that.
func TestUnfollowedWhileFollowing(t *testing.T) {
	t.Parallel()
	for after := range 3 {
		t.Run(fmt.Sprintf("after %d operations", after), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			actor := w.follow(t, "ann", rig.StallAfter, 1)
			for range after {
				actor.Resume(rig.StallBefore, 0)
			}
			w.Clock.Advance(time.Second)
			require.NoError(t, w.Following(0).Unfollow(t.Context(), pair("ann")[0]))
			w.Clock.Advance(time.Second)
			w.publish(t)
			actor.Resume(rig.None, 0)
			require.NoError(t, actor.Err())
			require.Empty(t, w.inbox(t, "ann"))
		})
	}
}

func TestFollowLeavesOut(t *testing.T) {
	t.Parallel()
	t.Run("a dormant user", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.Clock.Advance(rig.DormantAfter + time.Second)
		actor := w.follow(t, "ann", rig.StallBefore, 0)
		w.publish(t)
		actor.Resume(rig.None, 0)
		require.NoError(t, actor.Err())
		require.Empty(t, w.inbox(t, "ann"))
	})
	t.Run("a void message", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		actor := w.follow(t, "ann", rig.StallBefore, 0)
		id := message.MinID(w.Clock.Now())
		id[6], id[8] = 0x70, 0x80
		w.Clock.Advance(rig.Slack + time.Millisecond)
		_, err := w.Messages.Insert(t.Context(), []message.Message{{ID: id, From: "author", Audience: message.AudienceFollowers, Body: "x"}}, rig.Rules().Timing())
		require.NoError(t, err)
		actor.Resume(rig.None, 0)
		require.NoError(t, actor.Err())
		require.Empty(t, w.inbox(t, "ann"))
	})
	t.Run("a message to other users", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		actor := w.follow(t, "ann", rig.StallBefore, 0)
		id := message.MinID(w.Clock.Now())
		id[6], id[8] = 0x70, 0x80
		_, err := w.Messages.Insert(t.Context(), []message.Message{{ID: id, From: "author", To: []message.UserID{"bob"}, Body: "x"}}, rig.Rules().Timing())
		require.NoError(t, err)
		actor.Resume(rig.None, 0)
		require.NoError(t, actor.Err())
		require.Empty(t, w.inbox(t, "ann"))
	})
}

func TestFollowOfManyCatchesUpWithEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	followers := users(20)
	w.see(t, followers...)
	var pairs []follow.Pair
	for _, user := range followers {
		pairs = append(pairs, pair(user)...)
		pairs = append(pairs, pair(user)...) // a repeated pair counts once
	}
	actor := rig.Start(t.Context(), rig.StallBefore, 0, func(ctx context.Context) error {
		return w.Following(0).Follow(ctx, pairs)
	})
	missed := w.publish(t)
	actor.Resume(rig.None, 0)
	require.NoError(t, actor.Err())
	for _, user := range followers {
		require.Equal(t, []message.ID{missed}, w.inbox(t, user))
	}
}

// Users begin to follow several authors and to subscribe to topics in one call. Each gets what was sent since then by their own sources, once, although
// the messages of all are searched together and fill several pages.
func TestFollowCatchesUpWithSeveralSources(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var pairs []follow.Pair
	for user, sources := range map[message.UserID][]message.Source{
		"ann": {"author", "other", message.Topic("go").Source(), message.Topic("go/fmt").Source()},
		"bob": {"other", "silent"}, "eve": {message.Topic("go").Source()},
	} {
		for _, source := range sources {
			pairs = append(pairs, follow.Pair{Follower: user, Followee: source})
		}
	}
	w.see(t, "eve")
	actor := rig.Start(t.Context(), rig.StallBefore, 0, func(ctx context.Context) error { return w.Following(0).Follow(ctx, pairs) })
	want := make(map[message.UserID][]message.ID)
	for n := range 450 {
		w.Clock.Advance(time.Millisecond)
		id := message.MinID(w.Clock.Now())
		id[6], id[8] = 0x70, 0x80
		m := message.Message{ID: id, From: "author", Body: "x", Audience: message.AudienceFollowers}
		to := []message.UserID{"ann"}
		switch n % 4 {
		case 0:
			m.From, to = "other", []message.UserID{"ann", "bob"}
		case 1:
			m.From, to = "unknown", nil
		case 2:
			m.From, m.Topics, to = "bob", []message.Topic{message.Topic("go/fmt/verbs"), "go"}, []message.UserID{"ann", "eve"}
		}
		_, err := w.Messages.Insert(t.Context(), []message.Message{m}, rig.Rules().Timing())
		require.NoError(t, err)
		for _, user := range to {
			want[user] = append(want[user], id)
		}
	}
	actor.Resume(rig.None, 0)
	require.NoError(t, actor.Err())
	for user, ids := range want {
		require.ElementsMatch(t, ids, w.inbox(t, user), user)
	}
}

// searches records what is searched for.
type searches struct {
	message.Store

	ranges [][]message.Range
}

func (s *searches) ToFollowers(ctx context.Context, ranges []message.Range, order message.Order, limit int) ([]message.Stored, error) {
	s.ranges = append(s.ranges, slices.Clone(ranges))
	return s.Store.ToFollowers(ctx, ranges, order, limit)
}

// A call repeats an old edge beside new ones. It does not search the years since the old one began, for any of the authors.
func TestOldEdgesAreSearchedApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := follow.Pair{Follower: "ann", Followee: "author"}
	require.NoError(t, w.Following(0).Follow(t.Context(), []follow.Pair{old}))
	begun := w.Clock.Now()
	w.Clock.Advance(365 * 24 * time.Hour)
	found := &searches{Store: w.Messages}
	service := following.New(w.Edges, found, w.Users, w.Appender, following.Options{Partitions: 16, Rules: rig.Rules, Now: w.Clock.Now})
	require.NoError(t, service.Follow(t.Context(), []follow.Pair{{Follower: "bob", Followee: "author"}, old, {Follower: "bob", Followee: "other"}}))
	until := begun.Truncate(time.Millisecond).Add(rig.Slack + time.Millisecond)
	now := message.LastBefore(w.Clock.Now().Truncate(time.Millisecond))
	require.Equal(t, [][]message.Range{
		{{From: "author", After: message.LastBefore(begun.Truncate(time.Millisecond)), Before: message.MinID(until)}},
		{{From: "author", After: now, Before: message.MaxID}, {From: "other", After: now, Before: message.MaxID}},
	}, found.ranges)
}

func TestFollowRefusesAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	service := w.Following(0)
	good := follow.Pair{Follower: "ann", Followee: "author"}
	require.ErrorIs(t, service.Follow(t.Context(), []follow.Pair{good, {Follower: "bob", Followee: "bob"}}), follow.ErrSelf)
	require.ErrorIs(t, service.Follow(t.Context(), []follow.Pair{good, {Follower: "bob", Followee: "a b"}}), message.ErrInvalid)
	require.ErrorIs(t, service.Unfollow(t.Context(), follow.Pair{Follower: "bob", Followee: "bob"}), follow.ErrSelf)
	listed, next, err := service.Following(t.Context(), "ann", "", 10)
	require.NoError(t, err)
	require.Empty(t, listed)
	require.Empty(t, next)
}

func TestListings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	service := w.Following(0)
	all := users(25)
	for i, user := range all {
		require.NoError(t, service.Follow(t.Context(), []follow.Pair{
			{Follower: user, Followee: "star"}, {Follower: "fan", Followee: user.Source()},
		}))
		if i%3 == 0 { // ended edges are not listed, and do not shorten pages
			w.Clock.Advance(time.Millisecond)
			require.NoError(t, service.Unfollow(t.Context(), follow.Pair{Follower: user, Followee: "star"}))
			require.NoError(t, service.Unfollow(t.Context(), follow.Pair{Follower: "fan", Followee: user.Source()}))
		}
	}
	var want []message.UserID
	for i, user := range all {
		if i%3 != 0 {
			want = append(want, user)
		}
	}
	for _, limit := range []int{1, 2, 7, 16, 17, 100} {
		for name, list := range map[string]func(context.Context, message.UserID, message.UserID, int) ([]message.UserID, message.UserID, error){
			"fan": service.Following,
			"star": func(ctx context.Context, user, after message.UserID, limit int) ([]message.UserID, message.UserID, error) {
				return service.Followers(ctx, user.Source(), after, limit)
			},
		} {
			var got []message.UserID
			for after, first := message.UserID(""), true; first || after != ""; first = false {
				page, next, err := list(t.Context(), message.UserID(name), after, limit)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page), limit)
				if next != "" {
					require.Len(t, page, limit)
				}
				got, after = append(got, page...), next
			}
			require.ElementsMatch(t, want, got, "%s in pages of %d", name, limit)
		}
	}
}

// Subscribing catches up as following does: with what was sent to the topic, and to topics below it, since the subscription began.
func TestSubscribingCatchesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	send := func(path string) message.ID {
		w.Clock.Advance(time.Millisecond)
		id := message.MinID(w.Clock.Now())
		id[6], id[8] = 0x70, 0x80
		m := message.Message{ID: id, From: "author", Body: path, Topics: []message.Topic{message.Topic(path)}}
		_, err := w.Messages.Insert(t.Context(), []message.Message{m}, rig.Rules().Timing())
		require.NoError(t, err)
		return id
	}
	send("go")
	w.Clock.Advance(time.Millisecond)
	actor := rig.Start(t.Context(), rig.StallBefore, 0, func(ctx context.Context) error {
		return w.Following(0).Follow(ctx, []follow.Pair{{Follower: "ann", Followee: message.Topic("go").Source()}})
	})
	first, second := send("go"), send("go/fmt")
	send("gopher")
	actor.Resume(rig.None, 0)
	require.NoError(t, actor.Err())
	require.Equal(t, []message.ID{first, second}, w.inbox(t, "ann"))
}

// Lists of authors and of topics are apart.
func TestTopicsAreNoAuthors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	service := w.Following(0)
	topics := []message.Topic{"a", message.Topic("a/b"), "b", "c"}
	for _, topic := range topics {
		require.NoError(t, service.Follow(t.Context(), []follow.Pair{{Follower: "ann", Followee: topic.Source()}}))
	}
	require.NoError(t, service.Follow(t.Context(), []follow.Pair{{Follower: "ann", Followee: "a"}, {Follower: "ann", Followee: "c"}}))
	require.NoError(t, service.Unfollow(t.Context(), follow.Pair{Follower: "ann", Followee: message.Topic("b").Source()}))
	authors, next, err := service.Following(t.Context(), "ann", "", 10)
	require.NoError(t, err)
	require.Empty(t, next)
	require.Equal(t, []message.UserID{"a", "c"}, authors)
	subscribers, _, err := service.Followers(t.Context(), message.Topic("c").Source(), "", 10)
	require.NoError(t, err)
	require.Equal(t, []message.UserID{"ann"}, subscribers)
	none, _, err := service.Followers(t.Context(), message.UserID("b").Source(), "", 10)
	require.NoError(t, err)
	require.Empty(t, none)
}

// Follow and fan-out append the same message. The inbox holds it once.
func TestCatchingUpWithWhatWasDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	actor := w.follow(t, "ann", rig.StallAfter, 0)
	id := w.publish(t)
	_, err := w.Appender.Append(t.Context(), []bucket.Append{{Owner: "ann", Entries: []bucket.Entry{{ID: id, From: "author", Body: "x"}}}})
	require.NoError(t, err)
	actor.Resume(rig.None, 0)
	require.NoError(t, actor.Err())
	require.Equal(t, []message.ID{id}, w.inbox(t, "ann"))
}

// TestFollowOfManyPastDamage damages the records of two of many followers. The others get the missed message, and the caller gets an error.
func TestFollowOfManyPastDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	followers := users(20)
	w.see(t, followers...)
	var pairs []follow.Pair
	for _, user := range followers {
		pairs = append(pairs, pair(user)...)
	}
	actor := rig.Start(t.Context(), rig.StallBefore, 0, func(ctx context.Context) error {
		return w.Following(0).Follow(ctx, pairs)
	})
	missed := w.publish(t)
	w.Damage.State(followers[3])
	w.Damage.Inbox(followers[7])
	actor.Resume(rig.None, 0)
	require.ErrorIs(t, actor.Err(), message.ErrCorrupt)
	for i, user := range followers {
		if i != 3 && i != 7 {
			require.Equal(t, []message.ID{missed}, w.inbox(t, user))
		}
	}
}
