package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/message"
)

func (h progressStore) list(t *testing.T, after, upTo message.ID, limit int) []message.ID {
	t.Helper()
	found, err := h.Store.List(t.Context(), after, upTo, limit)
	require.NoError(t, err)
	var ids []message.ID
	for _, f := range found {
		require.NoError(t, f.Err)
		requireFanout(t, h.get(t, f.Fanout.ID), f.Fanout)
		ids = append(ids, f.Fanout.ID)
	}
	return ids
}

// stepGivenUp gives up a scan. A redrive that read the scan when it was dead comes too late.
func (s progressSuite) stepGivenUp(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.plan(t, id(1), later(1), 0, 1)
	dead := progress.Scan{}.Join("m").Advance("p", false, progress.Counts{Delivered: 3, Skipped: 1})
	dead.Dead = true
	require.True(t, h.step(t, later(2), progress.Move{ID: id(1), Partition: 1, To: dead})[0].Applied)
	require.Equal(t, []progress.Moved{{Applied: true, Scan: dead.GiveUp()}},
		h.step(t, later(3), progress.Move{ID: id(1), Partition: 1, From: dead, To: dead.GiveUp()}))
	alive := dead
	alive.Dead = false
	require.Equal(t, []progress.Moved{{Scan: dead.GiveUp()}}, h.step(t, later(4), progress.Move{ID: id(1), Partition: 1, From: dead, To: alive}))
	h = h.Reopen(t)
	f := h.get(t, id(1))
	requireFanout(t, progress.Fanout{ID: id(1), Scans: map[int]progress.Scan{0: {}, 1: dead.GiveUp()}, Moved: later(3)}, f)
	require.False(t, f.Done())
	require.True(t, h.step(t, later(4), progress.Move{ID: id(1), To: progress.Scan{Joined: true, Done: true, Delivered: 2}})[0].Applied)
	f = h.get(t, id(1))
	require.True(t, f.Done())
	require.Equal(t, message.Ending{Lane: "medium", Delivered: 5, Skipped: 1, GivenUp: 1}, f.Outcome())
}

func (s progressSuite) lists(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	require.Empty(t, h.list(t, message.ID{}, message.MaxID, 10))
	h.plan(t, id(3), later(1), 0)
	h.plan(t, id(1), later(1))
	h.plan(t, id(2), later(1), 0, 1, 2, 3)
	h.plan(t, id(5), later(1), 3)
	h.step(t, later(2), progress.Move{ID: id(2), Partition: 3, To: progress.Scan{}.Join("m")})
	require.Equal(t, []message.ID{id(1), id(2), id(3), id(5)}, h.list(t, message.ID{}, message.MaxID, 10))
	require.Equal(t, []message.ID{id(1), id(2)}, h.list(t, message.ID{}, message.MaxID, 2))
	require.Equal(t, []message.ID{id(3), id(5)}, h.list(t, id(2), message.MaxID, 2))
	require.Equal(t, []message.ID{id(2), id(3)}, h.list(t, id(1), id(3), 10), "above the first bound, and up to the second")
	require.Equal(t, []message.ID{id(2), id(3)}, h.list(t, id(1), id(4), 10))
	require.Empty(t, h.list(t, id(5), message.MaxID, 10))
	require.Empty(t, h.list(t, id(3), id(3), 10))
}

func (s progressSuite) removes(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	for n := range 4 {
		h.plan(t, id(n+1), later(1), 0, 3)
	}
	remove := func(ids ...message.ID) { t.Helper(); require.NoError(t, h.Store.Remove(t.Context(), ids)) }
	remove()
	remove(id(3), id(1), id(9))
	remove(id(3))
	require.Equal(t, []message.ID{id(2), id(4)}, h.list(t, message.ID{}, message.MaxID, 10))
	_, err := h.Store.Get(t.Context(), id(3))
	require.ErrorIs(t, err, progress.ErrNotFound)
	_, ok, err := h.Store.Scans(t.Context(), 3, []message.ID{id(1), id(2)})
	require.NoError(t, err)
	require.Equal(t, []bool{false, true}, ok)
	require.False(t, h.step(t, later(2), progress.Move{ID: id(1), To: progress.Scan{}.Join("m")})[0].Applied)
	require.Len(t, h.plan(t, id(1), later(3), 2).Scans, 1, "it is planned again")
	require.Len(t, h.get(t, id(2)).Scans, 2)
}
