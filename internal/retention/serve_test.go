package retention_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

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
	buckets, err := bucket.ReadSection(t.Context(), store, bucket.Section{Owner: user, High: entries}, bucket.AllFields)
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

// server returns a walker on other buckets, in whose queue so many users may wait.
func server(r *rig.Rig, buckets bucket.Store, queue int) *retention.Walker {
	stores, opts := r.RetentionStores(), r.RetentionOptions(0)
	stores.Buckets, opts.Queue = buckets, queue
	return retention.New(stores, r.Rehydrator(0, 0), opts)
}

// The users in the queue are emptied. Those who do not fit are left to the walk.
func TestServeEmpties(t *testing.T) {
	t.Parallel()
	users := []message.UserID{"ann", "ben", "cleo"}
	r, seam := newInboxes(t, users...)
	walker := server(r, seam, 2)
	for _, user := range []message.UserID{"ann", "ann", "ben", "cleo", "nobody"} {
		walker.Purged(user)
	}
	intake, stop := context.WithCancel(t.Context())
	seam.After = func(_ context.Context, op *buckettest.Op) error {
		if op.Method == "Empty" && left(t, r.Inbox, "ben") <= 10 {
			stop()
		}
		return nil
	}
	walker.Serve(intake, t.Context())
	for i, want := range []int{10, 10, entries} {
		require.Equal(t, want, left(t, r.Inbox, users[i]), "%s", users[i])
	}
	require.NoError(t, walker.Walk(t.Context(), t.Context()))
	require.Equal(t, 10, left(t, r.Inbox, "cleo"))
}

// What a store does not empty is left to the walk, and the queue goes on.
func TestServeGoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	r, seam := newInboxes(t, "ann", "ben")
	walker := server(r, seam, 2)
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
	walker.Purged("ann")
	walker.Purged("ben")
	walker.Serve(intake, t.Context())
	require.Equal(t, entries, left(t, r.Inbox, "ann"))
	require.Equal(t, 10, left(t, r.Inbox, "ben"))
}

// A user without a purge point costs no call of the store, and one who was emptied before few.
func TestEmptyCosts(t *testing.T) {
	t.Parallel()
	r, seam := newInboxes(t, "ann")
	walker := server(r, seam, 1)
	calls := 0
	seam.Before = func(context.Context, *buckettest.Op) error {
		calls++
		return nil
	}
	require.NoError(t, walker.Empty(t.Context(), userstate.State{User: "ben"}))
	require.Zero(t, calls)
	state, err := userstate.Get(t.Context(), r.Users, "ann")
	require.NoError(t, err)
	require.NoError(t, walker.Empty(t.Context(), state))
	require.Equal(t, 10, left(t, r.Inbox, "ann"))
	calls = 0
	require.NoError(t, walker.Empty(t.Context(), state))
	require.LessOrEqual(t, calls, 6)
}

// The rate is that of buckets, and a tenth of that of other records: plans and messages together, and edges.
func TestRates(t *testing.T) {
	t.Parallel()
	rates := retention.New(retention.Stores{}, nil, retention.Options{Rate: 3}).Rates()
	require.Equal(t, [3]rate.Limit{3, 30, 30}, rates)
}
