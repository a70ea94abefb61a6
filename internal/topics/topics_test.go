package topics_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/internal/topics"
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
	require.NoError(t, storetest.See(t.Context(), r.Users, r.Clock.Now(), rig.DormantAfter, "ann", "bob"))
	return &world{r}
}

func (w *world) service() *topics.Service { return w.TopicService(0) }

func (w *world) create(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		_, err := w.service().Create(t.Context(), message.Topic(path), true)
		require.NoError(t, err)
	}
}

func subscription(user message.UserID, path string) topics.Subscription {
	return topics.Subscription{User: user, Topic: message.Topic(path)}
}

// subscribe subscribes users of one topic and returns the first error.
func subscribe(ctx context.Context, s *topics.Service, all ...topics.Subscription) error {
	errs, err := s.Subscribe(ctx, all)
	return errors.Join(append(errs, err)...)
}

// list returns the paths of all topics.
func (w *world) list(t *testing.T) []string {
	t.Helper()
	found, next, err := w.service().List(t.Context(), "", "", math.MaxInt32)
	require.NoError(t, err)
	require.Empty(t, next)
	paths := []string{}
	for _, x := range found {
		paths = append(paths, string(x))
	}
	return paths
}

// of returns the paths of the topics to which a user is subscribed.
func (w *world) of(t *testing.T, user message.UserID) []string {
	t.Helper()
	found, _, err := w.service().Topics(t.Context(), user, "", 1000)
	require.NoError(t, err)
	paths := []string{}
	for _, x := range found {
		paths = append(paths, string(x))
	}
	return paths
}

func requireInvalid(t *testing.T, err error, text string) {
	t.Helper()
	var invalid *message.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "topic", invalid.Field)
	require.ErrorContains(t, err, text)
}

func TestCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service()
	deep := message.Topic("a/b/c")
	_, err := s.Create(t.Context(), deep, false)
	requireInvalid(t, err, `there is no topic "a/b": create that first`)
	require.Empty(t, w.list(t))
	for i, parents := range []bool{true, true, false} {
		created, err := s.Create(t.Context(), deep, parents)
		require.NoError(t, err)
		require.Equal(t, i == 0, created)
	}
	created, err := s.Create(t.Context(), message.Topic("a/b/d"), false)
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, []string{"a", "a/b", "a/b/c", "a/b/d"}, w.list(t))
	require.NoError(t, s.Get(t.Context(), deep))
	require.ErrorIs(t, s.Get(t.Context(), message.Topic("a/b/e")), topics.ErrNotFound)
	unknown, err := s.Unknown(t.Context(), []message.Topic{deep, "b", "a"})
	require.NoError(t, err)
	require.Equal(t, []message.Topic{"b"}, unknown)
}

func TestCreateAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(t, "old/x")
	paths := []string{"a/b", "a", "a/c", "a/c/d", "old/y", "a", "none/z", "old/x", "a/c/d/e", "none/z/y", "b"}
	all := make([]message.Topic, len(paths))
	for i, path := range paths {
		all[i] = message.Topic(path)
	}
	for range 2 {
		errs, err := w.service().CreateAll(t.Context(), all)
		require.NoError(t, err)
		for i, path := range paths {
			switch path {
			case "none/z", "none/z/y":
				requireInvalid(t, errs[i], "there is no topic")
			case "a/b": // its parent comes later
				if errs[i] != nil {
					requireInvalid(t, errs[i], `there is no topic "a"`)
					continue
				}
				require.Contains(t, w.list(t), "a/b")
			default:
				require.NoError(t, errs[i], path)
			}
		}
	}
	require.Equal(t, []string{"a", "a/b", "a/c", "a/c/d", "a/c/d/e", "b", "old", "old/x", "old/y"}, w.list(t))
}

func TestList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := []string{"a", "a/b", "a/b/c", "a/d", "b", "c", "c/a"}
	w.create(t, all...)
	// What a dead call left is not listed, and does not shorten pages.
	for _, path := range []string{"a/aa", "a/c", "aa/b"} {
		w.insert(t, path)
	}
	for limit := 1; limit < 9; limit++ {
		got := []string{}
		for after, first := message.Topic(""), true; first || after != ""; first = false {
			page, next, err := w.service().List(t.Context(), "", after, limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), limit)
			if next != "" {
				require.Len(t, page, limit)
			}
			for _, x := range page {
				got = append(got, string(x))
			}
			after = next
		}
		require.Equal(t, all, got, "in pages of %d", limit)
	}
	page, next, err := w.service().List(t.Context(), "a", message.Topic("a/b"), 1)
	require.NoError(t, err)
	require.Equal(t, []message.Topic{message.Topic("a/b/c")}, page)
	require.Equal(t, page[0], next)
}

func TestDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(t, "a/b")
	s := w.service()
	remove := func(path string) error { return s.Delete(t.Context(), message.Topic(path)) }
	var used *topics.InUseError
	require.ErrorAs(t, remove("a"), &used)
	require.EqualError(t, used, "there are topics below a: delete those first")
	require.NoError(t, subscribe(t.Context(), s, subscription("ann", "a/b")))
	require.ErrorAs(t, remove("a/b"), &used)
	require.EqualError(t, used, "users are subscribed to a/b: it can be deleted when they have unsubscribed")
	w.Clock.Advance(time.Second)
	require.NoError(t, s.Unsubscribe(t.Context(), subscription("ann", "a/b")))
	for range 2 {
		require.NoError(t, remove("a/b"))
	}
	require.Equal(t, []string{"a"}, w.list(t))
	require.NoError(t, remove("a"))
	require.Empty(t, w.list(t))
	edges, err := w.Edges.Following(t.Context(), "ann", "", 10)
	require.NoError(t, err)
	require.Len(t, edges, 1, "spans that have ended stay")
	w.create(t, "a/b")
	require.Empty(t, w.of(t, "ann"))
	require.NoError(t, subscribe(t.Context(), s, subscription("ann", "a/b")))
	require.Equal(t, []string{"a/b"}, w.of(t, "ann"))
	require.ErrorAs(t, remove("a/b"), &used)
}

// A call that subscribed a user has died before it looked at the topic, which was deleted and created again. Messages to the topic reach the user,
// so lists show the subscription, and it prevents a deletion.
func TestWhatADeadCallLeftIsASubscription(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dead := follow.Subscription{Pair: follow.Pair{Follower: "ann", Followee: message.Topic("a").Source()}, Number: 7}
	_, err := w.Edges.Subscribe(t.Context(), []follow.Subscription{dead}, w.Clock.Now())
	require.NoError(t, err)
	require.Empty(t, w.of(t, "ann"), "there is no topic")
	w.create(t, "a")
	require.Equal(t, []string{"a"}, w.of(t, "ann"))
	users, _, err := w.service().Subscribers(t.Context(), "a", "", 10)
	require.NoError(t, err)
	require.Equal(t, []message.UserID{"ann"}, users)
	var used *topics.InUseError
	require.ErrorAs(t, w.service().Delete(t.Context(), "a"), &used)
	require.NoError(t, w.service().Unsubscribe(t.Context(), subscription("ann", "a")))
	require.Empty(t, w.of(t, "ann"))
	require.NoError(t, w.service().Delete(t.Context(), "a"))
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(t, "a/b", "c")
	s := w.service()
	all := []topics.Subscription{
		subscription("ann", "a"), subscription("bob", "none"), subscription("ann", "a/b"), subscription("ann", "a"), subscription("bob", "c"),
	}
	for range 2 {
		errs, err := s.Subscribe(t.Context(), all)
		require.NoError(t, err)
		for i, err := range errs {
			if i != 1 {
				require.NoError(t, err)
			}
		}
		requireInvalid(t, errs[1], `is "none", and there is no such topic`)
		w.Clock.Advance(time.Second)
	}
	require.NoError(t, w.Following(0).Follow(t.Context(), []follow.Pair{{Follower: "ann", Followee: "bob"}}))
	require.Equal(t, []string{"a", "a/b"}, w.of(t, "ann"))
	authors, _, err := w.Following(0).Following(t.Context(), "ann", "", 10)
	require.NoError(t, err)
	require.Equal(t, []message.UserID{"bob"}, authors, "topics are no authors")
	for _, limit := range []int{1, 2, 3} {
		page, next, err := s.Topics(t.Context(), "ann", "", limit)
		require.NoError(t, err)
		require.Len(t, page, min(limit, 2))
		require.Equal(t, limit == 1, next != "")
	}
	users, _, err := s.Subscribers(t.Context(), "c", "", 10)
	require.NoError(t, err)
	require.Equal(t, []message.UserID{"bob"}, users)
	_, _, err = s.Subscribers(t.Context(), "none", "", 10)
	require.ErrorIs(t, err, topics.ErrNotFound)
	for range 2 {
		require.NoError(t, s.Unsubscribe(t.Context(), all[0]))
		require.NoError(t, s.Unsubscribe(t.Context(), all[1]), "a topic that there never was")
	}
	require.Equal(t, []string{"a/b"}, w.of(t, "ann"))
}

// A message that is sent while a user subscribes reaches the user, as with following.
func TestSubscribeCatchesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(t, "news/local")
	actor := rig.StartAt(t.Context(), rig.StallBefore, "Subscribe", 0, func(ctx context.Context) error {
		return panics.Do(func() error { return subscribe(ctx, w.service(), subscription("ann", "news")) })
	})
	id := message.MinID(w.Clock.Now())
	id[6], id[8] = 0x70, 0x80
	m := message.Message{ID: id, From: "bob", Topics: []message.Topic{message.Topic("news/local")}, Body: "x"}
	_, err := w.Messages.Insert(t.Context(), []message.Message{m}, rig.Rules().Timing())
	require.NoError(t, err)
	actor.Resume(rig.None, 0)
	require.NoError(t, actor.Err())
	buckets, err := bucket.ReadSection(t.Context(), w.Inbox, bucket.Section{Owner: "ann", High: math.MaxUint32}, bucket.AllFields)
	require.NoError(t, err)
	require.Len(t, buckets, 1)
	require.Equal(t, []message.ID{id}, buckettest.IDs(buckets[0].Entries))
}

func TestSubscriptionsHaveABound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(t, "a", "b")
	pair := follow.Pair{Follower: "ann", Followee: message.Topic("a").Source()}
	for range follow.MaxSpans {
		_, err := w.Edges.Subscribe(t.Context(), []follow.Subscription{{Pair: pair, Number: 1}}, w.Clock.Now())
		require.NoError(t, err)
		w.Clock.Advance(time.Millisecond)
		require.NoError(t, w.Edges.Unfollow(t.Context(), pair, w.Clock.Now()))
	}
	errs, err := w.service().Subscribe(t.Context(), []topics.Subscription{subscription("ann", "a"), subscription("ann", "b")})
	require.NoError(t, err)
	var full *follow.FullError
	require.ErrorAs(t, errs[0], &full)
	require.NoError(t, errs[1])
	require.Equal(t, []string{"b"}, w.of(t, "ann"))
}
