package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/message"
)

// progressStore is the progress.Store of an opened database.
type progressStore struct {
	Store      progress.Store
	Partitions int
	Reopen     func(t *testing.T) progressStore
}

type progressSuite struct{ backend Backend }

// open returns the store of a new, empty database.
func (s progressSuite) open(t *testing.T) progressStore {
	t.Helper()
	return s.of(s.backend.New(t))
}

func (s progressSuite) of(db Database) progressStore {
	return progressStore{
		Store: db.Progress, Partitions: s.backend.Partitions,
		Reopen: func(t *testing.T) progressStore { t.Helper(); return s.of(db.Reopen(t)) },
	}
}

// run tests a backend's progress.Store.
func (s progressSuite) run(t *testing.T) {
	t.Helper()
	t.Run("Plan/records the partitions", s.plan)
	t.Run("Plan/again changes nothing", s.planIsIdempotent)
	t.Run("Plan/without partitions is done", s.planNothing)
	t.Run("Plan/by many has one winner", s.planConcurrently)
	t.Run("Get/of what is not planned", s.getUnknown)
	t.Run("GetMany/in the order of ids", s.getMany)
	t.Run("GetMany/of nothing", s.getManyOfNothing)
	t.Run("Scans/in the order of ids", s.scans)
	t.Run("Step/applies to the record it was computed from", s.step)
	t.Run("Step/of another record changes nothing", s.stepRefused)
	t.Run("Step/ignores counts in the comparison", s.stepIgnoresCounts)
	t.Run("Step/of what is not planned is not applied", s.stepUnplanned)
	t.Run("Step/attempts every step on its own", s.stepsAreIndependent)
	t.Run("Step/of one scan by many has one winner", s.stepConcurrently)
	t.Run("Step/of many scans of one message loses none", s.stepPartitionsConcurrently)
	t.Run("Step/chains by many count every step once", s.stepChains)
	t.Run("Step/of a scan that was given up is not applied", s.stepGivenUp)
	t.Run("List/between two ids, in their order", s.lists)
	t.Run("Remove/removes plans", s.removes)
	t.Run("Reopen/keeps plans and steps", s.reopen)
}

func (h progressStore) plan(t *testing.T, id message.ID, at time.Time, partitions ...int) progress.Fanout {
	t.Helper()
	f, err := h.Store.Plan(t.Context(), id, "medium", partitions, at)
	require.NoError(t, err)
	return f
}

func (h progressStore) get(t *testing.T, id message.ID) progress.Fanout {
	t.Helper()
	f, err := h.Store.Get(t.Context(), id)
	require.NoError(t, err)
	return f
}

func (h progressStore) step(t *testing.T, at time.Time, steps ...progress.Move) []progress.Moved {
	t.Helper()
	stepped, err := h.Store.Step(t.Context(), steps, at)
	require.NoError(t, err)
	require.Len(t, stepped, len(steps))
	return stepped
}

func requireFanout(t *testing.T, want, got progress.Fanout) {
	t.Helper()
	require.Equal(t, want.ID, got.ID)
	require.Equal(t, want.Moved, got.Moved)
	require.Len(t, got.Scans, len(want.Scans))
	for part, scan := range want.Scans {
		require.Contains(t, got.Scans, part)
		require.Equal(t, scan, got.Scans[part])
	}
}

func (s progressSuite) plan(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	want := progress.Fanout{ID: id(1), Scans: map[int]progress.Scan{0: {}, 1: {}, 3: {}}, Moved: later(1)}
	requireFanout(t, want, h.plan(t, id(1), later(1).Add(999*time.Microsecond).In(time.FixedZone("east", 3600)), 3, 0, 1))
	requireFanout(t, want, h.get(t, id(1)))
}

func (s progressSuite) planIsIdempotent(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.plan(t, id(1), later(1), 0, 2)
	to := progress.Scan{}.Join("m").Advance("p", false, progress.Counts{Delivered: 3, Skipped: 1})
	require.True(t, h.step(t, later(2), progress.Move{ID: id(1), Partition: 2, To: to})[0].Applied)
	want := progress.Fanout{ID: id(1), Scans: map[int]progress.Scan{0: {}, 2: to}, Moved: later(2)}
	requireFanout(t, want, h.plan(t, id(1), later(3), 0, 2))
	requireFanout(t, want, h.plan(t, id(1), later(4), 1, 2, 3))
	requireFanout(t, want, h.plan(t, id(1), later(5)))
	requireFanout(t, want, h.get(t, id(1)))
	_, ok, err := h.Store.Scans(t.Context(), 1, []message.ID{id(1)})
	require.NoError(t, err)
	require.Equal(t, []bool{false}, ok)
}

func (s progressSuite) planNothing(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	require.True(t, h.plan(t, id(1), later(1)).Done())
	require.True(t, h.get(t, id(1)).Done())
	require.Empty(t, h.plan(t, id(1), later(2), 0, 1).Scans, "it was planned for no partition")
}

func (s progressSuite) planConcurrently(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	got := make([]progress.Fanout, h.Partitions)
	errs := make([]error, h.Partitions)
	var wg sync.WaitGroup
	for part := range h.Partitions {
		wg.Go(func() { got[part], errs[part] = h.Store.Plan(t.Context(), id(1), "medium", []int{part}, later(part)) })
	}
	wg.Wait()
	for part := range h.Partitions {
		require.NoError(t, errs[part])
		requireFanout(t, got[0], got[part])
	}
	require.Len(t, got[0].Scans, 1)
	requireFanout(t, got[0], h.get(t, id(1)))
}

func (s progressSuite) getUnknown(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.plan(t, id(1), later(1), 0)
	_, err := h.Store.Get(t.Context(), id(2))
	require.ErrorIs(t, err, progress.ErrNotFound)
}

func (s progressSuite) getMany(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.plan(t, id(1), later(1), 0, 3)
	h.plan(t, id(2), later(2), 1)
	to := progress.Scan{}.Join("m").Advance("p", false, progress.Counts{Delivered: 3, Skipped: 1})
	require.True(t, h.step(t, later(3), progress.Move{ID: id(1), Partition: 3, To: to})[0].Applied)
	ids := []message.ID{id(2), id(9), id(1), id(2)}
	fanouts, ok, err := h.Store.GetMany(t.Context(), ids)
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, true, true}, ok)
	require.Len(t, fanouts, len(ids))
	for i, planned := range ok {
		if planned {
			requireFanout(t, h.get(t, ids[i]), fanouts[i])
		}
	}
}

func (s progressSuite) getManyOfNothing(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	fanouts, ok, err := h.Store.GetMany(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, fanouts)
	require.Empty(t, ok)
}

func (s progressSuite) scans(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.plan(t, id(1), later(1), 0, 1)
	h.plan(t, id(2), later(1), 1)
	h.plan(t, id(3), later(1), 0)
	one, three := progress.Scan{}.Join("a"), progress.Scan{}.Join("").Advance("", true, progress.Counts{Delivered: 5, Skipped: 6})
	h.step(t, later(2), progress.Move{ID: id(1), Partition: 0, To: one}, progress.Move{ID: id(3), Partition: 0, To: three})
	scans, ok, err := h.Store.Scans(t.Context(), 0, []message.ID{id(3), id(9), id(1), id(2)})
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, true, false}, ok)
	require.Len(t, scans, 4)
	require.Equal(t, three, scans[0])
	require.Equal(t, one, scans[2])
	scans, ok, err = h.Store.Scans(t.Context(), 1, []message.ID{id(1), id(2)})
	require.NoError(t, err)
	require.Equal(t, []bool{true, true}, ok)
	require.Equal(t, []progress.Scan{{}, {}}, scans, "planned and not joined")
}

func (s progressSuite) step(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.plan(t, id(1), later(1), 0, 3)
	joined := progress.Scan{}.Join("m")
	dead := joined.Advance("x", false, progress.Counts{Delivered: 10, Skipped: 1})
	dead.Dead = true
	revived := dead
	revived.Dead = false
	wrapped := revived.Advance("", true, progress.Counts{Delivered: 1, Skipped: 2})
	done := wrapped.Advance("zz", false, progress.Counts{Delivered: 1 << 40})
	require.True(t, done.Done)
	from := progress.Scan{}
	for i, to := range []progress.Scan{joined, dead, revived, wrapped, done} {
		got := h.step(t, later(2+i), progress.Move{ID: id(1), Partition: 3, From: from, To: to})
		require.Equal(t, []progress.Moved{{Applied: true, Scan: to}}, got)
		requireFanout(t, progress.Fanout{ID: id(1), Scans: map[int]progress.Scan{0: {}, 3: to}, Moved: later(2 + i)}, h.get(t, id(1)))
		from = to
	}
}

func (s progressSuite) stepRefused(t *testing.T) {
	t.Parallel()
	stored := progress.Scan{Joined: true, Start: "c", At: "m", Delivered: 2, Skipped: 1}
	for name, change := range map[string]func(*progress.Scan){
		"not joined":    func(s *progress.Scan) { *s = progress.Scan{} },
		"another start": func(s *progress.Scan) { s.Start = "b" },
		"further":       func(s *progress.Scan) { s.At = "n" },
		"done":          func(s *progress.Scan) { s.Done = true },
		"dead":          func(s *progress.Scan) { s.Dead = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := s.open(t)
			h.plan(t, id(1), later(1), 0)
			h.step(t, later(2), progress.Move{ID: id(1), To: stored})
			from := stored
			change(&from)
			to := stored
			to.At, to.Delivered = "x", 99
			require.Equal(t, []progress.Moved{{Scan: stored}}, h.step(t, later(3), progress.Move{ID: id(1), From: from, To: to}))
			requireFanout(t, progress.Fanout{ID: id(1), Scans: map[int]progress.Scan{0: stored}, Moved: later(2)}, h.get(t, id(1)))
		})
	}
}

func (s progressSuite) stepIgnoresCounts(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.plan(t, id(1), later(1), 0)
	stored := progress.Scan{Joined: true, Start: "c", At: "m", Delivered: 2, Skipped: 1}
	h.step(t, later(2), progress.Move{ID: id(1), To: stored})
	from := stored
	from.Delivered, from.Skipped = 0, 0
	to := stored.Advance("q", false, progress.Counts{Delivered: 1, Skipped: 1})
	require.Equal(t, []progress.Moved{{Applied: true, Scan: to}}, h.step(t, later(3), progress.Move{ID: id(1), From: from, To: to}))
}

func (s progressSuite) stepUnplanned(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.plan(t, id(1), later(1), 0)
	to := progress.Scan{}.Join("m")
	got := h.step(t, later(2), progress.Move{ID: id(1), Partition: 1, To: to}, progress.Move{ID: id(2), To: to})
	require.False(t, got[0].Applied)
	require.False(t, got[1].Applied)
	requireFanout(t, progress.Fanout{ID: id(1), Scans: map[int]progress.Scan{0: {}}, Moved: later(1)}, h.get(t, id(1)))
	_, err := h.Store.Get(t.Context(), id(2))
	require.ErrorIs(t, err, progress.ErrNotFound)
}

func (s progressSuite) stepsAreIndependent(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.plan(t, id(1), later(1), 0, 1, 2)
	h.plan(t, id(2), later(1), 0)
	to := progress.Scan{}.Join("m")
	got := h.step(t, later(2),
		progress.Move{ID: id(2), Partition: 0, To: to},
		progress.Move{ID: id(1), Partition: 1, From: to, To: to.Advance("x", false, progress.Counts{Delivered: 1})},
		progress.Move{ID: id(1), Partition: 2, To: to},
		progress.Move{ID: id(1), Partition: 0, To: to},
	)
	require.Equal(t, []progress.Moved{{Applied: true, Scan: to}, {}, {Applied: true, Scan: to}, {Applied: true, Scan: to}}, got)
	requireFanout(t, progress.Fanout{ID: id(1), Scans: map[int]progress.Scan{0: to, 1: {}, 2: to}, Moved: later(2)}, h.get(t, id(1)))
	requireFanout(t, progress.Fanout{ID: id(2), Scans: map[int]progress.Scan{0: to}, Moved: later(2)}, h.get(t, id(2)))
	require.Empty(t, h.step(t, later(3)))
}

func (s progressSuite) stepConcurrently(t *testing.T) {
	t.Parallel()
	const callers = 8
	h := s.open(t)
	h.plan(t, id(1), later(1), 0)
	got := make([][]progress.Moved, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			to := progress.Scan{}.Join(message.UserID(fmt.Sprint("user-", i)))
			got[i], errs[i] = h.Store.Step(t.Context(), []progress.Move{{ID: id(1), To: to}}, later(2))
		})
	}
	wg.Wait()
	stored := h.get(t, id(1)).Scans[0]
	applied := 0
	for i := range callers {
		require.NoError(t, errs[i])
		require.Equal(t, stored, got[i][0].Scan, "the loser is told what the winner recorded")
		if got[i][0].Applied {
			applied++
			require.Equal(t, message.UserID(fmt.Sprint("user-", i)), stored.Start)
		}
	}
	require.Equal(t, 1, applied)
}

func (s progressSuite) stepPartitionsConcurrently(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	var all []int
	for part := range h.Partitions {
		all = append(all, part)
	}
	h.plan(t, id(1), later(1), all...)
	errs := make([]error, h.Partitions)
	var wg sync.WaitGroup
	for part := range h.Partitions {
		wg.Go(func() {
			to := progress.Scan{}.Join("").Advance("", true, progress.Counts{Delivered: int64(part), Skipped: 1})
			_, errs[part] = h.Store.Step(t.Context(), []progress.Move{{ID: id(1), Partition: part, To: to}}, later(2))
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	f := h.get(t, id(1))
	require.True(t, f.Done())
	n := int64(h.Partitions)
	require.Equal(t, progress.Counts{Delivered: n * (n - 1) / 2, Skipped: n}, f.Counts())
}

func (s progressSuite) stepChains(t *testing.T) {
	t.Parallel()
	const callers, rounds = 4, 25
	h := s.open(t)
	h.plan(t, id(1), later(1), 0)
	applied := make([]int64, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			var from progress.Scan
			for round := range rounds {
				to := from.Join("")
				to.At = message.UserID(fmt.Sprintf("user-%d-%d", i, round))
				to.Delivered++
				got, err := h.Store.Step(t.Context(), []progress.Move{{ID: id(1), From: from, To: to}}, later(2))
				if err != nil {
					errs[i] = err
					return
				}
				if got[0].Applied {
					applied[i]++
				}
				from = got[0].Scan
			}
		})
	}
	wg.Wait()
	var sum int64
	for i := range callers {
		require.NoError(t, errs[i])
		sum += applied[i]
	}
	require.Positive(t, sum)
	require.Equal(t, sum, h.get(t, id(1)).Scans[0].Delivered)
}

func (s progressSuite) reopen(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.plan(t, id(1), later(1), 0, 1)
	h.plan(t, id(2), later(1))
	to := progress.Scan{}.Join("m").Advance("x", false, progress.Counts{Delivered: 7, Skipped: 8})
	h.step(t, later(2), progress.Move{ID: id(1), Partition: 1, To: to})
	h = h.Reopen(t)
	requireFanout(t, progress.Fanout{ID: id(1), Scans: map[int]progress.Scan{0: {}, 1: to}, Moved: later(2)}, h.get(t, id(1)))
	requireFanout(t, progress.Fanout{ID: id(2), Moved: later(1)}, h.get(t, id(2)))
	next := to.Advance("", true, progress.Counts{Delivered: 1})
	require.True(t, h.step(t, later(3), progress.Move{ID: id(1), Partition: 1, From: to, To: next})[0].Applied)
	h = h.Reopen(t)
	requireFanout(t, progress.Fanout{ID: id(1), Scans: map[int]progress.Scan{0: {}, 1: next}, Moved: later(3)}, h.get(t, id(1)))
	missed := next.Miss("c", false).Advance("d", false, progress.Counts{Delivered: 2, Skipped: 3})
	require.True(t, missed.Arc.Noted)
	require.True(t, h.step(t, later(4), progress.Move{ID: id(1), Partition: 1, From: next, To: missed})[0].Applied)
	h = h.Reopen(t)
	requireFanout(t, progress.Fanout{ID: id(1), Scans: map[int]progress.Scan{0: {}, 1: missed}, Moved: later(4)}, h.get(t, id(1)))
}
