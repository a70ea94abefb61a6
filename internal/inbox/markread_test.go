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

// Step implements userstate.Store.
func (m *meanwhile) Step(ctx context.Context, steps []userstate.Step) ([]userstate.Stepped, error) {
	if steps[0].From.ReadMark != steps[0].To.ReadMark {
		m.interrupt()
	}
	return m.Store.Step(ctx, steps)
}

func (m *meanwhile) interrupt() {
	m.sets++
	if len(m.run) > 0 {
		next := m.run[0]
		m.run = m.run[1:]
		next()
	}
}

// interrupted returns a service of the world for which things happen between the snapshot of a read mark and its write.
func (w *world) interrupted(run ...func()) (*inbox.Service, *meanwhile) {
	users := &meanwhile{Store: w.Users, run: run}
	stores := inbox.Stores{Buckets: w.Inbox, Users: users, Appender: w.Appender, Flags: w.Flags}
	rules := w.Rules
	return inbox.New(stores, w.rehydrator, inbox.Options{Rules: func() userstate.Rules { return rules }, Now: w.Clock.Now}), users
}

func (w *world) requireUnread(t *testing.T, unread int) {
	t.Helper()
	page, err := w.Read(t.Context(), "ann", inbox.Request{Limit: 10, Peek: true})
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
			require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
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
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
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
	require.Equal(t, 1, users.sets, "the other mark is further")
}

// lateInAGap stores message n and a half, which becomes visible after its gap was counted.
func (w *world) lateInAGap(t *testing.T, n int) message.ID {
	t.Helper()
	now, late := w.Clock.Now(), id(n)
	late[15]++
	w.Clock.Advance(late.Time().Sub(now)) // it was stamped in time
	_, err := w.Messages.Insert(t.Context(), []message.Message{{ID: late, From: "author", To: []message.UserID{"ann"}, Body: "late"}}, rig.Rules().Timing())
	require.NoError(t, err)
	w.Clock.Advance(now.Sub(late.Time()))
	return late
}

// owe owes a count of ann's gaps, as the fan-out of a late message does, and has the sweep carried out.
func (w *world) owe(t *testing.T, work func()) {
	t.Helper()
	state := w.State(t.Context(), t, "ann")
	require.NoError(t, userstate.Owe(t.Context(), w.Users, []userstate.State{state}, w.Clock.Now(), true))
	require.NoError(t, w.rehydrator.Reap(t.Context(), w.Clock.Now()))
	work()
	require.False(t, w.State(t.Context(), t, "ann").Rehydrating())
}

// A message that became visible after its gap was counted is not part of the gap's number. It is not counted as read either,
// because the mark counts the gap.
func TestReadMarkCountsNoMoreThanItsGap(t *testing.T) {
	t.Parallel()
	w := limited(t, 4, 70)
	w.work(t)
	gap := w.State(t.Context(), t, "ann").Gaps[0]
	require.EqualValues(t, 66, gap.Messages)
	for n := 66; n < 70; n++ {
		require.NoError(t, w.Delete(t.Context(), "ann", id(n)))
	}
	w.lateInAGap(t, 30)

	require.NoError(t, w.MarkRead(t.Context(), "ann", id(40)))
	w.requireUnread(t, 67-42)
	require.EqualValues(t, 67, w.State(t.Context(), t, "ann").Gaps[0].Messages)
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(65)))
	w.requireUnread(t, 0)
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(69)))
	w.requireUnread(t, 0)
}

// A message becomes visible late in a gap that the read mark lists, and a sweep counts it. At or below the mark it is read, above it is
// not, and so it is when it is deleted.
func TestLateMessageInAGapThatTheReadMarkLists(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ upTo, late, unread, without int }{
		"below a mark in the gap":       {upTo: 40, late: 30, unread: 29, without: 29},
		"above a mark in the gap":       {upTo: 40, late: 50, unread: 30, without: 29},
		"in a gap below the mark":       {upTo: 67, late: 30, unread: 2, without: 2},
		"below a mark at the gap's end": {upTo: 65, late: 64, unread: 4, without: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, swept := range []bool{false, true} {
				w := limited(t, 4, 70)
				w.work(t)
				require.NoError(t, w.MarkRead(t.Context(), "ann", id(test.upTo)))
				w.requireUnread(t, test.without)
				late := w.lateInAGap(t, test.late)
				if swept {
					w.owe(t, func() { w.work(t) })
					w.requireUnread(t, test.unread)
				}
				require.NoError(t, w.Delete(t.Context(), "ann", late))
				w.requireUnread(t, test.without)
				w.owe(t, func() { w.work(t) })
				w.requireUnread(t, test.without)
				shown, page := w.ReadInbox(t.Context(), t, "ann", 50)
				require.Len(t, shown, 70)
				require.EqualValues(t, 70, page.Total)
			}
		})
	}
}

// A message becomes visible in a gap, at or below a mark that is being made, which stalls before any of its operations. It counts in the gap
// and as read, or not yet.
func TestLateMessageWhileAReadMarkIsMade(t *testing.T) {
	t.Parallel()
	for after := 0; ; after++ {
		w := limited(t, 4, 70)
		w.work(t)
		a := rig.Start(t.Context(), rig.StallBefore, after, func(ctx context.Context) error { return w.MarkRead(ctx, "ann", id(65)) })
		stalled := !a.Finished()
		w.lateInAGap(t, 64)
		a.Resume(rig.None, 0)
		require.NoError(t, a.Err())
		w.requireUnread(t, 4)
		w.owe(t, func() { w.work(t) })
		w.requireUnread(t, 4)
		_, page := w.ReadInbox(t.Context(), t, "ann", 50)
		require.EqualValues(t, 71, page.Total)
		if !stalled {
			break
		}
	}
}

// A sweep counts a late message while a mark is being made that has not. The mark is made again.
func TestReadMarkBesideASweep(t *testing.T) {
	t.Parallel()
	w := limited(t, 4, 70)
	w.work(t)
	service, users := w.interrupted(func() {
		w.lateInAGap(t, 30)
		w.owe(t, func() { w.work(t) })
	})
	require.NoError(t, service.MarkRead(t.Context(), "ann", id(40)))
	require.Equal(t, 2, users.sets)
	w.requireUnread(t, 29)
}

// A mark has the number of the gap in which it lies, and lists all gaps.
func TestReadMarkHasTheNumberOfItsGap(t *testing.T) {
	t.Parallel()
	w := limited(t, 4, 70)
	w.work(t)
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(40)))
	require.Equal(t, bucket.ReadMark{UpTo: id(40), Slots: 4, Gaps: 1, InGap: 41}, w.State(t.Context(), t, "ann").ReadMark)
	w.requireUnread(t, 29)
}

// A mark that counts more than the inbox has, after a part of the store was removed by hand, ends a request with an error.
func TestReadMarkBeyondTheInbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	w.fill(t, "ann", 0, 10)
	was := w.State(t.Context(), t, "ann")
	to := was
	to.ReadMark = bucket.ReadMark{UpTo: id(3), Slots: 100, Read: 4}
	stepped, err := w.Users.Step(t.Context(), []userstate.Step{{From: was, To: to}})
	require.NoError(t, err)
	require.True(t, stepped[0].Applied)
	service, users := w.interrupted()
	require.ErrorIs(t, service.MarkRead(t.Context(), "ann", id(5)), message.ErrCorrupt)
	require.ErrorIs(t, service.MarkRead(t.Context(), "ann", id(2)), message.ErrCorrupt)
	require.LessOrEqual(t, users.sets, 2)
}
