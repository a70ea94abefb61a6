package retention_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// agedWorld is a rig in which messages expire when they are a day old. Ann is active, and ben was last seen two days ago. Both follow the
// author. It is three days after the epoch.
type agedWorld struct {
	*rig.Rig
	sent byte
}

func newAgedWorld(t *testing.T) *agedWorld { t.Helper(); return newAgedWorldOf(t, bucket.Capacity) }

// newAgedWorldOf is newAgedWorld with buckets of a size.
func newAgedWorldOf(t *testing.T, size int) *agedWorld {
	t.Helper()
	r, err := rig.OpenSized(t.Context(), rig.Embedded{}, size, rig.NewClock(), rig.NewBus(t, rig.Partitions), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	_, err = r.Edges.Follow(t.Context(), []follow.Pair{{Follower: "ann", Followee: "author"}, {Follower: "ben", Followee: "author"}}, rig.Epoch)
	require.NoError(t, err)
	w := &agedWorld{Rig: r}
	w.Clock.Advance(day)
	require.NoError(t, w.see(t, "ben"))
	w.Clock.Advance(2 * day)
	require.NoError(t, w.see(t, "ann"))
	r.Retention.Store(&userstate.Retention{MaxAge: day})
	return w
}

func (w *agedWorld) see(t *testing.T, user message.UserID) error {
	t.Helper()
	none, err := userstate.Get(t.Context(), w.Users, user)
	require.NoError(t, err)
	to := none
	to.LastViewed, to.Horizon = w.Clock.Now(), w.Clock.Now().Add(rig.DormantAfter)
	_, err = w.Users.Step(t.Context(), []userstate.Step{{From: none, To: to}})
	return err
}

// store stores a message that was sent so long ago, and appends it to the inboxes of users.
func (w *agedWorld) store(t *testing.T, age time.Duration, owners ...message.UserID) message.ID {
	t.Helper()
	w.sent++
	m := message.Message{ID: message.MinID(w.Clock.Now().Add(-age)), From: "author", Audience: message.AudienceFollowers, Body: "body"}
	m.ID[6], m.ID[8], m.ID[15] = 0x70, 0x80, w.sent
	_, err := w.Messages.Insert(t.Context(), []message.Message{m}, message.Timing{Slack: message.MaxSlack, Tolerance: message.MaxSlack})
	require.NoError(t, err)
	for _, owner := range owners {
		_, err := w.Appender.Append(t.Context(), []bucket.Append{{Owner: owner, Entries: []bucket.Entry{bucket.EntryOf(m)}}})
		require.NoError(t, err)
	}
	return m.ID
}

// keep keeps a user, and requires how many messages expire.
func (w *agedWorld) keep(t *testing.T, user message.UserID, target message.ID, expired int64) message.ID {
	t.Helper()
	before := w.State(t.Context(), t, user)
	kept, err := w.Walker(0).Keep(t.Context(), before, retention.Round{AsOf: w.Clock.Now(), Target: target})
	require.NoError(t, err)
	require.Equal(t, expired, kept.Expired)
	return kept.Clear
}

// What is old enough expires, whatever the order in which it came. The entries lose their contents.
func TestKeepExpiresByAge(t *testing.T) {
	t.Parallel()
	w := newAgedWorld(t)
	w.store(t, 30*time.Hour, "ann")
	young := w.store(t, 23*time.Hour, "ann")
	limit := message.LastBefore(w.Clock.Now().Add(-day))
	reached := w.keep(t, "ann", message.ID{}, 1)
	require.False(t, reached.Less(limit))
	require.True(t, reached.Less(young))
	require.Equal(t, limit, w.State(t.Context(), t, "ann").Purged)
	shown, _ := w.ReadInbox(t.Context(), t, "ann", 10)
	require.Equal(t, []message.ID{young}, shown)

	settled := w.State(t.Context(), t, "ann")
	w.Clock.Advance(time.Minute)
	w.keep(t, "ann", message.ID{}, 0)
	require.Equal(t, settled, w.State(t.Context(), t, "ann"), "nothing is written if nothing expires")

	w.Clock.Advance(-time.Minute)
	w.store(t, 23*time.Hour+50*time.Minute, "ann") // late: it comes after a younger one
	w.Clock.Advance(15 * time.Minute)
	w.keep(t, "ann", message.ID{}, 1)
	shown, _ = w.ReadInbox(t.Context(), t, "ann", 10)
	require.Equal(t, []message.ID{young}, shown)
}

// A user's own age holds, unless the deployment's is shorter, be it lowered later.
func TestKeepOfAUserWithARetention(t *testing.T) {
	t.Parallel()
	w := newAgedWorld(t)
	w.Retention.Store(new(userstate.Retention))
	from := w.State(t.Context(), t, "ann")
	to := from
	to.Keep.MaxAge = 20 * time.Hour
	_, err := w.Users.Step(t.Context(), []userstate.Step{{From: from, To: to}})
	require.NoError(t, err)
	for _, age := range []time.Duration{30 * time.Hour, 21 * time.Hour, 19 * time.Hour, 11 * time.Hour, 9 * time.Hour} {
		w.store(t, age, "ann")
	}
	w.keep(t, "ann", message.ID{}, 2)
	w.Retention.Store(&userstate.Retention{MaxAge: day})
	w.keep(t, "ann", message.ID{}, 0)
	w.Retention.Store(&userstate.Retention{MaxAge: 10 * time.Hour})
	w.keep(t, "ann", message.ID{}, 2)
	require.Equal(t, message.LastBefore(w.Clock.Now().Add(-10*time.Hour)), w.State(t.Context(), t, "ann").Purged)
}

// A late message in a bucket above that of the oldest one expires, too.
func TestKeepFindsLateMessages(t *testing.T) {
	t.Parallel()
	w := newAgedWorldOf(t, 1)
	w.store(t, 20*time.Hour, "ann")
	w.store(t, 19*time.Hour, "ann")
	w.store(t, 25*time.Hour, "ann")
	w.keep(t, "ann", message.ID{}, 1)
	shown, _ := w.ReadInbox(t.Context(), t, "ann", 10)
	require.Len(t, shown, 2)
}

// The messages that a dormant user has missed expire, too. Nothing is written if there are none.
func TestKeepOfADormantUser(t *testing.T) {
	t.Parallel()
	w := newAgedWorld(t)
	before := w.State(t.Context(), t, "ben")
	w.store(t, 23*time.Hour)
	require.False(t, w.keep(t, "ben", message.ID{}, 0).Less(message.LastBefore(w.Clock.Now().Add(-day))))
	require.Equal(t, before, w.State(t.Context(), t, "ben"))
	w.store(t, 30*time.Hour)
	w.keep(t, "ben", message.ID{}, 0) // it was never in the inbox
	require.Equal(t, message.LastBefore(w.Clock.Now().Add(-day)), w.State(t.Context(), t, "ben").Purged)
}

// A full bucket of deleted messages goes when they are old enough, although nothing expires.
func TestKeepOfDeletedMessages(t *testing.T) {
	t.Parallel()
	w := newAgedWorldOf(t, 2)
	for range 3 {
		require.NoError(t, w.Inboxes(0).Delete(t.Context(), "ann", w.store(t, 30*time.Hour, "ann")))
	}
	w.keep(t, "ann", message.ID{}, 0)
	state := w.State(t.Context(), t, "ann")
	require.EqualValues(t, 1, state.Oldest)
	w.Clock.Advance(time.Minute)
	w.keep(t, "ann", message.ID{}, 0)
	require.Equal(t, state, w.State(t.Context(), t, "ann"), "the last bucket is not full")
}

// Where nothing expires, nothing is read of a user but the record.
func TestKeepReadsNothing(t *testing.T) {
	t.Parallel()
	w := newAgedWorld(t)
	w.Retention.Store(new(userstate.Retention))
	stores := w.RetentionStores()
	stores.Buckets, stores.Messages = nil, nil // a read would panic
	kept, err := retention.New(stores, nil, w.RetentionOptions(0)).Keep(t.Context(), w.State(t.Context(), t, "ann"), retention.Round{AsOf: w.Clock.Now()})
	require.NoError(t, err)
	require.Equal(t, retention.Kept{Clear: message.MaxID}, kept)
}

// A gap that begins among what expires is cut.
func TestKeepCutsGaps(t *testing.T) {
	t.Parallel()
	w := newAgedWorld(t)
	from := w.State(t.Context(), t, "ann")
	w.store(t, 30*time.Hour)
	young := w.store(t, 23*time.Hour)
	to := from
	to.Gaps = []userstate.Gap{{After: w.Clock.Now().Add(-31 * time.Hour), Before: w.Clock.Now().Add(-22 * time.Hour), Messages: 2}}
	stepped, err := w.Users.Step(t.Context(), []userstate.Step{{From: from, To: to}})
	require.NoError(t, err)
	require.True(t, stepped[0].Applied)
	w.keep(t, "ann", message.ID{}, 1)
	state := w.State(t.Context(), t, "ann")
	require.Len(t, state.Gaps, 1)
	require.EqualValues(t, 1, state.Gaps[0].Messages)
	shown, _ := w.ReadInbox(t.Context(), t, "ann", 10)
	require.Equal(t, []message.ID{young}, shown)
}

// No purge point rises by age above what may still arrive, nor to a target that a longer age has made too high.
func TestKeepIsBounded(t *testing.T) {
	t.Parallel()
	w := newAgedWorld(t)
	settled := message.LastBefore(w.Clock.Now().Add(-rig.Slack - rig.ClockTolerance))
	w.store(t, 30*time.Hour, "ann")
	w.Retention.Store(&userstate.Retention{MaxAge: 7 * day})
	reached := w.keep(t, "ann", settled, 0)
	require.True(t, reached.Less(settled), "the target is missed")
	w.Retention.Store(&userstate.Retention{MaxAge: time.Second})
	w.store(t, rig.Slack/2, "ann")
	w.keep(t, "ann", message.ID{}, 1)
	require.Equal(t, settled, w.State(t.Context(), t, "ann").Purged)
}

// The target of a round expires even if the clock of the process that continues the round is a little behind. Users who were never seen have
// nothing.
func TestKeepReachesTheTarget(t *testing.T) {
	t.Parallel()
	w := newAgedWorld(t)
	w.store(t, day+time.Millisecond, "ann")
	target := message.LastBefore(w.Clock.Now().Add(-day - time.Millisecond/2))
	w.keep(t, "ann", target, 1)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "cleo"))
	require.Equal(t, message.MaxID, w.keep(t, "nobody", target, 0))
}

// A user who returns finds only what has not expired, as if they had never left. The first look begins at the target of the walk.
func TestReturnAfterMessagesExpired(t *testing.T) {
	t.Parallel()
	w := newAgedWorld(t)
	w.store(t, 30*time.Hour)
	young := w.store(t, 23*time.Hour)
	target := message.LastBefore(w.Clock.Now().Add(-25 * time.Hour))
	for _, user := range []message.UserID{"ben", "new"} {
		_, err := w.Edges.Follow(t.Context(), []follow.Pair{{Follower: user, Followee: "author"}}, rig.Epoch)
		require.NoError(t, err)
		round, err := w.DB.Walk.Load(t.Context())
		require.NoError(t, err)
		next := retention.Round{AsOf: w.Clock.Now()}
		if user == "new" { // only the target says what has expired
			next = retention.Round{Target: target}
		}
		require.NoError(t, w.DB.Walk.Replace(t.Context(), round, next))
		s := w.Rehydrator(0, 0)
		_, err = s.Login(t.Context(), user, w.Clock.Now(), 0)
		require.NoError(t, err)
		if user == "new" {
			require.Equal(t, target, w.State(t.Context(), t, user).Purged, "before the inbox is rebuilt")
		}
		require.True(t, s.Work(t.Context()))
		shown, page := w.ReadInbox(t.Context(), t, user, 10)
		require.True(t, page.Complete)
		require.Equal(t, []message.ID{young}, shown, "%s", user)
	}
}
