package storetest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// full returns a state with everything in it that Step compares, which differs with n.
func fullState(user message.UserID, n int) userstate.State {
	return userstate.State{
		User: user, LastViewed: later(n), Horizon: later(n + 500),
		Mark:  &userstate.Mark{From: later(n - 100), Bounded: n%2 == 1},
		Sweep: &userstate.Sweep{From: later(n - 50)},
		Lease: userstate.Lease{Token: fmt.Sprintf("token-%d", n), Until: later(n + 60), Since: later(n - 10)},
		Gaps: []userstate.Gap{
			{After: later(n - 1000), Before: later(n - 900), Messages: int64(n) + 7},
			{After: later(n - 800), Before: later(n - 700), Messages: 1},
		},
		Recovered: int64(n) + 3, Flagged: n%2 == 1, Seen: int64(n) + 4, Marks: int64(n) + 5, GapsMade: int64(n) + 6,
		ReadMark: bucket.ReadMark{UpTo: id(n + 100), Sequence: 1, Slots: 60, Gaps: n % 2, Read: 55, InGap: int64(n)},
		Purged:   id(n + 10), Oldest: uint32(n), //nolint:gosec // a test counts from 0
		Keep: userstate.Retention{MaxAge: time.Duration(n+1) * time.Hour, Newest: int64(n) + 5},
	}
}

// change changes the state of a user. It compares and swaps, starting with a state that may be outdated, until the swap succeeds.
func change(ctx context.Context, store userstate.Store, st userstate.State, to func(*userstate.State)) error {
	for {
		next := st
		to(&next)
		stepped, err := store.Step(ctx, []userstate.Step{{From: st, To: next}})
		if err != nil || stepped[0].Applied {
			return err
		}
		if st.Same(stepped[0].State) {
			return fmt.Errorf("a step of %s was refused by the very state that it began with", st.User)
		}
		st = stepped[0].State
	}
}

// step replaces the state of a user unconditionally, and returns the new state.
func (h userStore) step(t *testing.T, user message.UserID, to userstate.State) userstate.State {
	t.Helper()
	stepped := h.steps(t, userstate.Step{From: h.lookup(t, user), To: to})
	require.True(t, stepped[0].Applied)
	return stepped[0].State
}

func (h userStore) steps(t *testing.T, steps ...userstate.Step) []userstate.Stepped {
	t.Helper()
	stepped, err := h.Store.Step(t.Context(), steps)
	require.NoError(t, err)
	require.Len(t, stepped, len(steps))
	return stepped
}

func (s userSuite) stepApplies(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	at := userstate.State{User: "ann"}
	for n := range 4 {
		to := fullState("ann", n)
		require.Equal(t, []userstate.Stepped{{State: to, Applied: true}}, h.steps(t, userstate.Step{From: at, To: to}))
		require.Equal(t, to, h.lookup(t, "ann"))
		at = to
	}
	bare := seenAt("ann", later(5))
	require.Equal(t, []userstate.Stepped{{State: bare, Applied: true}}, h.steps(t, userstate.Step{From: at, To: bare}))
	require.Equal(t, bare, h.lookup(t, "ann"), "nothing is left of what was there")
	require.Equal(t, []userstate.Stepped{{State: bare, Applied: true}}, h.steps(t, userstate.Step{From: bare, To: bare}))
	h = h.Reopen(t)
	require.Equal(t, bare, h.lookup(t, "ann"))
}

func (s userSuite) stepLazily(t *testing.T) {
	t.Parallel()
	for range 20 { // a crash loses a random part of the unsynced writes
		h := s.open(t)
		before := h.step(t, "ann", fullState("ann", 0))
		after := h.steps(t, userstate.Step{From: before, To: fullState("ann", 1), Lazy: true})[0]
		require.True(t, after.Applied)
		require.Equal(t, after.State, h.lookup(t, "ann"))
		h = h.Reopen(t)
		require.Contains(t, []userstate.State{before, after.State}, h.lookup(t, "ann"))

		at := h.lookup(t, "ann")
		h.steps(t, userstate.Step{From: at, To: fullState("ann", 2), Lazy: true})
		h.step(t, "bob", fullState("bob", 0))
		h = h.Reopen(t)
		require.Equal(t, fullState("ann", 2), h.lookup(t, "ann"), "what followed it survived")
	}
}

// A later caller relies on a lazy change that it finds. The store promised that caller that the change survives.
func (s userSuite) foundDurably(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	for n, find := range []func(was, is userstate.State){
		func(_, is userstate.State) {
			seen := h.view(t, userstate.View{User: "ann", At: is.LastViewed.Add(-time.Millisecond)})
			require.Equal(t, []userstate.Viewed{{Previous: is, Applied: true}}, seen)
		},
		func(was, is userstate.State) {
			require.Equal(t, []userstate.Stepped{{State: is}}, h.steps(t, userstate.Step{From: was, To: fullState("ann", 9)}))
		},
		func(_, is userstate.State) {
			require.Equal(t, []userstate.Stepped{{State: is, Applied: true}}, h.steps(t, userstate.Step{From: is, To: is}))
		},
	} {
		was := h.lookup(t, "ann")
		is := h.steps(t, userstate.Step{From: was, To: fullState("ann", n), Lazy: true})[0].State
		find(was, is)
		h = h.Reopen(t)
		require.Equal(t, is, h.lookup(t, "ann"), "found in way %d", n)
	}
}

func (s userSuite) stepRefused(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	there := h.step(t, "ann", fullState("ann", 1))
	for name, change := range map[string]func(*userstate.State){
		"last viewed":        func(st *userstate.State) { st.LastViewed = st.LastViewed.Add(time.Millisecond) },
		"horizon":            func(st *userstate.State) { st.Horizon = st.Horizon.Add(time.Millisecond) },
		"no horizon":         func(st *userstate.State) { st.Horizon = time.Time{} },
		"no record":          func(st *userstate.State) { *st = userstate.State{User: "ann"} },
		"no mark":            func(st *userstate.State) { st.Mark = nil },
		"where the mark is":  func(st *userstate.State) { st.Mark = &userstate.Mark{From: later(0), Bounded: true} },
		"bounded":            func(st *userstate.State) { st.Mark = &userstate.Mark{From: st.Mark.From} },
		"no sweep":           func(st *userstate.State) { st.Sweep = nil },
		"where the sweep is": func(st *userstate.State) { st.Sweep = &userstate.Sweep{From: later(0)} },
		"token":              func(st *userstate.State) { st.Lease.Token = "token-2" },
		"until":              func(st *userstate.State) { st.Lease.Until = later(0) },
		"since":              func(st *userstate.State) { st.Lease.Since = later(0) },
		"no gaps":            func(st *userstate.State) { st.Gaps = nil },
		"one gap less":       func(st *userstate.State) { st.Gaps = st.Gaps[:1] },
		"messages of a gap": func(st *userstate.State) {
			st.Gaps = []userstate.Gap{st.Gaps[0], {After: st.Gaps[1].After, Before: st.Gaps[1].Before}}
		},
		"the gaps' order":     func(st *userstate.State) { st.Gaps = []userstate.Gap{st.Gaps[1], st.Gaps[0]} },
		"how many were found": func(st *userstate.State) { st.Recovered++ },
		"no read mark":        func(st *userstate.State) { st.ReadMark = bucket.ReadMark{} },
		"up to":               func(st *userstate.State) { st.ReadMark.UpTo = id(102) },
		"sequence":            func(st *userstate.State) { st.ReadMark.Sequence++ },
		"slots":               func(st *userstate.State) { st.ReadMark.Slots++ },
		"gaps at the mark":    func(st *userstate.State) { st.ReadMark.Gaps++ },
		"read":                func(st *userstate.State) { st.ReadMark.Read++ },
		"read in the gap":     func(st *userstate.State) { st.ReadMark.InGap++ },
		"flagged":             func(st *userstate.State) { st.Flagged = false },
		"what is seen":        func(st *userstate.State) { st.Seen++ },
		"nothing is seen":     func(st *userstate.State) { st.Seen = 0 },
		"marks":               func(st *userstate.State) { st.Marks++ },
		"no marks":            func(st *userstate.State) { st.Marks = 0 },
		"gaps made":           func(st *userstate.State) { st.GapsMade++ },
		"the purge point":     func(st *userstate.State) { st.Purged = id(12) },
		"no purge point":      func(st *userstate.State) { st.Purged, st.Oldest = message.ID{}, 0 },
		"the greatest age":    func(st *userstate.State) { st.Keep.MaxAge += time.Millisecond },
		"no greatest age":     func(st *userstate.State) { st.Keep.MaxAge = 0 },
		"how many are kept":   func(st *userstate.State) { st.Keep.Newest++ },
		"no retention":        func(st *userstate.State) { st.Keep = userstate.Retention{} },
		"what is oldest":      func(st *userstate.State) { st.Oldest++ },
	} {
		from := fullState("ann", 1)
		change(&from)
		refused := h.steps(t, userstate.Step{From: from, To: fullState("ann", 2)})
		require.Equal(t, []userstate.Stepped{{State: there}}, refused, name)
		require.Equal(t, there, h.lookup(t, "ann"), name)
	}
}

func (s userSuite) stepCreates(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	unknown := userstate.State{User: "bob"}
	known := seenAt("bob", epoch)
	require.Equal(t, []userstate.Stepped{{State: unknown}}, h.steps(t, userstate.Step{From: known, To: fullState("bob", 1)}))
	require.Equal(t, unknown, h.lookup(t, "bob"), "a step that is refused creates nothing")
	require.Equal(t, []userstate.Stepped{{State: known, Applied: true}}, h.steps(t, userstate.Step{From: unknown, To: known}))
	require.Equal(t, []userstate.Stepped{{State: known}}, h.steps(t, userstate.Step{From: unknown, To: fullState("bob", 1)}))
	require.Equal(t, known, h.lookup(t, "bob"))
}

func (s userSuite) stepLeavesTheHead(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	was := h.step(t, "ann", fullState("ann", 1))
	hint := bucket.Hint{Sequence: 3, Floor: id(150)}
	require.NoError(t, h.Store.RaiseHeads(t.Context(), []bucket.Head{{Owner: "ann", Hint: hint}}))
	to, want := fullState("ann", 2), fullState("ann", 2)
	to.Head, want.Head = bucket.Hint{Sequence: 1, Floor: id(50)}, hint
	require.Equal(t, []userstate.Stepped{{State: want, Applied: true}}, h.steps(t, userstate.Step{From: was, To: to}),
		"neither does what From says of it count, nor what To says")
	require.Equal(t, want, h.lookup(t, "ann"))
	require.Equal(t, []userstate.Stepped{{State: want}}, h.steps(t, userstate.Step{From: was, To: to}))
}

// stepMovesReadMark steps between read marks, also back.
func (s userSuite) stepMovesReadMark(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	at := h.step(t, "ann", fullState("ann", 1))
	mark := func(upTo, slots int) bucket.ReadMark {
		return bucket.ReadMark{UpTo: id(upTo), Sequence: uint32(slots / bucket.Capacity), Slots: int64(slots), Gaps: upTo, Read: int64(slots - 1)} //nolint:gosec // a test counts from 0
	}
	for _, to := range []bucket.ReadMark{mark(50, 60), mark(30, 40), {}, mark(30, 40), mark(50, 60)} {
		next := at
		next.ReadMark = to
		require.Equal(t, []userstate.Stepped{{State: next, Applied: true}}, h.steps(t, userstate.Step{From: at, To: next}))
		at = h.lookup(t, "ann")
		require.Equal(t, next, at)
	}
	h = h.Reopen(t)
	require.Equal(t, at, h.lookup(t, "ann"))
}

// stepKeepsStates stores states with each part alone, and values at the edges.
func (s userSuite) stepKeepsStates(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	seen := func(n int) userstate.State {
		return seenAt(message.UserID(fmt.Sprintf("user-%d", n)), later(n))
	}
	states := make([]userstate.State, 21)
	for n := range states {
		states[n] = seen(n)
	}
	states[1].Recovered = math.MaxInt64
	states[2].Mark, states[2].Lease = &userstate.Mark{}, userstate.Lease{Token: "t"} // of a user never seen before
	states[3].Mark, states[3].Lease = &userstate.Mark{From: time.UnixMilli(1).UTC(), Bounded: true}, userstate.Lease{Until: later(1)}
	states[4].Sweep, states[4].Lease = &userstate.Sweep{From: epoch}, userstate.Lease{Since: later(1)}
	states[5].Gaps = []userstate.Gap{{Before: epoch, Messages: 1}} // from the beginning of time
	states[6].Lease.Token = strings.Repeat("ü", 500)
	for n := range 300 {
		states[7].Gaps = append(states[7].Gaps, userstate.Gap{After: later(2 * n), Before: later(2*n + 1), Messages: int64(n)})
	}
	states[8].LastViewed = time.Date(2200, 1, 1, 0, 0, 0, int(999*time.Millisecond), time.UTC)
	states[9].ReadMark = bucket.ReadMark{Gaps: 1}
	states[10].ReadMark = bucket.ReadMark{UpTo: id(1), Sequence: math.MaxUint32, Slots: math.MaxInt64, Gaps: math.MaxInt32, Read: math.MaxInt64, InGap: math.MaxInt64}
	states[11].ReadMark = bucket.ReadMark{UpTo: id(1), Slots: 1, Gaps: math.MaxInt32}
	states[12].Purged = id(1)
	states[13].Purged, states[13].Oldest = message.MaxID, math.MaxUint32
	states[14].Keep.MaxAge = time.Millisecond
	states[15].Keep.Newest = math.MaxInt64
	states[16].Purged, states[16].Keep = id(1), userstate.Retention{MaxAge: time.Hour, Newest: 1}
	states[17].LastViewed, states[17].Horizon, states[17].Purged = time.Time{}, time.Time{}, id(1)
	states[18].Flagged = true
	states[19].Seen = math.MaxInt64
	states[20].Marks, states[20].GapsMade = math.MaxInt64, math.MaxInt64
	for _, want := range states {
		require.Equal(t, want, h.step(t, want.User, want))
	}
	for range 2 {
		for _, want := range states {
			require.Equal(t, want, h.lookup(t, want.User))
		}
		h = h.Reopen(t)
	}
}

func (s userSuite) stepKeepsNoReference(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	to := fullState("ann", 1)
	got := h.step(t, "ann", to)
	to.Gaps[0], to.Mark.From, to.Sweep.From = userstate.Gap{}, later(0), later(0)
	require.Equal(t, fullState("ann", 1), got)
	got.Gaps[0], got.Mark.From, got.Sweep.From = userstate.Gap{}, later(0), later(0)
	require.Equal(t, fullState("ann", 1), h.lookup(t, "ann"))
}

func (s userSuite) stepsAreIndependent(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.create(t, "zoe", later(1))
	h.create(t, "mia", later(2))
	zoe, mia := h.lookup(t, "zoe"), h.lookup(t, "mia")
	stale := mia
	stale.LastViewed = later(1)
	got := h.steps(t,
		userstate.Step{From: zoe, To: fullState("zoe", 3)},
		userstate.Step{From: stale, To: fullState("mia", 4)},
		userstate.Step{From: userstate.State{User: "ann"}, To: fullState("ann", 5)},
		userstate.Step{From: seenAt("bob", epoch), To: fullState("bob", 6)},
	)
	require.Equal(t, []userstate.Stepped{
		{State: fullState("zoe", 3), Applied: true},
		{State: mia},
		{State: fullState("ann", 5), Applied: true},
		{State: userstate.State{User: "bob"}},
	}, got)
	for _, one := range got {
		require.Equal(t, one.State, h.lookup(t, one.State.User))
	}
	require.Empty(t, h.steps(t))
}

// stepConcurrently makes concurrent callers step from the same state, in several rounds.
func (s userSuite) stepConcurrently(t *testing.T) {
	t.Parallel()
	const callers, rounds = 8, 10
	h := s.open(t)
	at := userstate.State{User: "ann"}
	for round := range rounds {
		stepped := make([][]userstate.Stepped, callers)
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				step := userstate.Step{From: at, To: fullState("ann", round*callers+i)}
				stepped[i], errs[i] = h.Store.Step(t.Context(), []userstate.Step{step})
			})
		}
		wg.Wait()
		winners := 0
		now := h.lookup(t, "ann")
		for i := range callers {
			require.NoError(t, errs[i])
			require.Equal(t, now, stepped[i][0].State, "whoever is refused is told of the winner's")
			if stepped[i][0].Applied {
				winners++
				require.Equal(t, fullState("ann", round*callers+i), now)
			}
		}
		require.Equal(t, 1, winners)
		at = now
	}
}
