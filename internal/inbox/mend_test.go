package inbox_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// future is the number of a message from the future.
const future = 9_000_000

func fromFuture(_ context.Context, refs []message.Ref) (map[message.ID]bool, error) {
	verdicts := make(map[message.ID]bool)
	for _, ref := range refs {
		verdicts[ref.ID] = ref.ID == id(future)
	}
	return verdicts, nil
}

func (w *world) mend(t *testing.T) bool {
	t.Helper()
	mended, err := w.MendReadMark(t.Context(), "ann", fromFuture)
	require.NoError(t, err)
	return mended
}

func (w *world) repair(t *testing.T) {
	t.Helper()
	_, err := bucket.Repair(t.Context(), w.Inbox, "ann", fromFuture)
	require.NoError(t, err)
}

// A user has read a message from the future, and can mark nothing read any more. Mending the mark changes that, and nothing else.
func TestMendReadMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, "ann"))
	w.fill(t, "ann", 0, 49)
	w.fill(t, "ann", future, future+1)
	w.fill(t, "ann", 60, 70)
	require.False(t, w.mend(t), "there is no mark")
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(future)))
	w.requireUnread(t, 0)
	w.fill(t, "ann", 70, 73)
	require.NoError(t, w.Delete(t.Context(), "ann", id(69)))
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(72)))
	w.requireUnread(t, 3) // the mark is stuck

	require.False(t, w.mend(t), "the message is live")
	require.Equal(t, id(future), w.State(t.Context(), t, "ann").ReadMark.UpTo)
	w.repair(t)
	w.requireUnread(t, 3)
	require.True(t, w.mend(t))
	w.requireUnread(t, 3)
	require.Equal(t, id(69), w.State(t.Context(), t, "ann").ReadMark.UpTo)
	require.False(t, w.mend(t), "once is enough")
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(71)))
	w.requireUnread(t, 1)
}

// What the mark says is read in a gap stays read.
func TestMendReadMarkWithGaps(t *testing.T) {
	t.Parallel()
	w := limited(t, 2, 5)
	w.work(t)
	w.fill(t, "ann", future, future+1)
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(future)))
	w.requireUnread(t, 0)
	w.repair(t)
	require.True(t, w.mend(t))
	w.requireUnread(t, 0)
	require.Equal(t, id(4), w.State(t.Context(), t, "ann").ReadMark.UpTo)

	// All that is left is in the gap, but for the message from the future.
	w = limited(t, 2, 5)
	w.work(t)
	mark := bucket.ReadMark{UpTo: id(future), Gaps: 1, Read: 3}
	_, err := w.Users.SetReadMark(t.Context(), "ann", mark)
	require.NoError(t, err)
	w.requireUnread(t, 2)
	require.True(t, w.mend(t))
	w.requireUnread(t, 2)
	require.Equal(t, bucket.ReadMark{UpTo: id(2), Gaps: 1, Read: 3}, w.State(t.Context(), t, "ann").ReadMark)
}

// A mended mark keeps its number for the gap in which it lies now. A sweep counts a late message in that gap, and stalls before any of its
// operations while the mark is mended: the message is read before and after.
func TestMendReadMarkDuringASweep(t *testing.T) {
	t.Parallel()
	for after := 0; ; after++ {
		w := readUpToTheFuture(t)
		w.lateInAGap(t, 1)
		w.owe(t, func() {
			a := rig.Start(t.Context(), rig.StallBefore, after, func(ctx context.Context) error {
				require.True(t, w.rehydrator.Work(ctx))
				return nil
			})
			stalled := !a.Finished()
			require.True(t, w.mend(t))
			a.Resume(rig.None, 0)
			require.NoError(t, a.Err())
			if !stalled {
				after = -1
			}
		})
		w.requireUnread(t, 2)
		mark := bucket.ReadMark{UpTo: id(2), Gaps: 1, Numbered: true, InGap: 4}
		require.Equal(t, mark, w.State(t.Context(), t, "ann").ReadMark, "stalled before operation %d", after)
		if after < 0 {
			break
		}
	}
}

// A mark is mended, and stalls before any of its operations while a sweep counts a late message. Then the mark is not mended, or was before.
func TestSweepWhileAReadMarkIsMended(t *testing.T) {
	t.Parallel()
	for after := 0; ; after++ {
		w := readUpToTheFuture(t)
		a := rig.Start(t.Context(), rig.StallBefore, after, func(ctx context.Context) error {
			_, err := w.MendReadMark(ctx, "ann", fromFuture)
			return err
		})
		stalled := !a.Finished()
		w.lateInAGap(t, 1)
		w.owe(t, func() { w.work(t) })
		a.Resume(rig.None, 0)
		require.NoError(t, a.Err())
		w.requireUnread(t, 2)
		w.mend(t)
		w.requireUnread(t, 2)
		mark := bucket.ReadMark{UpTo: id(2), Gaps: 1, Numbered: true, InGap: 4}
		require.Equal(t, mark, w.State(t.Context(), t, "ann").ReadMark, "stalled before operation %d", after)
		if !stalled {
			break
		}
	}
}

// readUpToTheFuture returns a world in which ann has a gap with three messages and two entries. She has read up to a message from the
// future before the two came.
func readUpToTheFuture(t *testing.T) *world {
	t.Helper()
	w := limited(t, 2, 5)
	w.work(t)
	state := w.State(t.Context(), t, "ann")
	next := state
	next.ReadMark = bucket.ReadMark{UpTo: id(future), Gaps: 1, Numbered: true}
	stepped, err := w.Users.Step(t.Context(), []userstate.Step{{From: state, To: next}})
	require.NoError(t, err)
	require.True(t, stepped[0].Applied)
	w.requireUnread(t, 2)
	return w
}

// The stored mark falls while another one is made, and then rises again: the new mark is not damaged, but out of date.
func TestReadMarkBesideAMendedOne(t *testing.T) {
	t.Parallel()
	atEachLevel(t, func(t *testing.T, atLevel func(*world) *world) {
		t.Helper()
		w := atLevel(newWorld(t))
		require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, "ann"))
		w.fill(t, "ann", future, future+1)
		w.fill(t, "ann", 0, 10)
		require.NoError(t, w.MarkRead(t.Context(), "ann", id(future)))
		w.repair(t)
		w.fill(t, "ann", 10, 13)
		service, users := w.interrupted(func() {
			require.True(t, w.mend(t))
			w.fill(t, "ann", 13, 14)
			require.NoError(t, w.MarkRead(t.Context(), "ann", id(11)))
			w.requireUnread(t, 2)
		})
		require.NoError(t, service.MarkRead(t.Context(), "ann", id(future+1)))
		require.Equal(t, 2, users.sets)
		w.requireUnread(t, 0)
	})
}
