package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
)

type walkSuite struct{ backend Backend }

// run tests a backend's retention.Store.
func (s walkSuite) run(t *testing.T) {
	t.Helper()
	t.Run("Load/without a record", s.none)
	t.Run("Replace/applies to the record that was loaded", s.replace)
	t.Run("Replace/by many has one winner", s.replaceConcurrently)
}

func loadRound(t *testing.T, store retention.Store) retention.Round {
	t.Helper()
	round, err := store.Load(t.Context())
	require.NoError(t, err)
	return round
}

func (s walkSuite) none(t *testing.T) {
	t.Parallel()
	require.Zero(t, loadRound(t, s.backend.New(t).Walk))
}

func (s walkSuite) replace(t *testing.T) {
	t.Parallel()
	db := s.backend.New(t)
	var last retention.Round
	for revision, round := range []retention.Round{
		{Began: epoch, Partition: 3, After: "名前", Token: "host-1", Until: later(60)},
		{Began: epoch, Partition: 4, Until: later(90)},
		{
			Began: epoch, Number: 7, Target: messagetest.ID(1), Missed: true, AsOf: later(30), Reading: later(40), LowWater: messagetest.ID(4), Proven: 5,
			Users: retention.Census{Active: 3, Dormant: 1 << 40}, Counted: retention.Census{Active: 5, Dormant: 6},
		},
		{Began: epoch, Ended: true},
	} {
		require.NoError(t, db.Walk.Replace(t.Context(), last, round))
		require.ErrorIs(t, db.Walk.Replace(t.Context(), last, retention.Round{Began: later(1)}), retention.ErrChanged)
		round.Revision = int64(revision + 1)
		last = loadRound(t, db.Walk)
		require.Equal(t, round, last, "a refused change changes nothing")
		require.Equal(t, time.UTC, last.Began.Location())
	}
	_, err := db.Settings.Load(t.Context())
	require.NoError(t, err, "the record is apart from that of the settings")
	require.Zero(t, loadRound(t, db.Passes), "and from that of the pass over edges")
}

func (s walkSuite) replaceConcurrently(t *testing.T) {
	t.Parallel()
	const callers = 8
	store := s.backend.New(t).Walk
	for from := (retention.Round{}); from.Revision < 3; from = loadRound(t, store) {
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() { errs[i] = store.Replace(t.Context(), from, retention.Round{Began: epoch, Partition: i}) })
		}
		wg.Wait()
		winners := 0
		for i, err := range errs {
			if err == nil {
				winners++
				require.Equal(t, i, loadRound(t, store).Partition)
				continue
			}
			require.ErrorIs(t, err, retention.ErrChanged)
		}
		require.Equal(t, 1, winners)
	}
}
