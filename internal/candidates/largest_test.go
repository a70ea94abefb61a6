package candidates_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/candidates"
	"github.com/fanmail/fanmail/internal/popular"
	"github.com/fanmail/fanmail/pkg/message"
)

// ledger is a popular.Store in memory.
type ledger struct {
	mu        sync.Mutex
	record    popular.Record
	writes    int
	conflicts int   // so many of the next calls of Replace find that another process was first
	err       error // of Load
	// parts are the parts of the sample. sampled counts those that were read.
	parts   [][]popular.User
	sampled int
}

func (l *ledger) Sample(_ context.Context, part string) (found []popular.User, next string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, "", l.err
	}
	number := len(part)
	if number+1 < len(l.parts) {
		next = part + "x"
	}
	l.sampled++
	return l.parts[number], next, nil
}

func (l *ledger) Load(context.Context) (popular.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record, l.err
}

func (l *ledger) Replace(_ context.Context, from, to popular.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conflicts > 0 {
		l.conflicts--
		l.record.Revision++
	}
	if from.Revision != l.record.Revision {
		return popular.ErrChanged
	}
	l.writes++
	to.Revision = from.Revision + 1
	l.record = to
	return nil
}

func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// always samples every change.
func always(int) int { return 0 }

// counting makes a process count followers in a record.
func (w *world) counting(l *ledger, random func(int) int) *candidates.Set {
	s := w.process(func(o *candidates.Options) { o.Popular, o.Random = l, random })
	w.start(s.Update)
	return s
}

func TestLargestAreCandidatesEverywhere(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		store := &ledger{record: popular.Record{Revision: 3, Users: []popular.User{{ID: "zoe", Followers: 1 << 30}}}}
		one, two := w.counting(store, always), w.counting(store, always)
		pass(2 * time.Second)
		require.Equal(t, []message.UserID{"zoe"}, one.Users(), "the record is read at the start")
		one.Gained("ann", 1)
		two.Gained("ann", 1)
		two.Gained("ben", 1)
		two.Seen("ann")
		two.Seen("cleo")
		pass(2*time.Minute + 2*time.Second)
		for _, s := range []*candidates.Set{one, two} {
			require.Equal(t, []message.UserID{"ann", "ben", "cleo", "zoe"}, s.Users(), "viewers and the largest, each once")
		}
		require.Equal(t, []popular.User{{ID: "ann", Followers: 128}, {ID: "ben", Followers: 64}, {ID: "zoe", Followers: 1 << 30}}, store.record.Users)
		require.Equal(t, 2, store.writes, "one for each process")
		two.Gained("ben", -1)
		pass(10 * time.Minute)
		require.Equal(t, []message.UserID{"ann", "zoe"}, one.Users(), "who loses all followers is dropped, as are viewers")
		require.Equal(t, 3, store.writes, "nothing is written without a change")
	})
}

func TestFollowersAreSampled(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		store, calls := &ledger{}, 0
		s := w.counting(store, func(n int) int {
			require.Equal(t, 64, n)
			calls++
			return calls % n
		})
		for range 3*64 + 63 {
			s.Gained("ann", 1)
		}
		pass(2 * time.Minute)
		require.Equal(t, []popular.User{{ID: "ann", Followers: 3 * 64}}, store.record.Users)
	})
}

// A process whose changes collide with those of others tries again, but not without limit.
func TestRecordOfManyProcesses(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		store := &ledger{record: popular.Record{Revision: 1}}
		s := w.counting(store, always)
		store.conflicts = 2
		s.Gained("ann", 1)
		pass(2 * time.Minute)
		require.Equal(t, []popular.User{{ID: "ann", Followers: 64}}, store.record.Users)
		store.conflicts = 3
		s.Gained("ben", 1)
		pass(2 * time.Minute)
		require.Equal(t, []popular.User{{ID: "ann", Followers: 64}}, store.record.Users)
		require.Zero(t, store.conflicts)
		s.Gained("cleo", 1)
		pass(2 * time.Minute)
		require.Equal(t, []popular.User{{ID: "ann", Followers: 64}, {ID: "cleo", Followers: 64}}, store.record.Users)
	})
}

func TestRecordThatCannotBeRead(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		store := &ledger{record: popular.Record{Revision: 1, Users: []popular.User{{ID: "ann", Followers: 64}}}}
		s := w.counting(store, always)
		pass(2 * time.Second)
		store.fail(errors.New("the store is away"))
		s.Gained("ben", 1)
		pass(2 * time.Minute)
		require.Equal(t, []message.UserID{"ann"}, s.Users())
		store.fail(nil)
		s.Gained("cleo", 1)
		pass(2 * time.Minute)
		require.Equal(t, []message.UserID{"ann", "cleo"}, s.Users())
	})
}

// The changes that wait to be recorded are bounded, whoever is followed.
func TestChangesAreBounded(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		store := &ledger{}
		s := w.counting(store, always)
		pass(time.Second)
		for n := range candidates.Max + 100 {
			s.Gained(message.UserID(fmt.Sprintf("user-%05d", n)), 1)
			s.Gained("user-00000", 1)
		}
		pass(time.Minute)
		require.Len(t, store.record.Users, popular.Max)
		require.Equal(t, popular.User{ID: "user-00000", Followers: 64 * (candidates.Max + 101)}, store.record.Users[0])
		require.NotContains(t, store.record.Users, popular.User{ID: "user-10099", Followers: 64})
	})
}
