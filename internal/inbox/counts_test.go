package inbox_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// requireCounted counts inboxes that are complete together, and compares the counts with those of their pages.
func (w *world) requireCounted(t *testing.T, users ...message.UserID) {
	t.Helper()
	want := []inbox.Count{{User: "nobody"}}
	for _, user := range users {
		page, err := w.Read(t.Context(), user, inbox.Request{Limit: 1, Peek: true})
		require.NoError(t, err)
		want = append(want, inbox.Count{User: user, Tally: page.Tally, Complete: page.Complete})
	}
	asked := append([]message.UserID{"nobody"}, users...)
	got, err := w.Counts(t.Context(), append(asked, asked...))
	require.NoError(t, err)
	require.Equal(t, append(want, want...), got)
}

// Counts of many inboxes are those of their pages, whatever has happened to the inboxes.
func TestCountsAreThoseOfPages(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		t.Helper()
		for seed := range uint64(4) {
			random := rand.New(rand.NewPCG(seed, 3))
			users := make([]message.UserID, 12)
			for i := range users {
				users[i] = message.UserID(fmt.Sprintf("user-%d-%d", seed, i))
				require.NoError(t, storetest.See(t.Context(), w.Users, w.Clock.Now(), rig.DormantAfter, users[i]))
			}
			for range 3 {
				for _, user := range users {
					w.change(t, random, user)
				}
				w.requireCounted(t, users...)
			}
		}
	})
}

// change does something to an inbox: messages arrive, some late and some in a gap, are read, deleted, expire, and buckets change their size.
func (w *world) change(t *testing.T, random *rand.Rand, user message.UserID) {
	t.Helper()
	now := int(w.Clock.Now().Sub(rig.Epoch) / time.Millisecond)
	for range 1 + random.IntN(4) {
		some := id(random.IntN(now + 200))
		switch random.IntN(6) {
		case 0, 1:
			from := random.IntN(now + 100)
			w.fill(t, user, from, from+random.IntN(60))
		case 2:
			if gaps := w.State(t.Context(), t, user).Gaps; len(gaps) > 0 && random.IntN(2) == 0 {
				some = id(int(gaps[0].After.Sub(rig.Epoch)/time.Millisecond) + 1 + random.IntN(3))
			}
			err := w.Delete(t.Context(), user, some)
			if err != nil {
				require.ErrorIs(t, err, bucket.ErrNotFound)
			}
		case 3:
			require.NoError(t, w.MarkRead(t.Context(), user, some))
		case 4:
			_, err := w.Purge(t.Context(), user, at(random.IntN(now+1)), false)
			require.NoError(t, err)
		case 5:
			w.addGap(t, user)
		}
	}
	w.Clock.Advance(50 * time.Millisecond)
}

// addGap gives a user a gap with three messages, above all others.
func (w *world) addGap(t *testing.T, user message.UserID) {
	t.Helper()
	now := int(w.Clock.Now().Sub(rig.Epoch) / time.Millisecond)
	state := w.State(t.Context(), t, user)
	if n := len(state.Gaps); n > 0 && !state.Gaps[n-1].Before.Before(at(now+1000)) {
		return
	}
	w.send(t, user, now+1001, now+1004)
	next := state
	next.Gaps = append(slices.Clip(next.Gaps), userstate.Gap{After: at(now + 1000), Before: at(now + 1010), Messages: 3})
	stepped, err := w.Users.Step(t.Context(), []userstate.Step{{From: state, To: next}})
	require.NoError(t, err)
	require.True(t, stepped[0].Applied)
	w.Clock.Advance(2 * time.Second)
}

// A count is no view: it changes no record and starts no rehydration. It says that an inbox is not complete while something is missing in it.
func TestCountsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.Clock.Now()
	require.NoError(t, storetest.See(t.Context(), w.Users, now, rig.DormantAfter, "ann", "away", "back"))
	for _, user := range []message.UserID{"ann", "away", "back", "never"} {
		w.fill(t, user, 0, 3)
	}
	w.Clock.Advance(rig.DormantAfter - time.Minute)
	require.NoError(t, storetest.See(t.Context(), w.Users, w.Clock.Now(), rig.DormantAfter, "ann"))
	w.Clock.Advance(2 * time.Minute)
	_, err := w.rehydrator.Arrive(t.Context(), "back", w.Clock.Now())
	require.NoError(t, err)
	users := []message.UserID{"ann", "away", "back", "never"}
	before := make(map[message.UserID]userstate.State)
	for _, user := range users {
		before[user] = w.State(t.Context(), t, user)
	}
	require.True(t, before["back"].Rehydrating())
	got, err := w.Counts(t.Context(), users)
	require.NoError(t, err)
	three := bucket.Tally{Total: 3, Unread: 3, Unseen: 3}
	require.Equal(t, []inbox.Count{
		{User: "ann", Tally: three, Complete: true}, {User: "away", Tally: three}, {User: "back", Tally: three}, {User: "never"},
	}, got)
	for _, user := range users {
		require.Equal(t, before[user], w.State(t.Context(), t, user))
	}
	w.work(t)
	got, err = w.Counts(t.Context(), []message.UserID{"back"})
	require.NoError(t, err)
	require.True(t, got[0].Complete)
	none, err := w.Counts(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

// Damaged records hurt the count of one user.
func TestCountsOfDamagedInboxes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	metrics := prometheus.NewRegistry()
	service := inbox.New(
		inbox.Stores{Buckets: w.Inbox, Users: w.Users, Appender: w.Appender, Flags: w.Flags}, w.rehydrator,
		inbox.Options{Rules: rig.Rules, Now: w.Clock.Now, Metrics: metrics},
	)
	users := []message.UserID{"ann", "bucket", "cy", "inbox", "dee", "state", "eve"}
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, users...))
	want := make([]inbox.Count, len(users))
	for i, user := range users {
		w.fill(t, user, 0, 160)
		want[i] = inbox.Count{User: user, Tally: bucket.Tally{Total: 89, Unread: 89, Unseen: 89}, Complete: true}
	}
	w.Clock.Advance(time.Second)
	for _, user := range users {
		_, err := w.Purge(t.Context(), user, at(70), false)
		require.NoError(t, err)
	}
	got, err := service.Counts(t.Context(), users)
	require.NoError(t, err)
	require.Equal(t, want, got)

	w.Damage.Bucket("bucket", 1)
	w.Damage.Inbox("inbox")
	w.Damage.State("state")
	for i, user := range users {
		if i%2 == 1 {
			want[i] = inbox.Count{User: user}
		}
	}
	got, err = service.Counts(t.Context(), users)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(`
		# HELP fanmail_inbox_damaged_total Inboxes that were to be counted, and that an answer leaves out because they are damaged.
		# TYPE fanmail_inbox_damaged_total counter
		fanmail_inbox_damaged_total 3
	`), "fanmail_inbox_damaged_total"))
}
