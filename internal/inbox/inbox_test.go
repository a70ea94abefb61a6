package inbox_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience bounds what a test waits for; it is only used up when something is broken.
const patience = time.Minute

type world struct {
	*rig.Rig
	*inbox.Service
	rehydrator *rehydrate.Service
}

// newWorld returns a world in which only the test carries out rehydrations, by its rehydrator's Work.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, func(*rehydrate.Options) {})
}

func newWorldWith(t *testing.T, change func(*rehydrate.Options)) *world {
	t.Helper()
	return newWorldOn(t, rig.Embedded{}, bucket.Capacity, change)
}

func newWorldOn(t *testing.T, backend rig.Backend, size int, change func(*rehydrate.Options)) *world {
	t.Helper()
	r, err := rig.OpenSized(t.Context(), backend, size, rig.NewClock(), nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	opts := r.RehydrateOptions(0)
	change(&opts)
	w := &world{Rig: r, rehydrator: rehydrate.New(r.RehydrateStores(), opts)}
	w.Service = r.InboxesWith(w.rehydrator, 0)
	return w
}

// newRunningWorld returns a world in which rehydrations are carried out, and are waited for.
func newRunningWorld(t *testing.T) *world {
	t.Helper()
	w := newWorldWith(t, func(opts *rehydrate.Options) { opts.Patience = patience })
	w.run(t)
	return w
}

// run carries out rehydrations until the test has ended.
func (w *world) run(t *testing.T) {
	t.Helper()
	intake, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.rehydrator.Run(intake, context.WithoutCancel(intake))
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
}

// work carries out the rehydrations that wait.
func (w *world) work(t *testing.T) {
	t.Helper()
	for w.rehydrator.Work(t.Context()) {
	}
}

// send stores messages that name a user, the nth of them sent n milliseconds after the epoch.
func (w *world) send(t *testing.T, user message.UserID, from, to int) {
	t.Helper()
	var messages []message.Message
	for n := from; n < to; n++ {
		messages = append(messages, message.Message{ID: id(n), From: "author", To: []message.UserID{user}, Body: strconv.Itoa(n)})
	}
	_, err := w.Messages.Insert(t.Context(), messages, rig.Rules().Timing())
	require.NoError(t, err)
}

// seen records when one user was seen, and returns what came of it.
func (w *world) seen(t *testing.T, user message.UserID, at time.Time) error {
	t.Helper()
	errs, err := w.SetSeen(t.Context(), []inbox.Seen{{User: user, At: at}})
	require.NoError(t, err)
	require.Len(t, errs, 1)
	return errs[0]
}

func (w *world) lastViewed(t *testing.T, user message.UserID) time.Time {
	t.Helper()
	u, err := w.User(t.Context(), user)
	require.NoError(t, err)
	return u.State.LastViewed
}

func id(n int) message.ID {
	id := message.MinID(rig.Epoch.Add(time.Duration(n) * time.Millisecond))
	id[6], id[8] = 0x70, 0x80
	return id
}

func (w *world) fill(t *testing.T, user message.UserID, from, to int) {
	t.Helper()
	var entries []bucket.Entry
	for n := from; n < to; n++ {
		entries = append(entries, bucket.Entry{ID: id(n), From: "author", Body: strconv.Itoa(n)})
	}
	_, err := w.Appender.Append(t.Context(), []bucket.Append{{Owner: user, Entries: entries}})
	require.NoError(t, err)
}

func TestSetSeen(t *testing.T) {
	t.Parallel()
	now := rig.Epoch
	edge := now.Add(rig.ClockTolerance - rig.DormantAfter) // who was seen then is dormant now
	away := now.Add(-rig.DormantAfter - time.Minute)
	for name, test := range map[string]struct {
		before time.Time // zero for a user never seen
		at     time.Time
		err    error
		after  time.Time
		// rebuilt tells that the user goes through a rehydration that finds the message, which was sent now.
		rebuilt bool
	}{
		"never seen":                        {at: now, after: now, rebuilt: true},
		"never seen, long ago":              {at: now.Add(-2 * rig.DormantAfter), after: now.Add(-2 * rig.DormantAfter)},
		"active":                            {before: now.Add(-time.Minute), at: now, after: now},
		"active, the same again":            {before: now, at: now, after: now},
		"active, parts of a millisecond":    {before: now, at: now.Add(999 * time.Microsecond), after: now},
		"active, a clock a little ahead":    {before: now, at: now.Add(rig.ClockTolerance), after: now.Add(rig.ClockTolerance)},
		"active, a clock too far ahead":     {before: now, at: now.Add(rig.ClockTolerance + time.Millisecond), err: message.ErrInvalid, after: now},
		"active, backwards":                 {before: now, at: now.Add(-time.Millisecond), err: userstate.ErrBackwards, after: now},
		"active by a moment":                {before: edge.Add(time.Millisecond), at: now, after: now},
		"dormant since this moment":         {before: edge, at: now, after: now}, // what was sent now is fan-out's
		"dormant":                           {before: away, at: now, after: now, rebuilt: true},
		"dormant, a value from then":        {before: away, at: edge.Add(time.Minute), after: edge.Add(time.Minute), rebuilt: true},
		"dormant, the same again":           {before: edge, at: edge, after: edge},
		"dormant, backwards":                {before: edge, at: edge.Add(-time.Minute), err: userstate.ErrBackwards, after: edge},
		"before anything was ever recorded": {before: now, at: time.UnixMilli(0), err: message.ErrInvalid, after: now},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunningWorld(t)
			w.send(t, "ann", 0, 1)
			if !test.before.IsZero() {
				require.NoError(t, storetest.See(t.Context(), w.Users, test.before, rig.DormantAfter, "ann"))
			}
			err := w.seen(t, "ann", test.at)
			if test.err == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, test.err)
			}
			require.Equal(t, test.after, w.lastViewed(t, "ann"))
			ctx := t.Context()
			require.Eventually(t, func() bool { return w.State(ctx, t, "ann").Sweep == nil }, patience, time.Millisecond, "the sweep goes on")
			require.Equal(t, test.rebuilt, len(w.Buckets(t.Context(), t, "ann")) > 0, "nobody else appends the message")
		})
	}
}

// A caller whose patience has ended gets the answer that the inbox is not complete yet. The rebuilding continues.
func TestSetSeenIsImpatient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(t, "ann", 0, 1)
	require.ErrorIs(t, w.seen(t, "ann", rig.Epoch), rehydrate.ErrUnfinished)
	require.ErrorIs(t, w.MarkRead(t.Context(), "ann", id(0)), rehydrate.ErrUnfinished)
	w.work(t)
	require.NoError(t, w.seen(t, "ann", rig.Epoch), "said again")
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(0)))
	shown, _ := w.ReadInbox(t.Context(), t, "ann", 10)
	require.Equal(t, []message.ID{id(0)}, shown)
}

// Users who are named several times in a batch are taken one after the other.
func TestSetSeenNamedTwice(t *testing.T) {
	t.Parallel()
	w := newRunningWorld(t)
	at := func(s int) time.Time { return rig.Epoch.Add(time.Duration(s-60) * time.Second) }
	errs, err := w.SetSeen(t.Context(), []inbox.Seen{
		{"ann", at(1)}, {"bob", at(5)}, {"ann", at(3)}, {"", at(1)}, {"ann", at(2)}, {"bob", at(6)}, {"ann", at(4)},
	})
	require.NoError(t, err)
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	require.NoError(t, errs[2])
	require.ErrorIs(t, errs[3], message.ErrInvalid)
	require.ErrorIs(t, errs[4], userstate.ErrBackwards)
	require.NoError(t, errs[5])
	require.NoError(t, errs[6])
	require.Equal(t, at(4), w.lastViewed(t, "ann"))
	require.Equal(t, at(6), w.lastViewed(t, "bob"))
}

func TestReadingCountsAsViewing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		away     time.Duration
		peek     bool
		viewed   bool
		complete bool
		marked   bool
	}{
		"an active user reads":      {away: time.Minute, viewed: true, complete: true},
		"an active user peeks":      {away: time.Minute, peek: true, complete: true},
		"active by a moment":        {away: rig.DormantAfter - rig.ClockTolerance - time.Millisecond, viewed: true, complete: true},
		"dormant since this moment": {away: rig.DormantAfter - rig.ClockTolerance, viewed: true, marked: true},
		"a dormant user reads":      {away: 2 * rig.DormantAfter, viewed: true, marked: true},
		"a dormant user peeks":      {away: 2 * rig.DormantAfter, peek: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
			w.fill(t, "ann", 0, 60)
			w.Clock.Advance(test.away)
			page, err := w.Read(t.Context(), "ann", inbox.Request{Limit: 50, Peek: test.peek})
			require.NoError(t, err)
			require.Len(t, page.Entries, 50)
			require.Equal(t, test.complete, page.Complete)
			viewed := rig.Epoch
			if test.viewed {
				viewed = w.Clock.Now()
			}
			st := w.State(t.Context(), t, "ann")
			require.Equal(t, viewed, st.LastViewed)
			require.Equal(t, test.marked, st.Rehydrating())
			require.Equal(t, test.marked, w.rehydrator.Work(t.Context()))
			page, err = w.Read(t.Context(), "ann", inbox.Request{Limit: 50, Peek: true})
			require.NoError(t, err)
			require.Equal(t, test.complete || test.marked, page.Complete)
		})
	}
}

func TestReadingByAUserNeverSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Read(t.Context(), "ann", inbox.Request{Limit: 50, Peek: true})
	require.ErrorIs(t, err, userstate.ErrNotFound)
	_, err = w.CountBy(t.Context(), "ann", "from")
	require.ErrorIs(t, err, userstate.ErrNotFound)
	_, err = w.User(t.Context(), "ann")
	require.ErrorIs(t, err, userstate.ErrNotFound, "a peek creates nobody")
	require.ErrorIs(t, w.MarkRead(t.Context(), "ann", id(1)), userstate.ErrNotFound)
	require.ErrorIs(t, w.Delete(t.Context(), "ann", id(1)), bucket.ErrNotFound)
	w.send(t, "ann", 0, 60)
	w.Clock.Advance(rig.Slack) // all of it was sent before
	page, err := w.Read(t.Context(), "ann", inbox.Request{Limit: 50})
	require.NoError(t, err)
	require.Len(t, page.Entries, 50, "the first page does not wait")
	require.False(t, page.Complete)
	w.work(t)
	page, err = w.Read(t.Context(), "ann", inbox.Request{Before: page.Next, Limit: 50})
	require.NoError(t, err)
	require.Len(t, page.Entries, 10)
	require.True(t, page.Complete)
	require.Equal(t, int64(60), page.Total)
}

func TestCountsFollowMarksAndDeletions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	w.fill(t, "ann", 0, 60)
	counts := func(total, unread int64) {
		t.Helper()
		page, err := w.Read(t.Context(), "ann", inbox.Request{Limit: 10, Peek: true})
		require.NoError(t, err)
		require.Equal(t, []int64{total, unread}, []int64{page.Total, page.Unread})
		user, err := w.User(t.Context(), "ann")
		require.NoError(t, err)
		require.Equal(t, total, user.Total)
		require.True(t, user.Active)
	}
	counts(60, 60)
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(39)))
	counts(60, 20)
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(9)))
	counts(60, 20) // a mark does not go back
	for _, n := range []int{5, 45, 55} {
		require.NoError(t, w.Delete(t.Context(), "ann", id(n)))
		require.NoError(t, w.Delete(t.Context(), "ann", id(n)))
	}
	counts(57, 18)
	w.fill(t, "ann", 5, 6) // a redelivery does not bring it back
	w.fill(t, "ann", 60, 62)
	counts(59, 20)
	require.ErrorIs(t, w.Delete(t.Context(), "ann", id(99)), bucket.ErrNotFound)
}

func TestForeignCursor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	w.fill(t, "ann", 0, 60)
	w.fill(t, "bob", 0, 60)
	page, err := w.Read(t.Context(), "ann", inbox.Request{Limit: 50, Peek: true})
	require.NoError(t, err)
	for _, cursor := range []string{page.Next[1:], page.Next + "A", "nonsense"} {
		_, err = w.Read(t.Context(), "ann", inbox.Request{Before: cursor, Limit: 50, Peek: true})
		require.ErrorIs(t, err, bucket.ErrCursor)
	}
	_, err = w.Read(t.Context(), "bob", inbox.Request{Before: page.Next, Limit: 50, Peek: true})
	require.ErrorIs(t, err, bucket.ErrCursor)
	page, err = w.Read(t.Context(), "ann", inbox.Request{Before: page.Next, Limit: 50, Peek: true})
	require.NoError(t, err)
	require.Len(t, page.Entries, 10)
	require.Empty(t, page.Next)
}

// Rules may change while a process runs. Each operation uses the rules that hold when it begins.
func TestRulesChangeAtRunTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rules, reads := rig.Rules(), 0
	service := inbox.New(
		inbox.Stores{Buckets: w.Inbox, Users: w.Users, Appender: w.Appender, Flags: w.Flags}, w.rehydrator,
		inbox.Options{Now: w.Clock.Now, Rules: func() userstate.Rules {
			reads++
			return rules
		}})
	require.NoError(t, storetest.See(t.Context(), w.Users, w.Clock.Now(), rig.DormantAfter, "ann"))
	w.Clock.Advance(rig.DormantAfter - 10*time.Second)
	for _, test := range []struct {
		tolerance time.Duration
		active    bool
	}{{10 * time.Second, false}, {9 * time.Second, true}, {10 * time.Second, false}} {
		rules.ClockTolerance, reads = test.tolerance, 0
		page, err := service.Read(t.Context(), "ann", inbox.Request{Limit: 10, Peek: true})
		require.NoError(t, err)
		require.Equal(t, test.active, page.Complete)
		require.Equal(t, 1, reads, "one page uses one set of rules")
		user, err := service.User(t.Context(), "ann")
		require.NoError(t, err)
		require.Equal(t, test.active, user.Active)
	}
}
