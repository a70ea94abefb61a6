package inbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// follower takes frames of ann's inbox.
type follower struct {
	*world
	cursor string
}

// newFollower returns a world with buckets of two slots, in which ann has so many messages, and a follower who knows them.
func newFollower(t *testing.T, messages int) *follower {
	t.Helper()
	f := &follower{world: newWorldOn(t, rig.Embedded{}, 2, func(*rehydrate.Options) {})}
	require.NoError(t, storetest.See(t.Context(), f.Users, rig.Epoch, rig.DormantAfter, "ann"))
	f.fill(t, "ann", 0, messages)
	f.Clock.Advance(time.Second)
	require.Equal(t, inbox.ResetStart, f.next(t).Reset)
	return f
}

// next takes the next frame.
func (f *follower) next(t *testing.T) inbox.Frame {
	t.Helper()
	frame, err := f.Changes(t.Context(), "ann", inbox.FrameRequest{Cursor: f.cursor, Peek: true})
	require.NoError(t, err)
	f.cursor = frame.Cursor
	return frame
}

// mark marks messages.
func (f *follower) mark(t *testing.T, change flag.Change, ns ...int) {
	t.Helper()
	var ids []message.ID
	for _, n := range ns {
		ids = append(ids, id(n))
	}
	_, err := f.Mark(t.Context(), "ann", ids, change)
	require.NoError(t, err)
}

func idsOf(entries []inbox.Message) (all []message.ID) {
	for _, e := range entries {
		all = append(all, e.ID)
	}
	return all
}

func TestFrameHasWhatIsNew(t *testing.T) {
	t.Parallel()
	f := newFollower(t, 3)
	same := f.cursor
	require.Empty(t, f.next(t).Entries)
	require.Equal(t, same, f.cursor, "nothing has changed")

	f.fill(t, "ann", 5, 7)
	f.fill(t, "ann", 3, 4) // late
	f.mark(t, flag.Change{Read: new(true)}, 6)
	require.NoError(t, f.Delete(t.Context(), "ann", id(5)))
	frame := f.next(t)
	require.Equal(t, []message.ID{id(6), id(3)}, idsOf(frame.Entries))
	require.True(t, frame.Entries[0].Read)
	require.Equal(t, []message.ID{id(5)}, frame.Gone)
	require.Equal(t, bucket.Tally{Total: 5, Unread: 4, Unseen: 5}, frame.Tally)
	require.Equal(t, []int64{6, 1, 1, 0, 0}, frame.Version)
	require.False(t, frame.Older)

	_, err := f.Purge(t.Context(), "ann", id(1).Time(), false)
	require.NoError(t, err)
	same = f.cursor
	frame = f.next(t)
	require.Equal(t, message.LastBefore(id(2).Time()), frame.ExpiredUpTo)
	require.NotEqual(t, same, f.cursor)
	require.Equal(t, int64(3), frame.Total)
}

// A frame ends after 200 messages, or where they reach a MiB. The next one goes on there.
func TestFrameOfMany(t *testing.T) {
	t.Parallel()
	f := newFollower(t, 1)
	f.fill(t, "ann", 1, 410)
	for _, want := range []struct {
		entries int
		more    bool
	}{{200, true}, {200, true}, {9, false}} {
		frame := f.next(t)
		require.Len(t, frame.Entries, want.entries)
		require.Equal(t, want.more, frame.More)
		require.Equal(t, int64(410), frame.Total)
	}
	var large []bucket.Entry
	for n := range 20 {
		large = append(large, bucket.Entry{ID: id(1000 + n), From: "author", Body: strings.Repeat("x", 100<<10)})
	}
	_, err := f.Appender.Append(t.Context(), []bucket.Append{{Owner: "ann", Entries: large}})
	require.NoError(t, err)
	require.Len(t, f.next(t).Entries, 11)
	require.Len(t, f.next(t).Entries, 9)
}

// The states in the newest four buckets are in the frame. Further down, a change is told by Older alone.
func TestFrameHasStates(t *testing.T) {
	t.Parallel()
	read, unread := flag.Change{Read: new(true)}, flag.Change{Read: new(false)}
	state := func(n int, read bool) inbox.State { return inbox.State{ID: id(n), Read: read} }
	f := newFollower(t, 11) // buckets 0 to 5
	require.NoError(t, f.MarkSeen(t.Context(), "ann", ""))
	frame := f.next(t)
	require.Empty(t, frame.States, "seen changes no message")
	require.False(t, frame.Older)

	f.mark(t, read, 4, 8)
	frame = f.next(t)
	require.Equal(t, []inbox.State{state(8, true), state(9, false), state(4, true), state(5, false)}, frame.States)
	require.False(t, frame.Older)

	f.mark(t, read, 3)
	frame = f.next(t)
	require.Empty(t, frame.States)
	require.True(t, frame.Older)

	require.NoError(t, f.MarkRead(t.Context(), "ann", id(9)))
	frame = f.next(t)
	require.True(t, frame.Older, "the mark has moved below the newest buckets")
	require.Len(t, frame.States, 7)
	require.Equal(t, state(10, false), frame.States[0])

	f.mark(t, flag.Change{Archived: new(true)}, 10)
	require.True(t, f.next(t).States[0].Archived)
	f.mark(t, flag.Change{Archived: new(false)}, 10)
	frame = f.next(t)
	require.Equal(t, state(10, false), frame.States[0])
	require.True(t, frame.Older, "a bucket without flags is not known any more")

	f.mark(t, unread, 0)
	_, err := f.Purge(t.Context(), "ann", id(4).Time(), false)
	require.NoError(t, err)
	f.next(t)
	require.NoError(t, f.MarkRead(t.Context(), "ann", id(10)))
	require.False(t, f.next(t).Older, "everything below has expired")
}

// A frame names the newest 200 deletions. If there are more, others may be among those that the client holds.
func TestFrameOfManyDeletions(t *testing.T) {
	t.Parallel()
	f := newFollower(t, 201)
	for n := range 200 {
		require.NoError(t, f.Delete(t.Context(), "ann", id(n)))
	}
	frame := f.next(t)
	require.Len(t, frame.Gone, 200)
	require.False(t, frame.Older)
	require.NoError(t, f.Delete(t.Context(), "ann", id(200)))
	frame = f.next(t)
	require.Len(t, frame.Gone, 200)
	require.Equal(t, id(200), frame.Gone[0])
	require.True(t, frame.Older)
}

func TestFrameResets(t *testing.T) {
	t.Parallel()
	f := newFollower(t, 3)
	old := f.cursor
	ben := &follower{world: f.world}
	require.NoError(t, storetest.See(t.Context(), f.Users, rig.Epoch, rig.DormantAfter, "ben"))
	_, err := f.Changes(t.Context(), "ben", inbox.FrameRequest{Cursor: old})
	var invalid *message.InvalidError
	require.ErrorAs(t, err, &invalid, "it is of another inbox")
	_, err = ben.Changes(t.Context(), "nobody", inbox.FrameRequest{Peek: true})
	require.ErrorIs(t, err, userstate.ErrNotFound)

	was := f.State(t.Context(), t, "ann")
	to := was
	to.Gaps, to.GapsMade = []userstate.Gap{{After: id(9).Time(), Before: id(13).Time()}}, 1
	_, err = f.Users.Step(t.Context(), []userstate.Step{{From: was, To: to}})
	require.NoError(t, err)
	frame := f.next(t)
	require.Equal(t, inbox.ResetGap, frame.Reset)
	require.Len(t, frame.Entries, 3)
	require.Empty(t, f.next(t).Reset)

	crashed, err := f.Crash(t.Context(), 100, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, crashed.Close()) })
	f.Rig, f.Service = crashed, crashed.Inboxes(0)
	require.Equal(t, inbox.ResetEpoch, f.next(t).Reset)
	f.fill(t, "ann", 3, 5)
	ahead := f.next(t).Cursor
	other := newWorldOn(t, rig.Embedded{}, 2, func(*rehydrate.Options) {})
	require.NoError(t, storetest.See(t.Context(), other.Users, rig.Epoch, rig.DormantAfter, "ann"))
	frame, err = other.Changes(t.Context(), "ann", inbox.FrameRequest{Cursor: ahead, Peek: true})
	require.NoError(t, err)
	require.Equal(t, inbox.ResetEpoch, frame.Reset, "it is of another store")
}

// Of an inbox that is being rebuilt, the first frame after a connect has what fan out on read finds.
func TestFrameOfADormantUser(t *testing.T) {
	t.Parallel()
	f := newFollower(t, 2)
	f.Clock.Advance(2 * rig.DormantAfter)
	now := f.Clock.Now()
	sent := message.MinID(now)
	_, err := f.Messages.Insert(t.Context(), []message.Message{{ID: sent, From: "author", To: []message.UserID{"ann"}, Body: "missed"}}, rig.Rules().Timing())
	require.NoError(t, err)
	frame, err := f.Changes(t.Context(), "ann", inbox.FrameRequest{Cursor: f.cursor, First: true})
	require.NoError(t, err)
	require.False(t, frame.Complete)
	require.Equal(t, []message.ID{sent}, idsOf(frame.Entries))
	f.cursor = frame.Cursor
	behind, err := f.Behind(t.Context(), []inbox.Watched{{User: "ann", At: frame.At}, {User: "ann", At: frame.At, Peek: true}})
	require.NoError(t, err)
	require.Equal(t, []bool{true, false}, behind, "a view is due while the inbox is rebuilt")
	f.work(t)
	behind, err = f.Behind(t.Context(), []inbox.Watched{{User: "ann", At: frame.At, Peek: true}})
	require.NoError(t, err)
	require.Equal(t, []bool{true}, behind)
	frame = f.next(t)
	require.True(t, frame.Complete)
	require.Empty(t, frame.Reset)
	require.Equal(t, []message.ID{sent}, idsOf(frame.Entries), "it has a slot now")
}
