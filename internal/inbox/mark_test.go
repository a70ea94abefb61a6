package inbox_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// beforeGap returns a world with buckets of two slots, in which ann has messages 0 to 4 in buckets, and messages 10 to 12 in a gap.
func beforeGap(t *testing.T) *world {
	t.Helper()
	w := newWorldOn(t, rig.Embedded{}, 2, func(*rehydrate.Options) {})
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	w.fill(t, "ann", 0, 5)
	w.leave(t, 10, 13)
	w.requireUnread(t, 8)
	return w
}

// leave sends messages to ann, and leaves them to a gap.
func (w *world) leave(t *testing.T, first, end int) {
	t.Helper()
	w.send(t, "ann", first, end)
	was := w.State(t.Context(), t, "ann")
	to := was
	to.Gaps = append(slices.Clone(was.Gaps), userstate.Gap{After: id(first - 1).Time(), Before: id(end).Time(), Messages: int64(end - first)})
	to.GapsMade++
	stepped, err := w.Users.Step(t.Context(), []userstate.Step{{From: was, To: to}})
	require.NoError(t, err)
	require.True(t, stepped[0].Applied)
	w.Clock.Advance(time.Second)
}

// A gap that was made after a page stays unread when all that the page knew is marked.
func TestMarkAllReadKnowsNoLaterGap(t *testing.T) {
	t.Parallel()
	w := beforeGap(t)
	page, err := w.Read(t.Context(), "ann", inbox.Request{Limit: 20, Peek: true})
	require.NoError(t, err)
	w.leave(t, 20, 24)
	require.NoError(t, w.MarkAllRead(t.Context(), "ann", page.Cursor))
	w.requireUnread(t, 4)
}

// A mark up to an older message than the mark that is there marks late messages, which that one does not cover.
func TestReadMarkBelowAFurtherOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	w.fill(t, "ann", 0, 30)
	w.fill(t, "ann", 40, 120)
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(110)))
	w.fill(t, "ann", 35, 37)
	w.fill(t, "ann", 30, 31)
	w.requireUnread(t, 9+3)
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(35)))
	w.requireUnread(t, 9+1)
}

// What a page knew ends at a gap, above everything in its slots. Later messages in the slots behind it stay unread.
func TestMarkAllReadUpToAGap(t *testing.T) {
	t.Parallel()
	w := beforeGap(t)
	page, err := w.Read(t.Context(), "ann", inbox.Request{Limit: 20, Peek: true})
	require.NoError(t, err)
	w.fill(t, "ann", 5, 9)
	require.NoError(t, w.MarkAllRead(t.Context(), "ann", page.Cursor))
	w.requireUnread(t, 4)
	page, err = w.Read(t.Context(), "ann", inbox.Request{Limit: 20, Peek: true})
	require.NoError(t, err)
	for _, m := range page.Entries {
		require.Equal(t, m.ID.Less(id(5)) || id(9).Less(m.ID), m.Read, m.ID)
	}
}

// A message in a gap is marked by its id, after the gap was counted with it.
func TestMarkInAGap(t *testing.T) {
	t.Parallel()
	w := beforeGap(t)
	late := w.lateInAGap(t, 11)
	read, never := true, id(50)
	marked, err := w.Mark(t.Context(), "ann", []message.ID{late, never, id(12)}, flag.Change{Read: &read})
	require.NoError(t, err)
	require.Equal(t, inbox.Marked{Changed: 2, Missing: []message.ID{never}}, marked)
	w.requireUnread(t, 5+2)
	for id, want := range map[message.ID]bool{late: true, id(12): true, id(10): false, id(4): false} {
		state, there, err := w.StateOf(t.Context(), "ann", id)
		require.NoError(t, err)
		require.True(t, there)
		require.Equal(t, inbox.State{ID: id, Read: want}, state)
	}
	require.NoError(t, w.Delete(t.Context(), "ann", late))
	for _, id := range []message.ID{late, never} {
		_, there, err := w.StateOf(t.Context(), "ann", id)
		require.NoError(t, err)
		require.False(t, there)
	}
	w.requireUnread(t, 5+2)
	marked, err = w.Mark(t.Context(), "ann", []message.ID{late}, flag.Change{Read: &read})
	require.NoError(t, err)
	require.Equal(t, inbox.Marked{Missing: []message.ID{late}}, marked)
}
