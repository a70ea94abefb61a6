package fanout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

func joined(start, at message.UserID) progress.Scan {
	return progress.Scan{Joined: true, Start: start, At: at}
}

func TestScanHandlesEverybodyOnce(t *testing.T) {
	t.Parallel()
	users := usersOf(0, 8)
	for name, position := range map[string]message.UserID{
		"from the beginning":           "",
		"from before the first":        "a",
		"from the first":               users[0],
		"from the middle":              users[4],
		"from somebody who is gone":    users[4] + "-gone",
		"from the last":                users[7],
		"from somebody behind the end": "zzz",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.see(t, users...)
			w.follow(t, "author", users...)
			m := w.store(t, 1, "author")
			w.plan(t, event.Bulk, []int{0}, m)
			w.put(t, m, 0, joined(position, position))
			w.drain(t)
			w.requireDelivered(t, users, m)
			w.requireDone(t, m, len(users), 0)
		})
	}
}

func TestScansConverge(t *testing.T) {
	t.Parallel()
	users := usersOf(0, 10)
	for name, scans := range map[string][]progress.Scan{
		"some ahead, one that has not begun": {joined("", users[6]), joined("", users[2]), {}},
		"one that has wrapped":               {joined(users[5], users[1]), joined(users[5], users[7])},
		"at the same owner, one wrapped":     {joined(users[5], users[3]), joined(users[1], users[3])},
		"ends of rounds between":             {joined(users[2], users[0]), joined(users[4], users[3]), joined("", "")},
		"all apart":                          {joined("", users[8]), joined("", users[5]), joined("", users[1]), joined(users[9], "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.see(t, users...)
			w.follow(t, "author", users...)
			var messages []message.Message
			var ids []message.ID
			expected := make([][]message.UserID, len(scans))
			for i, scan := range scans {
				m := w.store(t, i+1, "author")
				w.plan(t, event.Medium, []int{0}, m)
				if scan.Joined {
					w.put(t, m, 0, scan)
				}
				messages, ids = append(messages, m), append(ids, m.ID)
				for _, user := range users {
					if scan.Ahead(user) {
						expected[i] = append(expected[i], user)
					}
				}
			}
			together := false
			for w.deliver(t, event.Medium, 0) {
				at := make(map[message.UserID]bool)
				scans, planned, err := w.Progress.Scans(t.Context(), 0, ids)
				require.NoError(t, err)
				for i, scan := range scans {
					if planned[i] {
						at[scan.At] = true
					}
				}
				together = together || len(at) <= 1
				require.False(t, together && len(at) > 1, "they were together and parted: %v", at)
			}
			require.True(t, together)
			for i, m := range messages {
				w.requireDone(t, m, len(expected[i]), 0)
				for _, user := range users {
					if scans[i].Ahead(user) {
						require.Contains(t, w.inbox(t, user), m.ID)
					} else {
						require.NotContains(t, w.inbox(t, user), m.ID, "it was handled before")
					}
				}
			}
		})
	}
}

// Audiences of different sizes go through the owners side by side, so that they share writes from the first batch to
// the last.
func TestAudiencesOfDifferentSizesStayTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 12)
	w.see(t, users...)
	w.follow(t, "large", users...)
	w.follow(t, "small", users[1], users[5], users[11])
	large, small := w.store(t, 1, "large"), w.store(t, 2, "small")
	w.plan(t, event.Bulk, []int{0}, large, small)
	for w.deliver(t, event.Bulk, 0) {
		scans, planned, err := w.Progress.Scans(t.Context(), 0, []message.ID{large.ID, small.ID})
		require.NoError(t, err)
		require.Equal(t, planned[0], planned[1], "they end together")
		require.Equal(t, scans[0].At, scans[1].At)
	}
	w.requireDone(t, large, 12, 0)
	w.requireDone(t, small, 3, 0)
	for _, user := range []message.UserID{users[1], users[5], users[11]} {
		require.Equal(t, []message.ID{large.ID, small.ID}, w.inbox(t, user))
	}
}

// All the messages that wait for an owner are pushed at once.
func TestBatchPushesOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, rig.BatchOwners-1)
	w.see(t, users...)
	var messages []message.Message
	for i, author := range []message.UserID{"x", "y", "x", "y", "x"} {
		w.follow(t, author, users...)
		messages = append(messages, w.store(t, i, author))
	}
	w.plan(t, event.Bulk, []int{0}, messages...)
	actor := w.start(t, w.take(t, event.Bulk, 0), rig.None, 0)
	require.NoError(t, actor.Err())
	pushes := 0
	for _, operation := range actor.Trace() {
		if operation == "Push" {
			pushes++
		}
	}
	require.Equal(t, len(users), pushes, "a stretch of this batch is one user: %v", actor.Trace())
	w.requireDelivered(t, users, messages...)
}

// A task joins at a range of followers that is read when it has been taken: whoever follows before a message is stored
// is in it, although the scan that it joins has been there before.
func TestScanJoinsAtARangeReadAfterwards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 10)
	late := users[1]
	w.see(t, users...)
	w.follow(t, "author", users[0])
	w.follow(t, "author", users[2:]...)
	d := w.deliverer()
	first := w.store(t, 1, "author")
	w.plan(t, event.Bulk, []int{0}, first)
	require.NoError(t, d.Deliver(t.Context(), w.take(t, event.Bulk, 0)))
	require.Equal(t, users[3], w.scan(t, first, 0).At)

	_, err := w.Edges.Follow(t.Context(), []follow.Pair{{Follower: late, Followee: "author"}}, id(2).Time())
	require.NoError(t, err)
	second := w.store(t, 3, "author")
	w.plan(t, event.Bulk, []int{0}, second)
	require.NoError(t, d.Deliver(t.Context(), w.take(t, event.Bulk, 0)))
	require.Equal(t, users[3], w.scan(t, second, 0).Start)
	for held := w.take(t, event.Bulk, 0); held != nil; held = w.take(t, event.Bulk, 0) {
		require.NoError(t, d.Deliver(t.Context(), held))
	}
	require.Equal(t, []message.ID{second.ID}, w.inbox(t, late))
	w.requireDone(t, first, 9, 0)
	w.requireDone(t, second, 10, 0)
}

func TestNamedAndFollowingIsOneRecipient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := append(usersOf(0, 5), usersOf(1, 5)...)
	w.see(t, users...)
	w.follow(t, "author", users[:7]...)
	named := []message.UserID{users[0], users[3], users[6], users[8], users[9]}
	m := w.insert(t, message.Message{ID: id(1), From: "author", To: named, Audience: message.AudienceFollowers, Body: "x"})
	w.publish(t, m)
	w.drain(t)
	w.requireDelivered(t, append(users[:7:7], users[8], users[9]), m)
	w.requireDelivered(t, users[7:8])
	w.requireDone(t, m, 9, 0)
}

func TestBatchEndsWhereAMessageDoesNotFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opts.BatchBytes = 1600 // two messages and their tasks
	users := usersOf(0, 4)
	w.see(t, users...)
	w.follow(t, "author", users...)
	var messages []message.Message
	for n := range 4 {
		messages = append(messages, w.store(t, n, "author"))
	}
	w.plan(t, event.Bulk, []int{0}, messages...)
	require.True(t, w.deliver(t, event.Bulk, 0))
	require.Empty(t, w.inbox(t, users[3]))
	require.Len(t, w.inbox(t, users[0]), 2)
	w.drain(t)
	w.requireDelivered(t, users, messages...)
	for _, m := range messages {
		w.requireDone(t, m, 4, 0)
	}
}
