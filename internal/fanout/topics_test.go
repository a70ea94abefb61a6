package fanout_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// subscribe subscribes users to a topic from a minute before the epoch on.
func (w *world) subscribe(t *testing.T, path string, users ...message.UserID) {
	t.Helper()
	_, err := w.Edges.Follow(t.Context(), subscriptions(path, users), rig.Epoch.Add(-time.Minute))
	require.NoError(t, err)
}

func subscriptions(path string, users []message.UserID) []follow.Pair {
	pairs := make([]follow.Pair, len(users))
	for i, user := range users {
		pairs[i] = follow.Pair{Follower: user, Followee: message.Topic(path).Source()}
	}
	return pairs
}

// overlapping is a message whose author, names and topics overlap, with those who get it, and those who do not.
type overlapping struct {
	message       message.Message
	for_, notFor_ []message.UserID //nolint:revive // "for" is a keyword
}

// overlap makes an audience in which users are followers, named, and subscribers to several topics, and stores a message to all of them.
func (w *world) overlap(t *testing.T) overlapping {
	t.Helper()
	users := append(usersOf(0, 7), usersOf(1, 7)...)
	w.see(t, append(users, "author")...)
	w.follow(t, "author", users[:3]...)
	w.subscribe(t, "go", users[2:5]...)          // an ancestor; the first also follows the author
	w.subscribe(t, "go/fmt", users[4], users[5]) // the topic itself; the first twice
	w.subscribe(t, "news", users[5], "author")   // another topic of the message
	w.subscribe(t, "go/fmt/verbs", users[9])     // below the topic
	w.subscribe(t, "go/errors", users[10])       // beside it
	w.subscribe(t, "gopher", users[11])          // begins alike
	w.subscribe(t, "go", users[12])              // has ended before
	require.NoError(t, w.Edges.Unfollow(t.Context(), subscriptions("go", users[12:13])[0], rig.Epoch.Add(-time.Second)))
	_, err := w.Edges.Follow(t.Context(), subscriptions("news", users[13:]), rig.Epoch.Add(time.Second)) // begins later
	require.NoError(t, err)
	m := w.insert(t, message.Message{
		ID: id(1), From: "author", To: []message.UserID{users[1], users[6], users[5]}, Audience: message.AudienceFollowers, Body: "x",
		Topics: []message.Topic{message.Topic("go/fmt"), message.Topic("news")},
	})
	return overlapping{m, append(slices.Clone(users[:7]), "author"), users[9:]}
}

func (w *world) requireOverlap(t *testing.T, o overlapping) {
	t.Helper()
	w.requireDelivered(t, o.for_, o.message)
	for _, user := range o.notFor_ {
		require.Empty(t, w.inbox(t, user), user)
	}
}

// Fan-out counts a user once, by however many of author, names and topics the message reaches the user: in each lane.
func TestTopicsOverlap(t *testing.T) {
	t.Parallel()
	for lane, change := range map[event.Lane]func(*world){
		event.Direct: func(w *world) { w.opts.DirectMax = 20 },
		event.Medium: func(w *world) { w.opts.MediumMax = 40 },
		event.Bulk:   func(*world) {},
	} {
		t.Run(string(lane), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			change(w)
			o := w.overlap(t)
			w.publish(t, o.message)
			w.routeAll(t, w.router())
			for _, task := range w.tasks(t) {
				require.Equal(t, lane, task.Lane)
			}
			w.drain(t)
			w.requireOverlap(t, o)
			w.requireDone(t, o.message, len(o.for_), 0)
		})
	}
}

// Messages to topics and messages to followers share the pushes of a batch.
func TestTopicsShareABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 8)
	w.see(t, users...)
	w.follow(t, "author", users...)
	w.subscribe(t, "news", users...)
	m := w.store(t, 1, "author")
	topical := w.insert(t, message.Message{ID: id(2), From: "other", Body: "y", Topics: []message.Topic{"news"}})
	w.plan(t, event.Bulk, []int{0}, m, topical)
	w.drain(t)
	w.requireDelivered(t, users, m, topical)
	w.requireDone(t, topical, len(users), 0)
}

// The lane goes by the sum of the parts of an audience, and each part is measured once for all messages that have it.
func TestTheLaneGoesByTheSum(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p0, p1 := usersOf(0, 8), usersOf(1, 1)
	w.subscribe(t, "go", p0[:2]...)
	w.subscribe(t, "news", p0[2], p1[0])
	w.subscribe(t, "arts", p0[4:6]...)
	w.subscribe(t, "maps", p0[6:]...)
	router, known := w.router(), 0
	for n, test := range []struct {
		topics []message.Topic
		lane   event.Lane
	}{
		{[]message.Topic{"go"}, event.Direct},
		{[]message.Topic{"go", "news"}, event.Medium},
		{[]message.Topic{"arts", "go", "maps", "news"}, event.Bulk},
		{[]message.Topic{"maps"}, event.Direct},
	} {
		m := w.insert(t, message.Message{ID: id(n), From: "author", Body: strconv.Itoa(n), Topics: test.topics})
		w.publish(t, m)
		received, err := w.Bus.TryFetch(t.Context(), 10)
		require.NoError(t, err)
		require.NoError(t, router.Route(t.Context(), received))
		tasks := w.tasks(t)
		if tasks = tasks[known:]; test.lane == event.Direct {
			require.Empty(t, tasks)
			continue
		}
		known += len(tasks)
		require.Equal(t, test.lane, tasks[0].Lane, "%v", test.topics)
	}
}
