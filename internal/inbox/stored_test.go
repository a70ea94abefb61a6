package inbox_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// The stored inbox has all buckets, stubs too, and what is in them. Looking at it changes nothing.
func TestStored(t *testing.T) {
	t.Parallel()
	onEachStore(t, stored)
}

func stored(t *testing.T, w *world) {
	t.Helper()
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	empty, err := w.Stored(t.Context(), "ann", 0)
	require.NoError(t, err)
	require.Equal(t, inbox.Stored{State: w.State(t.Context(), t, "ann")}, empty)
	w.fill(t, "ann", 0, 30)
	w.Clock.Advance(time.Second)
	w.addGap(t, "ann")
	require.NoError(t, w.Delete(t.Context(), "ann", id(19)))
	yes := true
	_, err = w.Mark(t.Context(), "ann", []message.ID{id(20), id(22), id(23)}, flag.Change{Read: &yes, Archived: &yes})
	require.NoError(t, err)
	_, err = w.Purge(t.Context(), "ann", at(16), false)
	require.NoError(t, err)
	state := w.State(t.Context(), t, "ann")
	_, _, err = bucket.NewEmptying(w.Inbox, "ann", bucket.Hint{}, state.Purged).Step(t.Context(), 10)
	require.NoError(t, err)

	got, err := w.Stored(t.Context(), "ann", 0)
	require.NoError(t, err)
	require.Equal(t, state, got.State)
	require.Equal(t, state, w.State(t.Context(), t, "ann"))
	require.Len(t, got.State.Gaps, 1)
	require.Zero(t, got.Next)
	require.Equal(t, []inbox.StoredBucket{
		{Outline: bucket.Outline{Sequence: 4, Slots: 2, Floor: id(27), Last: id(29)}, Least: id(28), Greatest: id(29)},
		{Outline: bucket.Outline{Sequence: 3, Slots: 7, Floor: id(20), Last: id(27)}, Least: id(21), Greatest: id(27), Flagged: 2},
		{Outline: bucket.Outline{Sequence: 2, Slots: 7, Floor: id(13), Last: id(20)}, Least: id(14), Greatest: id(20), Tombstones: 1, Expired: 3, Flagged: 1},
	}, got.Buckets[:3])
	stub := got.Buckets[3]
	require.Equal(t, bucket.Outline{Sequence: 1, Slots: 7, Floor: stub.Floor, Last: id(13), Stub: true}, stub.Outline)
	if stub.Floor.IsZero() {
		require.Len(t, got.Buckets, 4, "it stands for all below")
	} else {
		require.Equal(t, inbox.StoredBucket{Outline: bucket.Outline{Slots: 7, Last: id(6), Stub: true}}, got.Buckets[4])
	}
	_, err = w.Stored(t.Context(), "nobody", 0)
	require.ErrorIs(t, err, userstate.ErrNotFound)
}

// A large inbox comes in pages.
func TestStoredPages(t *testing.T) {
	t.Parallel()
	onEachStore(t, storedPages)
}

func storedPages(t *testing.T, w *world) {
	t.Helper()
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	w.fill(t, "ann", 0, 7*230)
	want := uint32(230)
	for before, page := uint32(0), 200; page > 0; page = int(want) {
		got, err := w.Stored(t.Context(), "ann", before)
		require.NoError(t, err)
		require.Len(t, got.Buckets, page)
		for _, b := range got.Buckets {
			want--
			require.Equal(t, want, b.Sequence)
		}
		require.Equal(t, want, got.Next)
		before = got.Next
	}
}
