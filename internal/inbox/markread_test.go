package inbox_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// meanwhile is a store that runs functions, one before each of the next read marks is written.
type meanwhile struct {
	userstate.Store
	run  []func()
	sets int // counts the writes of read marks
}

// SetReadMark implements userstate.Store.
func (m *meanwhile) SetReadMark(ctx context.Context, user message.UserID, mark bucket.ReadMark) (bucket.ReadMark, error) {
	m.sets++
	if len(m.run) > 0 {
		next := m.run[0]
		m.run = m.run[1:]
		next()
	}
	return m.Store.SetReadMark(ctx, user, mark)
}

// interrupted returns a service of the world for which things happen between the snapshot of a read mark and its write.
func (w *world) interrupted(run ...func()) (*inbox.Service, *meanwhile) {
	users := &meanwhile{Store: w.Users, run: run}
	stores := inbox.Stores{Buckets: w.Inbox, Users: users, Appender: w.Appender}
	return inbox.New(stores, w.rehydrator, inbox.Options{Rules: rig.Rules, Now: w.Clock.Now}), users
}

func (w *world) requireUnread(t *testing.T, unread int) {
	t.Helper()
	page, err := w.Read(t.Context(), "ann", "", 10, true)
	require.NoError(t, err)
	require.EqualValues(t, unread, page.Unread)
}

// Another request marks a late message read while a mark is being made that does not know of the message.
func TestReadMarkOfAnOlderSnapshotMarksNothingUnread(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		upTo, other, unread int
		// sets is how many writes the mark takes.
		sets int
	}{
		"of the same message":  {upTo: 59, other: 59, sets: 1},
		"of an older message":  {upTo: 49, other: 59, sets: 1},
		"of a newer message":   {upTo: 59, other: 39, sets: 2},
		"with messages beyond": {upTo: 54, other: 39, sets: 2, unread: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, "ann"))
			w.fill(t, "ann", 0, 30)
			w.fill(t, "ann", 35, 60)
			service, users := w.interrupted(func() {
				w.fill(t, "ann", 32, 33)
				require.NoError(t, w.MarkRead(t.Context(), "ann", id(test.other)))
			})
			require.NoError(t, service.MarkRead(t.Context(), "ann", id(test.upTo)))
			w.requireUnread(t, test.unread)
			require.Equal(t, test.sets, users.sets)
			require.Equal(t, id(max(test.upTo, test.other)), w.State(t.Context(), t, "ann").ReadMark.UpTo)
		})
	}
}

// Others overtake the mark again and again. It holds in the end, because each of them has found more.
func TestReadMarkThatIsOvertakenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, "ann"))
	w.fill(t, "ann", 0, 10)
	w.fill(t, "ann", 20, 60)
	var run []func()
	for n := 10; n < 20; n++ {
		run = append(run, func() {
			w.fill(t, "ann", n, n+1)
			require.NoError(t, w.MarkRead(t.Context(), "ann", id(20+n)))
		})
	}
	service, users := w.interrupted(run...)
	require.NoError(t, service.MarkRead(t.Context(), "ann", id(59)))
	w.requireUnread(t, 0)
	require.Equal(t, len(run)+1, users.sets)
}

// A user comes back while a mark is being made. What is left to a gap is marked read by another request, and stays read.
func TestReadMarkOfAnOlderSnapshotKnowsFewerGaps(t *testing.T) {
	t.Parallel()
	w := limited(t, 2, 5)
	w.work(t)
	service, users := w.interrupted(func() {
		w.Clock.Advance(2 * rig.DormantAfter)
		w.sendAt(t, w.Clock.Now().Add(-2*rig.Slack), 7)
		_, err := w.rehydrator.Arrive(t.Context(), "ann", w.Clock.Now())
		require.NoError(t, err)
		w.work(t)
		require.Len(t, w.State(t.Context(), t, "ann").Gaps, 2)
		shown, _ := w.ReadInbox(t.Context(), t, "ann", 5)
		require.Len(t, shown, 12)
		require.NoError(t, w.MarkRead(t.Context(), "ann", shown[0]))
		w.requireUnread(t, 0)
	})
	require.NoError(t, service.MarkRead(t.Context(), "ann", message.MaxID))
	w.requireUnread(t, 0)
	require.Equal(t, 2, users.sets)
}

// A message that became visible after its gap was counted is not part of the gap's number. It is not counted as read either.
func TestReadMarkCountsNoMoreThanItsGap(t *testing.T) {
	t.Parallel()
	w := limited(t, 4, 70)
	w.work(t)
	gap := w.State(t.Context(), t, "ann").Gaps[0]
	require.EqualValues(t, 66, gap.Messages)
	for n := 66; n < 70; n++ {
		require.NoError(t, w.Delete(t.Context(), "ann", id(n)))
	}
	now := w.Clock.Now()
	w.Clock.Advance(id(30).Time().Sub(now)) // it was stamped in time
	late := id(30)
	late[15]++
	_, err := w.Messages.Insert(t.Context(), []message.Message{{ID: late, From: "author", To: []message.UserID{"ann"}, Body: "late"}}, rig.Rules().Timing())
	require.NoError(t, err)
	w.Clock.Advance(now.Sub(id(30).Time()))

	require.NoError(t, w.MarkRead(t.Context(), "ann", id(40)))
	w.requireUnread(t, 66-42) // the late one counts among those up to the mark
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(65)))
	w.requireUnread(t, 0)
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(69)))
	w.requireUnread(t, 0)
}

// A mark that counts more than the inbox has, after a part of the store was removed by hand, ends a request with an error.
func TestReadMarkBeyondTheInbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, "ann"))
	w.fill(t, "ann", 0, 10)
	_, err := w.Users.SetReadMark(t.Context(), "ann", bucket.ReadMark{UpTo: id(3), Slots: 100, Read: 4})
	require.NoError(t, err)
	service, users := w.interrupted()
	require.ErrorIs(t, service.MarkRead(t.Context(), "ann", id(5)), message.ErrCorrupt)
	require.NoError(t, service.MarkRead(t.Context(), "ann", id(2)), "it is marked already")
	require.LessOrEqual(t, users.sets, 2)
}
