package retention_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// entries is what each of the inboxes holds at first: 40 full buckets.
const entries = 40 * bucket.Capacity

// newInboxes returns stores with users who have many entries, all but 10 of which have expired.
func newInboxes(t *testing.T, users ...message.UserID) (*rig.Rig, *buckettest.Seam) {
	t.Helper()
	r, err := rig.Open(t.Context(), rig.NewClock(), nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	for _, user := range users {
		var all []bucket.Entry
		for n := 1; n <= entries; n++ {
			all = append(all, bucket.EntryOf(messagetest.Message(n, "author")))
		}
		_, err := r.Appender.Append(t.Context(), []bucket.Append{{Owner: user, Entries: all}})
		require.NoError(t, err)
		none, err := userstate.Get(t.Context(), r.Users, user)
		require.NoError(t, err)
		to := none
		to.LastViewed, to.Horizon = rig.Epoch, rig.Epoch.Add(rig.DormantAfter)
		to.Purged = message.LastBefore(messagetest.ID(entries - 10).Time().Add(time.Millisecond))
		stepped, err := r.Users.Step(t.Context(), []userstate.Step{{From: none, To: to}})
		require.NoError(t, err)
		require.True(t, stepped[0].Applied)
	}
	return r, &buckettest.Seam{Store: r.Inbox}
}

// left counts the entries of an inbox that have their contents.
func left(t *testing.T, store bucket.Store, user message.UserID) (n int) {
	t.Helper()
	buckets, err := store.Range(t.Context(), user, 0, entries, entries, bucket.AllFields)
	require.NoError(t, err)
	for _, b := range buckets {
		for _, e := range b.Entries {
			if e.From != "" {
				n++
			}
		}
	}
	return n
}

func options(queue int) retention.EmptierOptions {
	return retention.EmptierOptions{Rate: 1_000_000, Queue: queue, Logger: zerolog.Nop()}
}

// The users in the queue are emptied one after the other. Those who do not fit are left to the walk.
func TestEmptierServesItsQueue(t *testing.T) {
	t.Parallel()
	users := []message.UserID{"ann", "ben", "cleo"}
	r, seam := newInboxes(t, users...)
	emptier := retention.NewEmptier(seam, r.Users, options(2))
	for _, user := range []message.UserID{"ann", "ann", "ben", "cleo", "nobody"} {
		emptier.Queue(user)
	}
	intake, stop := context.WithCancel(t.Context())
	seam.After = func(_ context.Context, op *buckettest.Op) error {
		if op.Method == "Empty" && left(t, r.Inbox, "ben") <= 10 {
			stop()
		}
		return nil
	}
	emptier.Run(intake, t.Context())
	for i, want := range []int{10, 10, entries} {
		require.Equal(t, want, left(t, r.Inbox, users[i]), "%s", users[i])
	}

	walker := retention.NewWalker(&memory{}, r.Users, retention.Options{
		Keep: func(ctx context.Context, s userstate.State, _ message.ID) (retention.Kept, error) {
			return retention.Kept{}, emptier.Empty(ctx, s)
		},
		Every: every, Partitions: rig.Partitions, Token: "token", Rules: rig.Rules,
		Retention: func() userstate.Retention { return userstate.Retention{} },
		Now:       func() time.Time { return rig.Epoch }, Logger: zerolog.Nop(),
	})
	require.NoError(t, walker.Walk(t.Context(), t.Context()))
	require.Equal(t, 10, left(t, r.Inbox, "cleo"))
}

// What a store does not empty is left to the walk, and the queue goes on.
func TestEmptierGoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	r, seam := newInboxes(t, "ann", "ben")
	emptier := retention.NewEmptier(seam, r.Users, options(2))
	intake, stop := context.WithCancel(t.Context())
	failed := 0
	seam.Before = func(_ context.Context, op *buckettest.Op) error {
		if op.Method == "Heads" && failed == 0 {
			failed++
			return errors.New("broken")
		}
		return nil
	}
	seam.After = func(_ context.Context, op *buckettest.Op) error {
		if op.Method == "Empty" && left(t, r.Inbox, "ben") <= 10 {
			stop()
		}
		return nil
	}
	emptier.Queue("ann")
	emptier.Queue("ben")
	emptier.Run(intake, t.Context())
	require.Equal(t, entries, left(t, r.Inbox, "ann"))
	require.Equal(t, 10, left(t, r.Inbox, "ben"))
}

// A user without a purge point costs no call of the store, and one who was emptied before few.
func TestEmptierCosts(t *testing.T) {
	t.Parallel()
	r, seam := newInboxes(t, "ann")
	emptier := retention.NewEmptier(seam, r.Users, options(1))
	calls := 0
	seam.Before = func(context.Context, *buckettest.Op) error {
		calls++
		return nil
	}
	require.NoError(t, emptier.Empty(t.Context(), userstate.State{User: "ben"}))
	require.Zero(t, calls)
	state, err := userstate.Get(t.Context(), r.Users, "ann")
	require.NoError(t, err)
	require.NoError(t, emptier.Empty(t.Context(), state))
	require.Equal(t, 10, left(t, r.Inbox, "ann"))
	calls = 0
	require.NoError(t, emptier.Empty(t.Context(), state))
	require.LessOrEqual(t, calls, 6)
}
