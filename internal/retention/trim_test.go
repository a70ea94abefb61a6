package retention_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// newTrimmedWorld is newAgedWorld where inboxes keep their newest messages.
func newTrimmedWorld(t *testing.T, newest int64) *agedWorld {
	t.Helper()
	w := newAgedWorldOf(t, 2)
	w.Retention.Store(&userstate.Retention{Newest: newest})
	return w
}

// storeMany stores messages for ann, a minute apart, the last one that long ago.
func (w *agedWorld) storeMany(t *testing.T, n int, last time.Duration) (ids []message.ID) {
	t.Helper()
	for i := range n {
		ids = append(ids, w.store(t, last+time.Duration(n-1-i)*time.Minute, "ann"))
	}
	return ids
}

// requireLeft demands how many messages a trim lets expire, and that the newest ones are left.
func (w *agedWorld) requireLeft(t *testing.T, expired int64, left ...message.ID) {
	t.Helper()
	before := w.State(t.Context(), t, "ann")
	after, n, err := w.Walker(0).Trim(t.Context(), before)
	require.NoError(t, err)
	require.Equal(t, expired, n)
	require.Equal(t, after, w.State(t.Context(), t, "ann"))
	if expired == 0 {
		require.Equal(t, before, after, "nothing is written if nothing expires")
	}
	shown, _ := w.ReadInbox(t.Context(), t, "ann", 100)
	slices.Reverse(shown)
	require.Equal(t, left, shown)
}

// The oldest messages expire as soon as there are a quarter more than are kept.
func TestTrim(t *testing.T) {
	t.Parallel()
	w := newTrimmedWorld(t, 4)
	ids := w.storeMany(t, 5, time.Hour)
	w.requireLeft(t, 0, ids...)
	ids = append(ids, w.storeMany(t, 1, time.Minute)...)
	w.requireLeft(t, 2, ids[2:]...)
	w.requireLeft(t, 0, ids[2:]...)
	late := w.storeMany(t, 1, 30*time.Minute)[0]
	ids = slices.Insert(ids, 5, late)
	w.requireLeft(t, 0, ids[2:]...)
	require.NoError(t, w.Inboxes(0).Delete(t.Context(), "ann", ids[6]))
	require.NoError(t, w.Inboxes(0).Delete(t.Context(), "ann", ids[3]))
	ids = append(slices.Clone(ids[2:3]), ids[4:6]...)
	w.requireLeft(t, 0, ids...)
	w.Clock.Advance(time.Hour)
	ids = append(ids, w.storeMany(t, 3, time.Minute)...)
	w.requireLeft(t, 2, ids[2:]...)
}

// The records of deleted messages go, too, although nothing expires, as soon as as many messages came later as are kept.
func TestTrimOfDeletedMessages(t *testing.T) {
	t.Parallel()
	w := newTrimmedWorld(t, 4)
	ids := w.storeMany(t, 8, time.Hour)
	for _, id := range ids[:4] {
		require.NoError(t, w.Inboxes(0).Delete(t.Context(), "ann", id))
	}
	_, expired, err := w.Walker(0).Trim(t.Context(), w.State(t.Context(), t, "ann"))
	require.NoError(t, err)
	require.Zero(t, expired)
	state := w.State(t.Context(), t, "ann")
	require.EqualValues(t, 2, state.Oldest, "both buckets go")
	w.requireLeft(t, 0, ids[4:]...)
}

// Messages that were sent in the same millisecond expire together, and nothing is written while they stay.
func TestTrimOfOneMillisecond(t *testing.T) {
	t.Parallel()
	w := newTrimmedWorld(t, 2)
	ids := []message.ID{w.store(t, time.Hour, "ann"), w.store(t, time.Hour, "ann"), w.store(t, time.Hour, "ann"), w.store(t, time.Hour, "ann")}
	w.requireLeft(t, 0, ids...)
	later := w.storeMany(t, 2, time.Minute)
	w.requireLeft(t, 4, later...)
}

// Messages that may not have settled remain: a clock that is ahead lets no message expire that others publish now.
func TestTrimIsBounded(t *testing.T) {
	t.Parallel()
	w := newTrimmedWorld(t, 2)
	ahead := w.storeMany(t, 3, -time.Hour)
	opts := w.RetentionOptions(0)
	opts.Clock = func(context.Context) (time.Time, bool, error) { return w.Clock.Now().Add(2 * time.Hour), false, nil }
	_, expired, err := retention.New(w.RetentionStores(), w.Rehydrator(0, 0), opts).Trim(t.Context(), w.State(t.Context(), t, "ann"))
	require.NoError(t, err)
	require.Zero(t, expired, "a clock is off")
	w.requireLeft(t, 0, ahead...)
	young := w.store(t, rig.Slack, "ann")
	w.requireLeft(t, 0, append([]message.ID{young}, ahead...)...)
	w.store(t, rig.Slack+rig.ClockTolerance+time.Millisecond, "ann")
	w.requireLeft(t, 1, append([]message.ID{young}, ahead...)...)
	require.Equal(t, rig.Rules().Settled(w.Clock.Now()), w.State(t.Context(), t, "ann").Purged)
}

// A user's own number counts, with or without one of the deployment. It does not matter for others.
func TestTrimToAUsersOwnNumber(t *testing.T) {
	t.Parallel()
	for _, deployment := range []int64{0, 100, 1} {
		w := newTrimmedWorld(t, deployment)
		ids := w.storeMany(t, 10, time.Hour)
		for _, own := range []int64{8, 3} {
			w.change(t, "ann", func(s *userstate.State) { s.Keep.Newest = own })
			expired := map[int64]int64{8: 0, 3: 7}[own]
			w.requireLeft(t, expired, ids[expired:]...)
		}
	}
}

// change changes a user's record.
func (w *agedWorld) change(t *testing.T, user message.UserID, change func(*userstate.State)) {
	t.Helper()
	from := w.State(t.Context(), t, user)
	to := from
	change(&to)
	stepped, err := w.Users.Step(t.Context(), []userstate.Step{{From: from, To: to}})
	require.NoError(t, err)
	require.True(t, stepped[0].Applied)
}

// The messages of a gap count, and the gap is cut if the last one to keep lies in it.
func TestTrimCutsGaps(t *testing.T) {
	t.Parallel()
	w := newTrimmedWorld(t, 4)
	ids := w.storeMany(t, 1, 9*time.Hour)
	for n := range 6 {
		ids = append(ids, w.store(t, time.Duration(8-n)*time.Hour))
	}
	ids = append(ids, w.storeMany(t, 2, time.Hour)...)
	w.change(t, "ann", func(s *userstate.State) {
		s.Gaps = []userstate.Gap{{After: ids[1].Time().Add(-time.Millisecond), Before: ids[6].Time().Add(time.Millisecond), Messages: 6}}
	})
	w.requireLeft(t, 5, ids[5:]...)
	gaps := w.State(t.Context(), t, "ann").Gaps
	require.Len(t, gaps, 1)
	require.EqualValues(t, 2, gaps[0].Messages)
}

// A gap that another process makes while a trim runs is cut as it is when the purge point rises.
func TestTrimCutsAGapThatWasMadeMeanwhile(t *testing.T) {
	t.Parallel()
	w := newTrimmedWorld(t, 2)
	old := w.store(t, 20*time.Hour)
	ids := w.storeMany(t, 4, time.Hour)
	before := w.State(t.Context(), t, "ann")
	w.change(t, "ann", func(s *userstate.State) {
		s.Gaps = []userstate.Gap{{After: old.Time().Add(-time.Hour), Before: old.Time().Add(time.Hour), Messages: 1}}
	})
	after, expired, err := w.Walker(0).Trim(t.Context(), before)
	require.NoError(t, err)
	require.EqualValues(t, 3, expired)
	require.Empty(t, after.Gaps)
	shown, _ := w.ReadInbox(t.Context(), t, "ann", 100)
	require.ElementsMatch(t, ids[2:], shown)
}

// A trim reads the user's record, and no message, unless there are a quarter more than are kept.
func TestTrimCosts(t *testing.T) {
	t.Parallel()
	w := newTrimmedWorld(t, 40)
	w.storeMany(t, 50, time.Hour)
	var calls []string
	seam := &buckettest.Seam{Store: w.Inbox, Before: func(_ context.Context, op *buckettest.Op) error {
		calls = append(calls, op.Method)
		return nil
	}}
	trimmer := server(w.Rig, seam, 1)
	require.NoError(t, trimmer.TrimUser(t.Context(), "ann"))
	require.Equal(t, []string{"Heads"}, calls)
	w.storeMany(t, 2, time.Minute)
	require.NoError(t, trimmer.TrimUser(t.Context(), "ann"))
	require.Positive(t, w.State(t.Context(), t, "ann").Oldest)
	calls = nil
	require.NoError(t, trimmer.TrimUser(t.Context(), "ann"))
	require.NotContains(t, calls, "Delete")
	require.LessOrEqual(t, len(calls), 5)
	calls = nil
	require.NoError(t, trimmer.TrimUser(t.Context(), "nobody"))
	w.Retention.Store(&userstate.Retention{MaxAge: day})
	require.NoError(t, trimmer.TrimUser(t.Context(), "ann"))
	require.Empty(t, calls)
	w.Retention.Store(&userstate.Retention{Newest: math.MaxInt64})
	require.NoError(t, trimmer.TrimUser(t.Context(), "ann"))
	require.Equal(t, []string{"Heads"}, calls, "a quarter more is no number of 64 bits")
}

// noted is a store of buckets that notes whose buckets are emptied.
type noted struct {
	bucket.Store
	emptied func(message.UserID)
}

func (n noted) Empty(ctx context.Context, owner message.UserID, low, high uint32, purged message.ID) (bucket.Emptied, error) {
	defer n.emptied(owner)
	return n.Store.Empty(ctx, owner, low, high, purged)
}

// stopAfter returns a store of buckets that calls stop when buckets of so many users have been emptied.
func stopAfter(buckets bucket.Store, users int, stop func()) bucket.Store {
	var mu sync.Mutex
	emptied := make(map[message.UserID]bool)
	return noted{buckets, func(user message.UserID) {
		mu.Lock()
		defer mu.Unlock()
		if emptied[user] = true; len(emptied) == users {
			stop()
		}
	}}
}

// brokenInboxes is a store in which two inboxes cannot be read.
type brokenInboxes struct{ bucket.Store }

func (b brokenInboxes) Heads(ctx context.Context, hints []bucket.Head) ([]bucket.Bucket, error) {
	switch hints[0].Owner {
	case "bad":
		return nil, errors.New("broken")
	case "worse":
		panic("a bug")
	}
	return b.Store.Heads(ctx, hints)
}

// Inboxes that grow by a bucket are trimmed. One for which the store fails, or the code panics, does not stop the others.
func TestServeTrimsInboxesThatGrow(t *testing.T) {
	t.Parallel()
	w := newTrimmedWorld(t, 4)
	require.NoError(t, w.see(t, "bad"))
	require.NoError(t, w.see(t, "worse"))
	intake, stop := context.WithCancel(t.Context())
	trimmer := server(w.Rig, stopAfter(brokenInboxes{w.Inbox}, 2, stop), 10)
	w.Appender = w.Appender.WithOpened(trimmer.Grown)
	for i := range 8 {
		w.store(t, time.Duration(10-i)*time.Hour, "bad", "worse", "ann", "ben")
	}
	trimmer.Serve(intake, t.Context())
	for user, left := range map[message.UserID]int{"ann": 4, "ben": 4, "bad": 8, "worse": 8} {
		shown, _ := w.ReadInbox(t.Context(), t, user, 100)
		require.Len(t, shown, left, "%s", user)
	}
}

// The walk trims inboxes whose owners were not queued, and knows afterwards up to where nothing is left.
func TestKeepExpiresByNumber(t *testing.T) {
	t.Parallel()
	w := newTrimmedWorld(t, 4)
	ids := w.storeMany(t, 10, time.Hour)
	w.keep(t, "ann", message.ID{}, 6)
	require.Equal(t, message.LastBefore(ids[6].Time()), w.State(t.Context(), t, "ann").Purged)
	w.Retention.Store(&userstate.Retention{Newest: 2, MaxAge: time.Hour + 90*time.Second})
	w.keep(t, "ann", message.ID{}, 2)
	require.Equal(t, message.LastBefore(w.Clock.Now().Add(-time.Hour-90*time.Second)), w.State(t.Context(), t, "ann").Purged)
	w.keep(t, "ann", message.ID{}, 0)
}

// The records of users who wait are read together, each user is trimmed once, and one whose record is damaged does not stop the others.
func TestServeReadsRecordsTogether(t *testing.T) {
	t.Parallel()
	w := newTrimmedWorld(t, 4)
	users := []message.UserID{"ann", "ben", "cleo", "dora"}
	require.NoError(t, w.see(t, "cleo"))
	require.NoError(t, w.see(t, "dora"))
	for i := range 8 {
		w.store(t, time.Duration(10-i)*time.Hour, users...)
	}
	w.Damage.State("ben")
	intake, stop := context.WithCancel(t.Context())
	reads := &countedUsers{Store: w.Users}
	stores := w.RetentionStores()
	stores.Users, stores.Buckets = reads, stopAfter(w.Inbox, len(users)-1, stop)
	trimmer := retention.New(stores, w.Rehydrator(0, 0), w.RetentionOptions(0))
	for _, user := range []message.UserID{"dora", "ann", "ben", "ann", "cleo"} {
		trimmer.Grown(user)
	}
	trimmer.Serve(intake, t.Context())
	require.Equal(t, 1, reads.lookups)
}

// A worker leaves the others their share of the users who wait.
func TestServersShareTheQueue(t *testing.T) {
	t.Parallel()
	w := newTrimmedWorld(t, 4)
	intake, stop := context.WithCancel(t.Context())
	reads := &countedUsers{Store: w.Users, users: 8, read: stop}
	stores, opts := w.RetentionStores(), w.RetentionOptions(0)
	stores.Users, opts.Servers = reads, 2
	trimmer := retention.New(stores, w.Rehydrator(0, 0), opts)
	for _, user := range []message.UserID{"ann", "ben", "cleo", "dora", "ed", "flo", "gus", "hal"} {
		trimmer.Grown(user)
	}
	trimmer.Serve(intake, t.Context())
	require.Positive(t, reads.most)
	require.LessOrEqual(t, reads.most, 4)
}

// countedUsers counts the reads of records, and calls read when those of so many users were read.
type countedUsers struct {
	userstate.Store
	read func()

	mu      sync.Mutex
	users   int
	lookups int
	most    int // of one read
}

func (c *countedUsers) Lookup(ctx context.Context, users []message.UserID) ([]userstate.Looked, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lookups++
	c.most = max(c.most, len(users))
	if c.users -= len(users); c.users == 0 {
		c.read()
	}
	return c.Store.Lookup(ctx, users)
}
