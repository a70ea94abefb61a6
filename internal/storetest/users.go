package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// userStore is the userstate.Store of an opened database.
type userStore struct {
	Store      userstate.Store
	Partitions int
	Reopen     func(t *testing.T) userStore
}

type userSuite struct{ backend Backend }

// open returns the store of a new, empty database.
func (s userSuite) open(t *testing.T) userStore {
	t.Helper()
	return s.of(s.backend.New(t))
}

func (s userSuite) of(db Database) userStore {
	return userStore{
		Store: db.Users, Partitions: s.backend.Partitions,
		Reopen: func(t *testing.T) userStore { t.Helper(); return s.of(db.Reopen(t)) },
	}
}

// run tests a backend's userstate.Store.
func (s userSuite) run(t *testing.T) {
	t.Helper()
	t.Run("Lookup/of users never seen", s.lookupUnknown)
	t.Run("Lookup/in the order of users", s.lookupInOrder)
	t.Run("View/creates no user", s.viewCreatesNothing)
	t.Run("View/applies only if the horizon is after the condition", s.viewBeyond)
	t.Run("View/never goes backwards", s.viewNeverBackwards)
	t.Run("View/cuts times to milliseconds in UTC", s.viewCutsTimes)
	t.Run("View/carries out each view on its own", s.viewsAreIndependent)
	t.Run("View/leaves the rest", s.viewLeavesTheRest)
	t.Run("View/by many keeps the latest", s.viewConcurrently)
	t.Run("Step/puts a state in place of another", s.stepApplies)
	t.Run("Step/is refused unless the state is the same", s.stepRefused)
	t.Run("Step/creates a user", s.stepCreates)
	t.Run("Step/leaves the head", s.stepLeavesTheHead)
	t.Run("Step/moves a read mark either way", s.stepMovesReadMark)
	t.Run("Step/keeps every state", s.stepKeepsStates)
	t.Run("Step/keeps no reference", s.stepKeepsNoReference)
	t.Run("Step/carries out each step on its own", s.stepsAreIndependent)
	t.Run("Step/that is lazy is lost only with what follows", s.stepLazily)
	t.Run("Step/that is not lazy leaves nothing behind that may be lost", s.foundDurably)
	t.Run("Step/by many has one winner a round", s.stepConcurrently)
	t.Run("Step/removes a record", s.stepRemoves)
	t.Run("Step/removes a record for one of many", s.removeConcurrently)
	t.Run("Keep/of a user never seen", s.keepOfUnseen)
	t.Run("Keep/outlives the first look", s.keepOutlivesTheFirstLook)
	t.Run("Due/those that died first first", s.dueInOrder)
	t.Run("Due/only marks and sweeps", s.dueOnlyRehydrations)
	t.Run("Due/follows what becomes of a state", s.dueFollows)
	t.Run("Due/at random", s.dueAtRandom)
	t.Run("List/in the order of users up to limit", s.list)
	t.Run("RaiseHeads/raises and never lowers", s.raiseHeads)
	t.Run("RaiseHeads/with a decl", s.raiseHeadsDeclared)
	t.Run("RaiseHeads/passes over unknown users", s.raiseHeadsUnknown)
	t.Run("RaiseHeads/by many keeps the highest", s.raiseHeadsConcurrently)
	t.Run("Writes/of one user by many lose nothing", s.mixedConcurrently)
	t.Run("Users/a damaged record fails only its own results", s.damaged)
	t.Run("Users/with similar ids are kept apart", s.similarIDs)
	t.Run("Reopen/keeps views", s.reopen)
}

func (h userStore) lookup(t *testing.T, user message.UserID) userstate.State {
	t.Helper()
	states, err := userstate.States(h.Store.Lookup(t.Context(), []message.UserID{user}))
	require.NoError(t, err)
	require.Len(t, states, 1)
	return states[0]
}

func (h userStore) view(t *testing.T, views ...userstate.View) []userstate.Viewed {
	t.Helper()
	viewed, err := h.Store.View(t.Context(), views)
	require.NoError(t, err)
	require.Len(t, viewed, len(views))
	return viewed
}

// active is for how long users of the suite stay active.
const active = 30 * 24 * time.Hour

func seenAt(user message.UserID, at time.Time) userstate.State { return Seen(user, at, active) }

func (h userStore) create(t *testing.T, user message.UserID, at time.Time) {
	t.Helper()
	require.NoError(t, See(t.Context(), h.Store, at, active, user))
}

func (s userSuite) lookupUnknown(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.create(t, "ann", epoch)
	require.Equal(t, userstate.State{User: "bob"}, h.lookup(t, "bob"))
	require.False(t, h.lookup(t, "an").Known())
	require.False(t, h.lookup(t, "anna").Known())
	states, err := userstate.States(h.Store.Lookup(t.Context(), nil))
	require.NoError(t, err)
	require.Empty(t, states)
}

func (s userSuite) lookupInOrder(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	everyone := h.Partitions // the group of all users, after one group for each partition
	groups := make([][]message.UserID, h.Partitions+1)
	for i := range 200 {
		user := message.UserID(fmt.Sprintf("user-%03d", i))
		part := partition.Of(user, h.Partitions)
		groups[part] = append(groups[part], user)
		groups[everyone] = append(groups[everyone], user)
		if i%3 > 0 {
			h.create(t, user, later(i))
		}
	}
	for _, users := range groups {
		states, err := userstate.States(h.Store.Lookup(t.Context(), users))
		require.NoError(t, err)
		require.Len(t, states, len(users))
		for n, user := range users {
			var i int
			_, err := fmt.Sscanf(string(user), "user-%d", &i)
			require.NoError(t, err)
			want := userstate.State{User: user}
			if i%3 > 0 {
				want = seenAt(user, later(i))
			}
			require.Equal(t, want, states[n])
		}
	}
}

func (s userSuite) viewCreatesNothing(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	require.Equal(t, userstate.Viewed{Previous: userstate.State{User: "ann"}}, h.view(t, userstate.View{User: "ann", At: epoch})[0])
	require.False(t, h.lookup(t, "ann").Known())
}

func (s userSuite) viewBeyond(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	with := func(user message.UserID, horizon time.Time) userstate.State {
		return h.step(t, user, userstate.State{User: user, LastViewed: later(10), Horizon: horizon})
	}
	same, after, none := with("same", later(30)), with("after", later(30).Add(time.Millisecond)), with("none", time.Time{})
	beyond := func(user message.UserID) userstate.View {
		return userstate.View{User: user, At: later(20), Beyond: later(30)}
	}
	require.Equal(t, []userstate.Viewed{
		{Previous: same}, {Previous: after, Applied: true}, {Previous: none}, {Previous: userstate.State{User: "unknown"}},
	}, h.view(t, beyond("same"), beyond("after"), beyond("none"), beyond("unknown")))
	after.LastViewed = later(20)
	require.Equal(t, []userstate.State{same, after, none}, []userstate.State{h.lookup(t, "same"), h.lookup(t, "after"), h.lookup(t, "none")})
}

func (s userSuite) viewNeverBackwards(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.create(t, "ann", later(10))
	state := seenAt("ann", later(10))
	require.Equal(t, userstate.Viewed{Previous: state, Applied: true}, h.view(t, userstate.View{User: "ann", At: later(5)})[0])
	require.Equal(t, state, h.lookup(t, "ann"))
}

func (s userSuite) viewCutsTimes(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.create(t, "ann", epoch)
	h.view(t, userstate.View{User: "ann", At: epoch.Add(1999 * time.Microsecond).In(time.FixedZone("east", 3600))})
	require.Equal(t, epoch.Add(time.Millisecond), h.lookup(t, "ann").LastViewed)
}

func (s userSuite) viewsAreIndependent(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.create(t, "zoe", later(1))
	h.create(t, "mia", later(2))
	h.create(t, "ann", later(3))
	got := h.view(t,
		userstate.View{User: "zoe", At: later(10)},
		userstate.View{User: "new", At: later(11)},
		userstate.View{User: "mia", At: later(12), Beyond: later(2).Add(active)},
		userstate.View{User: "ann", At: later(13), Beyond: later(2).Add(active)},
	)
	require.Equal(t, []userstate.Viewed{
		{Previous: seenAt("zoe", later(1)), Applied: true},
		{Previous: userstate.State{User: "new"}},
		{Previous: seenAt("mia", later(2))},
		{Previous: seenAt("ann", later(3)), Applied: true},
	}, got)
	for user, want := range map[message.UserID]time.Time{"zoe": later(10), "new": {}, "mia": later(2), "ann": later(13)} {
		require.Equal(t, want, h.lookup(t, user).LastViewed, user)
	}
	require.Empty(t, h.view(t))
}

func (s userSuite) viewLeavesTheRest(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.create(t, "ann", later(1))
	want := h.step(t, "ann", fullState("ann", 1))
	want.Head = bucket.Hint{Sequence: 3, Floor: id(150)}
	require.NoError(t, h.Store.RaiseHeads(t.Context(), []bucket.Head{{Owner: "ann", Hint: want.Head}}))
	require.Equal(t, want, h.lookup(t, "ann"))
	require.Equal(t, want, h.view(t, userstate.View{User: "ann", At: later(2)})[0].Previous)
	want.LastViewed = later(2)
	require.Equal(t, want, h.lookup(t, "ann"))
}

func (s userSuite) viewConcurrently(t *testing.T) {
	t.Parallel()
	const callers = 16
	h := s.open(t)
	h.create(t, "ann", epoch.Add(-time.Second))
	viewed := make([][]userstate.Viewed, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			view := userstate.View{User: "ann", At: later((i * 7) % callers)}
			viewed[i], errs[i] = h.Store.View(t.Context(), []userstate.View{view})
		})
	}
	wg.Wait()
	first := 0
	for i := range callers {
		require.NoError(t, errs[i])
		require.True(t, viewed[i][0].Applied)
		if viewed[i][0].Previous.LastViewed.Before(epoch) {
			first++
		}
	}
	require.Equal(t, 1, first, "one view finds what was there before, all others what another has left")
	require.Equal(t, later(callers-1), h.lookup(t, "ann").LastViewed)
}

func (s userSuite) raiseHeads(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	for _, user := range []message.UserID{"ann", "bob"} {
		h.create(t, user, epoch)
	}
	raise := func(ann, bob uint32) {
		require.NoError(t, h.Store.RaiseHeads(t.Context(), []bucket.Head{
			{Owner: "bob", Hint: bucket.Hint{Sequence: bob, Floor: id(int(bob) * 50)}},
			{Owner: "ann", Hint: bucket.Hint{Sequence: ann, Floor: id(int(ann) * 50)}},
		}))
	}
	raise(4, 1)
	raise(2, 7)
	raise(3, 7)
	require.Equal(t, bucket.Hint{Sequence: 4, Floor: id(200)}, h.lookup(t, "ann").Head)
	require.Equal(t, bucket.Hint{Sequence: 7, Floor: id(350)}, h.lookup(t, "bob").Head)
	require.NoError(t, h.Store.RaiseHeads(t.Context(), nil))
}

// raiseHeadsDeclared raises hints that know a decl. A store without an index may forget the decl, and a hint to a bucket behind changes nothing.
func (s userSuite) raiseHeadsDeclared(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.create(t, "ann", epoch)
	for _, hint := range []bucket.Hint{{Decl: 7}, {Sequence: 3, Floor: id(150)}, {Sequence: 3, Decl: 20, Floor: id(150)}, {Sequence: 4, Decl: 9, Floor: id(170)}} {
		for _, raised := range []bucket.Hint{hint, {Sequence: hint.Sequence, Floor: hint.Floor}} {
			require.NoError(t, h.Store.RaiseHeads(t.Context(), []bucket.Head{{Owner: "ann", Hint: raised}}))
		}
		got := h.lookup(t, "ann").Head
		if got.Decl == 0 {
			hint.Decl = 0
		}
		require.Equal(t, hint, got)
	}
}

func (s userSuite) raiseHeadsUnknown(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.create(t, "ann", epoch)
	hint := bucket.Hint{Sequence: 1, Floor: id(50)}
	require.NoError(t, h.Store.RaiseHeads(t.Context(), []bucket.Head{{Owner: "bob", Hint: hint}, {Owner: "ann", Hint: hint}}))
	require.Equal(t, userstate.State{User: "bob"}, h.lookup(t, "bob"))
	require.Equal(t, hint, h.lookup(t, "ann").Head)
	require.False(t, h.view(t, userstate.View{User: "bob", At: epoch})[0].Applied, "there is no record of an unknown user")
}

func (s userSuite) raiseHeadsConcurrently(t *testing.T) {
	t.Parallel()
	const callers = 16
	h := s.open(t)
	h.create(t, "ann", epoch)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			sequence := (i * 7) % callers
			hint := bucket.Hint{Sequence: uint32(sequence), Floor: id(sequence * 50)} //nolint:gosec // less than callers
			errs[i] = h.Store.RaiseHeads(t.Context(), []bucket.Head{{Owner: "ann", Hint: hint}})
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, bucket.Hint{Sequence: callers - 1, Floor: id((callers - 1) * 50)}, h.lookup(t, "ann").Head)
}

func (s userSuite) mixedConcurrently(t *testing.T) {
	t.Parallel()
	const rounds = 20
	h := s.open(t)
	h.create(t, "ann", epoch)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	run := func(i int, write func(n int) error) {
		wg.Go(func() {
			for n := 1; n <= rounds && errs[i] == nil; n++ {
				errs[i] = write(n)
			}
		})
	}
	ctx := t.Context()
	run(0, func(n int) error {
		_, err := h.Store.View(ctx, []userstate.View{{User: "ann", At: later(n)}})
		return err
	})
	run(1, func(n int) error {
		hint := bucket.Hint{Sequence: uint32(n), Floor: id(n)} //nolint:gosec // at most rounds
		return h.Store.RaiseHeads(ctx, []bucket.Head{{Owner: "ann", Hint: hint}})
	})
	for stepper := 2; stepper < len(errs); stepper++ {
		run(stepper, func(int) error {
			return change(ctx, h.Store, userstate.State{User: "ann"}, func(st *userstate.State) { st.Recovered++ })
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	want := seenAt("ann", epoch)
	want.LastViewed, want.Recovered, want.Head = later(rounds), 2*rounds, bucket.Hint{Sequence: rounds, Floor: id(rounds)}
	require.Equal(t, want, h.lookup(t, "ann"))
}

func (s userSuite) similarIDs(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	users := []message.UserID{"a", "aa", "a~", "a\u00ff", "A", message.UserID(fmt.Sprintf("%0128d", 0)), message.UserID(fmt.Sprintf("%0127d", 0))}
	for i, user := range users {
		h.create(t, user, later(i))
	}
	for i, user := range users {
		require.Equal(t, seenAt(user, later(i)), h.lookup(t, user))
	}
	slices.Sort(users)
	states, err := userstate.States(h.Store.Lookup(t.Context(), users))
	require.NoError(t, err)
	require.Len(t, states, len(users))
	for i, state := range states {
		require.Equal(t, users[i], state.User)
		require.True(t, state.Known())
	}
}

func (s userSuite) reopen(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	want := h.step(t, "ann", fullState("ann", 0))
	want.LastViewed = later(9)
	h.view(t, userstate.View{User: "ann", At: later(9)})
	hint := bucket.Hint{Sequence: 2, Floor: id(100)}
	require.NoError(t, h.Store.RaiseHeads(t.Context(), []bucket.Head{{Owner: "ann", Hint: hint}}))
	h = h.Reopen(t)
	got := h.lookup(t, "ann")
	require.Contains(t, []bucket.Hint{{}, hint}, got.Head, "a hint need not survive, and never changes into another")
	got.Head = bucket.Hint{}
	require.Equal(t, want, got)
}
