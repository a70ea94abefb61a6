package storetest

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
)

type flagSuite struct{ backend Backend }

// run tests a backend's flag.Store.
func (s flagSuite) run(t *testing.T) {
	t.Helper()
	t.Run("Lookup/of inboxes with and without flags", s.lookup)
	t.Run("Replace/follows the revision before", s.replace)
	t.Run("Replace/by many has one winner", s.concurrently)
	t.Run("Replace/keeps a record of the greatest size", s.largest)
	t.Run("Reopen/keeps records", s.reopen)
	t.Run("Damage/fails one record", s.damaged)
}

// flagsOf returns a record that differs with n.
func flagsOf(owner message.UserID, revision int64, n int) flag.Record {
	return flag.Record{
		Owner: owner, Revision: revision, MessagesAt: revision, DroppedAt: revision - 1,
		Buckets:  []flag.Bucket{{Sequence: uint32(n), At: 1, Read: 1, Archived: math.MaxUint64}, {Sequence: math.MaxUint32, At: revision, Unread: 1 << 63}}, //nolint:gosec // a test counts from 0
		Messages: []flag.Message{{ID: id(n), Flags: flag.Read | flag.Archived}},
	}
}

// largestFlags returns a record with as much as possible.
func largestFlags(owner message.UserID) flag.Record {
	r := flag.Record{Owner: owner, Revision: 1, MessagesAt: 1}
	for n := range uint32(flag.MaxBuckets) {
		r.Buckets = append(r.Buckets, flag.Bucket{Sequence: n, At: 1, Read: math.MaxUint64, Archived: math.MaxUint64})
	}
	for n := range flag.MaxMessages {
		r.Messages = append(r.Messages, flag.Message{ID: messagetest.ID(n), Flags: flag.Unread})
	}
	return r
}

func getFlags(t *testing.T, store flag.Store, owner message.UserID) flag.Record {
	t.Helper()
	r, err := flag.Get(t.Context(), store, owner)
	require.NoError(t, err)
	return r
}

func replaceFlags(t *testing.T, store flag.Store, r flag.Record) bool {
	t.Helper()
	stored, err := store.Replace(t.Context(), r)
	require.NoError(t, err)
	return stored
}

func (s flagSuite) lookup(t *testing.T) {
	t.Parallel()
	store := s.backend.New(t).Flags
	ann, annie := flagsOf("ann", 1, 1), flagsOf("annie", 1, 2)
	require.Equal(t, flag.Record{Owner: "ann"}, getFlags(t, store, "ann"))
	require.True(t, replaceFlags(t, store, annie))
	require.True(t, replaceFlags(t, store, ann))
	looked, err := store.Lookup(t.Context(), []message.UserID{"zoe", "annie", "an", "ann"})
	require.NoError(t, err)
	require.Equal(t, []flag.Looked{{Record: flag.Record{Owner: "zoe"}}, {Record: annie}, {Record: flag.Record{Owner: "an"}}, {Record: ann}}, looked)
	looked, err = store.Lookup(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, looked)
}

func (s flagSuite) replace(t *testing.T) {
	t.Parallel()
	store := s.backend.New(t).Flags
	require.False(t, replaceFlags(t, store, flagsOf("ann", 2, 1)), "there is none before")
	require.Equal(t, flag.Record{Owner: "ann"}, getFlags(t, store, "ann"))
	for revision := range int64(4) {
		r := flagsOf("ann", revision+1, int(revision))
		for range 2 { // and once more
			require.True(t, replaceFlags(t, store, r))
			require.Equal(t, r, getFlags(t, store, "ann"))
		}
		for _, other := range []int64{1, revision, revision + 1, revision + 3} {
			require.False(t, replaceFlags(t, store, flagsOf("ann", other, 9)), "revision %d after %d", other, r.Revision)
		}
		require.Equal(t, r, getFlags(t, store, "ann"))
	}
	bare := flag.Record{Owner: "ann", Revision: 5, DroppedAt: 5}
	require.True(t, replaceFlags(t, store, bare))
	require.Equal(t, bare, getFlags(t, store, "ann"))
}

func (s flagSuite) concurrently(t *testing.T) {
	t.Parallel()
	const callers, rounds = 8, 10
	store := s.backend.New(t).Flags
	for round := range int64(rounds) {
		stored, errs := make([]bool, callers), make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() { stored[i], errs[i] = store.Replace(t.Context(), flagsOf("ann", round+1, i)) })
		}
		wg.Wait()
		there, winners := getFlags(t, store, "ann"), 0
		for i := range callers {
			require.NoError(t, errs[i])
			if stored[i] {
				winners++
				require.Equal(t, flagsOf("ann", round+1, i), there)
			}
		}
		require.Equal(t, 1, winners)
	}
}

func (s flagSuite) largest(t *testing.T) {
	t.Parallel()
	store := s.backend.New(t).Flags
	r := largestFlags(longest(0))
	require.True(t, replaceFlags(t, store, r))
	require.Equal(t, r, getFlags(t, store, r.Owner))
}

func (s flagSuite) reopen(t *testing.T) {
	t.Parallel()
	db := s.backend.New(t)
	for revision := range int64(3) {
		r := flagsOf("ann", revision+1, 1)
		require.True(t, replaceFlags(t, db.Flags, r))
		db = db.Reopen(t)
		require.Equal(t, r, getFlags(t, db.Flags, "ann"))
	}
}

func (s flagSuite) damaged(t *testing.T) {
	t.Parallel()
	db := s.backend.New(t)
	ann := flagsOf("ann", 1, 1)
	require.True(t, replaceFlags(t, db.Flags, ann))
	require.True(t, replaceFlags(t, db.Flags, flagsOf("ben", 1, 1)))
	db.DamageFlags(t, "ben")
	looked, err := db.Flags.Lookup(t.Context(), []message.UserID{"ben", "ann"})
	require.NoError(t, err)
	require.Equal(t, flag.Record{Owner: "ben"}, looked[0].Record)
	require.ErrorIs(t, looked[0].Err, message.ErrCorrupt)
	require.ErrorContains(t, looked[0].Err, "ben")
	require.Equal(t, flag.Looked{Record: ann}, looked[1])
	for _, revision := range []int64{1, 2} {
		stored, err := db.Flags.Replace(t.Context(), flagsOf("ben", revision, 2))
		require.ErrorIs(t, err, message.ErrCorrupt)
		require.False(t, stored)
	}
}
