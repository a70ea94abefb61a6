package retention_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// memory is a retention.Store that can fail.
type memory struct {
	mu    sync.Mutex
	round retention.Round
	fail  func(to retention.Round) error
}

func (m *memory) Load(context.Context) (retention.Round, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.round, nil
}

func (m *memory) Replace(_ context.Context, from, to retention.Round) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if from.Revision != m.round.Revision {
		return retention.ErrChanged
	}
	if m.fail != nil {
		if err := m.fail(to); err != nil {
			return err
		}
	}
	to.Revision = from.Revision + 1
	m.round = to
	return nil
}

// world has many users, and walkers that note whom they keep.
type world struct {
	*rig.Rig
	store *memory
	clock time.Time
	kept  map[message.UserID]int
	// do, unless it is nil, is called with each user who is kept, and clear says what is found.
	do    func(message.UserID) error
	clear func(user message.UserID, target message.ID) retention.Kept
	// retention is what holds for all users.
	retention userstate.Retention
}

// walkers are more users than are read at once.
const walkers = 700

func newWorld(t *testing.T) *world {
	t.Helper()
	r, err := rig.Open(t.Context(), rig.NewClock(), nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	var users []message.UserID
	for n := range walkers {
		users = append(users, message.UserID(fmt.Sprintf("user-%03d", n)))
	}
	require.NoError(t, storetest.See(t.Context(), r.Users, rig.Epoch, rig.DormantAfter, users...))
	return &world{Rig: r, store: &memory{}, clock: rig.Epoch, kept: make(map[message.UserID]int)}
}

const every = time.Hour

func (w *world) walker(token string) *retention.Walker { return w.walkerWith(w.options(token)) }

func (w *world) walkerWith(opts retention.Options) *retention.Walker {
	walker := retention.New(retention.Stores{Rounds: w.store, Users: w.Users}, nil, opts)
	walker.SetKeep(func(_ context.Context, s userstate.State, round retention.Round) (retention.Kept, error) {
		if w.do != nil {
			if err := w.do(s.User); err != nil {
				return retention.Kept{}, err
			}
		}
		w.kept[s.User]++
		if w.clear != nil {
			return w.clear(s.User, round.Target), nil
		}
		return retention.Kept{Clear: message.MaxID, Expired: 1}, nil
	})
	return walker
}

func (w *world) options(token string) retention.Options {
	return retention.Options{
		Every: every, Partitions: rig.Partitions, Token: token, Rules: rig.Rules,
		Retention: func() userstate.Retention { return w.retention },
		Clock:     func(context.Context) (time.Time, bool, error) { return w.clock, true, nil },
		Elapsed:   func() time.Duration { return w.clock.Sub(rig.Epoch) },
		Now:       func() time.Time { return w.clock }, Logger: zerolog.Nop(),
	}
}

func (w *world) walk(t *testing.T, walker *retention.Walker) error {
	t.Helper()
	return walker.Walk(t.Context(), t.Context())
}

func (w *world) requireKept(t *testing.T, times int) {
	t.Helper()
	require.Len(t, w.kept, walkers)
	for user, n := range w.kept {
		require.Equal(t, times, n, "%s", user)
	}
}

// Each round keeps each user once, and begins when it is due.
func TestRounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.walker("first")
	for round := 1; round <= 3; round++ {
		require.NoError(t, w.walk(t, first))
		w.requireKept(t, round)
		require.True(t, w.store.round.Ended)
		require.NoError(t, w.walk(t, w.walker("second")))
		w.clock = w.clock.Add(every - time.Millisecond)
		require.NoError(t, w.walk(t, first))
		w.requireKept(t, round)
		w.clock = w.clock.Add(time.Millisecond)
	}
}

// A round counts each user it passes once, also where it was stopped in between, and what it has counted is shown until the next one ends.
func TestRoundsCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	intake, stop := context.WithCancel(t.Context())
	w.do = func(message.UserID) error {
		if len(w.kept) == walkers/2 {
			stop()
		}
		return nil
	}
	first := w.walker("first")
	require.NoError(t, first.Walk(intake, t.Context()))
	require.False(t, w.store.round.Counts())
	require.Equal(t, retention.Census{Active: walkers/2 + 1}, w.store.round.Users)
	require.NoError(t, w.walk(t, first))
	require.True(t, w.store.round.Counts())
	require.Equal(t, retention.Census{Active: walkers}, w.store.round.Counted)

	w.clock = w.clock.Add(rig.DormantAfter)
	stranger := message.UserID("stranger")
	_, err := w.Users.Step(t.Context(), []userstate.Step{{From: userstate.State{User: stranger}, To: userstate.State{User: stranger, Keep: userstate.Retention{Newest: 1}}}})
	require.NoError(t, err)
	w.do = func(message.UserID) error {
		require.Equal(t, retention.Census{Active: walkers}, w.store.round.Counted)
		return nil
	}
	require.NoError(t, w.walk(t, first))
	require.Equal(t, retention.Census{Dormant: walkers}, w.store.round.Counted)
	require.Zero(t, w.store.round.Users)
}

// A round continues where it was stopped, by whatever process comes first. A process that died keeps it until its lease ends.
func TestRoundContinues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	intake, stop := context.WithCancel(t.Context())
	w.do = func(message.UserID) error {
		if len(w.kept) == walkers/2 {
			stop()
		}
		return nil
	}
	require.NoError(t, w.walker("first").Walk(intake, t.Context()))
	require.Len(t, w.kept, walkers/2+1, "the user who is being kept is finished")
	require.False(t, w.store.round.Ended)
	require.Empty(t, w.store.round.Token)
	w.do = nil
	require.NoError(t, w.walk(t, w.walker("second")))
	w.requireKept(t, 1)

	w.clock = w.clock.Add(every)
	dead := w.clock.Add(time.Minute)
	w.store.round = retention.Round{Revision: w.store.round.Revision + 1, Began: w.clock, Partition: 1, Token: "dead", Until: dead}
	for _, test := range []struct {
		at   time.Time
		kept bool
	}{{w.clock, false}, {dead, false}, {dead.Add(time.Millisecond), true}} {
		w.clock = test.at
		clear(w.kept)
		require.NoError(t, w.walk(t, w.walker("third")))
		require.Equal(t, test.kept, len(w.kept) > 0, "%s", test.at)
		for user := range w.kept {
			require.Positive(t, partition.Of(user, rig.Partitions), "the lower partition is done")
		}
	}
}

// Where only one process can have the store open, it does not wait for the lease of one that has died.
func TestRoundContinuesAtOnceWhereAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.round = retention.Round{Revision: 1, Began: w.clock, Token: "dead", Until: w.clock.Add(time.Minute)}
	options := w.options("second")
	options.Alone = true
	require.NoError(t, w.walk(t, w.walkerWith(options)))
	w.requireKept(t, 1)
	require.True(t, w.store.round.Ended)
	require.NoError(t, w.walk(t, w.walkerWith(options)))
	w.requireKept(t, 1)
}

// A lease or a beginning that lies further ahead than any right clock sets it does not stop the walk.
func TestRoundOfAClockAhead(t *testing.T) {
	t.Parallel()
	for name, round := range map[string]retention.Round{
		"under way": {Revision: 1, Began: rig.Epoch, Token: "ahead", Until: rig.Epoch.Add(24 * time.Hour)},
		"ended":     {Revision: 1, Began: rig.Epoch.Add(24 * time.Hour), Ended: true},
	} {
		w := newWorld(t)
		w.store.round = round
		require.NoError(t, w.walk(t, w.walker("right")))
		w.requireKept(t, 1)
		require.Equal(t, rig.Epoch, w.store.round.Began, name)
	}
}

// A process that has lost its lease stops, and the other one continues.
func TestRoundIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do = func(message.UserID) error {
		w.clock = w.clock.Add(10 * time.Minute) // longer than a lease lasts
		if len(w.kept) == 0 {
			w.do = nil
			require.NoError(t, w.walk(t, w.walker("second")))
		}
		return nil
	}
	require.NoError(t, w.walk(t, w.walker("first")))
	require.Len(t, w.kept, walkers)
	require.True(t, w.store.round.Ended)
	twice := 0
	for _, n := range w.kept {
		twice += n - 1
	}
	require.Equal(t, 1, twice, "the user whom both had at hand")
}

// A store that fails ends the walk with an error. The next try continues with the user on whom it failed.
func TestRoundAfterAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := errors.New("broken")
	w.do = func(message.UserID) error {
		if len(w.kept) == walkers/3 {
			return broken
		}
		return nil
	}
	walker := w.walker("first")
	require.ErrorIs(t, w.walk(t, walker), broken)
	require.ErrorIs(t, w.walk(t, walker), broken)
	require.Len(t, w.kept, walkers/3)
	w.do = nil
	w.store.fail = func(to retention.Round) error {
		if to.Partition > 0 {
			return broken
		}
		return nil
	}
	require.ErrorIs(t, w.walk(t, walker), broken)
	w.store.fail = nil
	w.clock = w.clock.Add(2 * time.Minute) // the lease that could not be given back ends
	require.NoError(t, w.walk(t, walker))
	require.Len(t, w.kept, walkers)
}

// Damage of one user, and a panic, concern this user alone.
func TestDamageAndPanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do = func(user message.UserID) error {
		switch user {
		case "user-007":
			return fmt.Errorf("bucket: %w", message.ErrCorrupt)
		case "user-300":
			panic("a bug")
		}
		return nil
	}
	require.NoError(t, w.walk(t, w.walker("first")))
	require.Len(t, w.kept, walkers-2)
	require.True(t, w.store.round.Ended)
}

func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	intake, stop := context.WithCancel(t.Context())
	w.store.fail = func(to retention.Round) error {
		if to.Ended {
			stop()
		}
		return nil
	}
	w.walker("first").Run(intake, t.Context())
	w.requireKept(t, 1)
}

const day = 24 * time.Hour

// lastOf returns the last possible id of the millisecond before a time.
func lastOf(t time.Time) message.ID { return message.LastBefore(t) }

// A round that has found nothing up to its target makes it the low-water mark. One that has missed it does not. Damage and panics do not hold it up.
func TestLowWaterByAge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		clear  func(w *world, user message.UserID, target message.ID) retention.Kept
		do     func(user message.UserID) error
		proven bool
	}{
		"nothing is left": {proven: true, clear: func(_ *world, _ message.UserID, target message.ID) retention.Kept {
			return retention.Kept{Clear: target}
		}},
		"something is left of one": {clear: func(_ *world, user message.UserID, target message.ID) retention.Kept {
			if user == "user-300" {
				target = lastOf(target.Time())
			}
			return retention.Kept{Clear: target}
		}},
		"damage":  {proven: true, do: failAt("user-300", fmt.Errorf("bucket: %w", message.ErrCorrupt))},
		"a panic": {proven: true, do: func(user message.UserID) error { return panicAt("user-300", user) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.retention.MaxAge, w.do = day, test.do
			if test.clear != nil {
				w.clear = func(user message.UserID, target message.ID) retention.Kept { return test.clear(w, user, target) }
			}
			want := lastOf(w.clock.Add(-day))
			walker := w.walker("first")
			require.NoError(t, w.walk(t, walker))
			require.Equal(t, want, w.store.round.Target)
			status, err := walker.Status(t.Context())
			require.NoError(t, err)
			if !test.proven {
				require.Zero(t, w.store.round.LowWater)
				require.False(t, status.Walked)
				return
			}
			require.Equal(t, want, w.store.round.LowWater)
			require.EqualValues(t, 1, w.store.round.Proven)
			require.Equal(t, retention.Status{Walked: true, LowWater: want, AsOf: rig.Epoch, Overdue: time.Millisecond}, status)
			w.clock = w.clock.Add(time.Minute)
			status, err = walker.Status(t.Context())
			require.NoError(t, err)
			require.Equal(t, time.Minute+time.Millisecond, status.Overdue)

			w.retention = userstate.Retention{} // nothing expires any more
			w.clock = w.clock.Add(every)
			require.NoError(t, w.walk(t, walker))
			require.Zero(t, w.store.round.LowWater)
			require.EqualValues(t, 2, w.store.round.Number)
		})
	}
}

func failAt(at message.UserID, err error) func(message.UserID) error {
	return func(user message.UserID) error {
		if user == at {
			return err
		}
		return nil
	}
}

func panicAt(at, user message.UserID) error {
	if user == at {
		panic("a bug")
	}
	return nil
}

// Where messages expire by number alone, no mark says that a message is gone for all: users who come find it, and it stays.
func TestNoLowWaterByNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.retention.Newest = 10
	walker := w.walker("first")
	for range 3 {
		require.NoError(t, w.walk(t, walker))
		require.Zero(t, w.store.round.Target)
		require.Zero(t, w.store.round.LowWater)
		w.clock = w.clock.Add(every)
	}
	expired, err := retention.Expired(w.store, rig.Rules)(t.Context(), w.retention, true)
	require.NoError(t, err)
	require.Zero(t, expired, "where a first look begins")
}

// A user who was missed is not forgotten if another process continues the round.
func TestMissedTargetSurvivesATakeover(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.retention.MaxAge = day
	intake, stop := context.WithCancel(t.Context())
	w.clear = func(_ message.UserID, target message.ID) retention.Kept {
		if len(w.kept) == walkers/2 {
			stop()
		}
		if len(w.kept) == 1 {
			return retention.Kept{Clear: lastOf(target.Time())}
		}
		return retention.Kept{Clear: target}
	}
	require.NoError(t, w.walker("first").Walk(intake, t.Context()))
	require.False(t, w.store.round.Ended)
	require.NoError(t, w.walk(t, w.walker("second")))
	w.requireKept(t, 1)
	require.True(t, w.store.round.Ended)
	require.Zero(t, w.store.round.LowWater)
}

// Several users are kept at a time. The round continues with the first one that failed.
func TestUsersAreKeptTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	broken := true
	opts := w.options("first")
	opts.Workers = 8
	var together sync.WaitGroup // the first users wait for each other
	together.Add(opts.Workers)
	calls := 0
	walker := w.walkerWith(opts)
	walker.SetKeep(func(_ context.Context, s userstate.State, _ retention.Round) (retention.Kept, error) {
		mu.Lock()
		if calls++; calls <= opts.Workers {
			mu.Unlock()
			together.Done()
			together.Wait()
			mu.Lock()
		}
		defer mu.Unlock()
		if broken && s.User == "user-300" {
			return retention.Kept{}, errors.New("broken")
		}
		w.kept[s.User]++
		return retention.Kept{Clear: message.MaxID}, nil
	})
	require.ErrorContains(t, w.walk(t, walker), "broken")
	require.NotContains(t, w.kept, message.UserID("user-300"))
	broken = false
	require.NoError(t, w.walk(t, walker))
	require.Len(t, w.kept, walkers)
	require.True(t, w.store.round.Ended)
}
