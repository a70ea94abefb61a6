package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/popular"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

type popularSuite struct{ backend Backend }

// run tests a backend's popular.Store.
func (s popularSuite) run(t *testing.T) {
	t.Helper()
	t.Run("Load/without a record", s.none)
	t.Run("Replace/applies to the record that was loaded", s.replace)
	t.Run("Replace/by many has one winner", s.replaceConcurrently)
	t.Run("Replace/by the largest record", s.largest)
	t.Run("Sample/estimates the followers of all", s.sample)
}

func loadPopular(t *testing.T, store popular.Store) popular.Record {
	t.Helper()
	record, err := store.Load(t.Context())
	require.NoError(t, err)
	return record
}

func (s popularSuite) none(t *testing.T) {
	t.Parallel()
	require.Zero(t, loadPopular(t, s.backend.New(t).Popular))
}

func (s popularSuite) replace(t *testing.T) {
	t.Parallel()
	db := s.backend.New(t)
	first := popular.Record{Filling: epoch, Users: []popular.User{{ID: "ann", Followers: 64}, {ID: "名前", Followers: 1 << 40}}}
	require.NoError(t, db.Popular.Replace(t.Context(), popular.Record{}, first))
	got := loadPopular(t, db.Popular)
	require.Positive(t, got.Revision)
	first.Revision = got.Revision
	require.Equal(t, first, got)
	require.Equal(t, time.UTC, got.Filling.Location())

	second := popular.Record{Filled: true}
	require.NoError(t, db.Popular.Replace(t.Context(), got, second))
	require.ErrorIs(t, db.Popular.Replace(t.Context(), got, first), popular.ErrChanged)
	require.ErrorIs(t, db.Popular.Replace(t.Context(), popular.Record{}, first), popular.ErrChanged)
	last := loadPopular(t, db.Popular)
	require.Greater(t, last.Revision, got.Revision)
	second.Revision = last.Revision
	require.Equal(t, second, last, "a refused change changes nothing")
	_, err := db.Settings.Load(t.Context())
	require.NoError(t, err, "the record is apart from that of the settings")
	processes, err := db.Settings.Processes(t.Context())
	require.NoError(t, err)
	require.Empty(t, processes)
}

func (s popularSuite) replaceConcurrently(t *testing.T) {
	t.Parallel()
	const callers = 8
	store := s.backend.New(t).Popular
	for from := (popular.Record{}); from.Revision < 3; from = loadPopular(t, store) {
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				errs[i] = store.Replace(t.Context(), from, popular.Record{Users: []popular.User{{ID: "ann", Followers: int64(i + 1)}}})
			})
		}
		wg.Wait()
		winners := 0
		for i, err := range errs {
			if err == nil {
				winners++
				require.EqualValues(t, i+1, loadPopular(t, store).Users[0].Followers)
				continue
			}
			require.ErrorIs(t, err, popular.ErrChanged)
		}
		require.Equal(t, 1, winners)
	}
}

// largest stores as many users as there may be, with the longest ids.
func (s popularSuite) largest(t *testing.T) {
	t.Parallel()
	store := s.backend.New(t).Popular
	var record popular.Record
	for n := range popular.Max {
		id := fmt.Sprintf("%05d", n)
		id = strings.Repeat("x", message.MaxUserIDBytes-len(id)) + id
		record.Users = append(record.Users, popular.User{ID: message.UserID(id), Followers: 1 << 40})
	}
	require.NoError(t, store.Replace(t.Context(), popular.Record{}, record))
	require.Equal(t, record.Users, loadPopular(t, store).Users)
}

// sample compares an estimate with users of whom one has most of the followers, more than are read at once.
func (s popularSuite) sample(t *testing.T) {
	t.Parallel()
	db := s.backend.New(t)
	_, next, err := db.Popular.Sample(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, next, "there is no edge")
	const followers = 1_600
	pairs := []follow.Pair{pair("fan-00000", "ann"), pair("fan-00001", "zoe")}
	for n := range followers {
		pairs = append(pairs, pair(message.UserID(fmt.Sprintf("fan-%05d", n)), "star"))
	}
	for chunk := range slices.Chunk(pairs, 400) {
		_, err := db.Edges.Follow(t.Context(), chunk, epoch)
		require.NoError(t, err)
	}
	numbers := make(map[message.UserID]int64)
	for part, calls := "", 0; calls == 0 || part != ""; calls++ {
		var found []popular.User
		found, part, err = db.Popular.Sample(t.Context(), part)
		require.NoError(t, err)
		for _, u := range found {
			numbers[u.ID] += u.Followers
		}
		require.Less(t, calls, 100, "the parts end")
	}
	// The server of a store may only estimate how many edges there are, so the sum is worth less than the shares.
	sum := int64(0)
	for _, n := range numbers {
		sum += n
	}
	require.Greater(t, sum, int64(followers/2))
	require.Less(t, sum, int64(10*followers))
	require.Greater(t, 10*numbers["star"], 9*sum)
	require.Less(t, numbers["ann"], int64(100))
	require.Less(t, numbers["zoe"], int64(100))
	require.NotContains(t, numbers, message.UserID("fan-00000"))
}
