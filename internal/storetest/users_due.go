package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

func (h userStore) due(t *testing.T, before time.Time, limit int) []userstate.State {
	t.Helper()
	states, err := userstate.States(h.Store.Due(t.Context(), endedBefore(before), limit))
	require.NoError(t, err)
	return states
}

// endedBefore selects the leases that ended before a time. No lease counts as too long.
func endedBefore(before time.Time) userstate.Dead {
	return userstate.Dead{Before: before, After: later(100_000)}
}

func usersOf(states []userstate.State) []message.UserID {
	users := make([]message.UserID, len(states))
	for i, st := range states {
		users[i] = st.User
	}
	return users
}

// leased returns a state with a mark and a lease that ends at until.
func leased(user message.UserID, until time.Time) userstate.State {
	return userstate.State{
		User: user, LastViewed: epoch, Horizon: later(500), Mark: &userstate.Mark{From: later(-9)},
		Lease: userstate.Lease{Token: "token", Until: until, Since: epoch},
	}
}

func (s userSuite) dueInOrder(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	require.Empty(t, h.due(t, later(1000), 100))
	for n, user := range []message.UserID{"eve", "bob", "dan", "ann", "cid"} {
		h.step(t, user, leased(user, epoch.Add(time.Duration(n)*time.Millisecond)))
	}
	old := h.step(t, "zed", leased("zed", time.UnixMilli(-5).UTC()))
	all := []message.UserID{"zed", "eve", "bob", "dan", "ann", "cid"}
	for limit := range len(all) + 2 {
		require.Equal(t, all[:min(limit, len(all))], usersOf(h.due(t, later(1000), limit)))
	}
	require.Equal(t, []userstate.State{old}, h.due(t, epoch, 100), "what dies at that very time is not dead before it")
	for n := range len(all) - 1 {
		before := epoch.Add(time.Duration(n)*time.Millisecond + 1)
		require.Equal(t, all[:n+2], usersOf(h.due(t, before, 100)), "dead before %v", before)
	}
	h = h.Reopen(t)
	require.Equal(t, all, usersOf(h.due(t, later(1000), 100)))
}

func (s userSuite) dueOnlyRehydrations(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	both := h.step(t, "ann", fullState("ann", 1))
	marked, swept, neither := fullState("bob", 2), fullState("cid", 3), fullState("dan", 4)
	marked.Sweep, swept.Mark, neither.Mark, neither.Sweep = nil, nil, nil, nil
	for _, st := range []userstate.State{marked, swept, neither} {
		h.step(t, st.User, st)
	}
	h.create(t, "eve", epoch)
	require.Equal(t, []userstate.State{both, marked, swept}, h.due(t, later(1000), 100), "as they are, and each once")
}

func (s userSuite) dueFollows(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.step(t, "bob", leased("bob", later(50)))
	st := h.step(t, "ann", leased("ann", later(10)))
	expect := func(before int, want ...message.UserID) {
		t.Helper()
		require.Equal(t, append([]message.UserID{}, want...), usersOf(h.due(t, later(before), 100)))
	}
	expect(20, "ann")
	refused := st
	refused.Recovered++
	require.False(t, h.steps(t, userstate.Step{From: refused, To: leased("ann", later(90))})[0].Applied)
	expect(20, "ann")

	st.Lease.Until = later(60)
	h.step(t, "ann", st)
	expect(20)
	expect(100, "bob", "ann")
	h.view(t, userstate.View{User: "ann", At: later(1)})
	require.NoError(t, h.Store.RaiseHeads(t.Context(), []bucket.Head{{Owner: "ann", Hint: bucket.Hint{Sequence: 1, Floor: id(50)}}}))
	expect(100, "bob", "ann")
	require.Equal(t, h.lookup(t, "ann"), h.due(t, later(100), 100)[1], "as it is by now")

	st = h.lookup(t, "ann")
	st.Mark, st.Sweep = nil, &userstate.Sweep{From: epoch}
	h.step(t, "ann", st)
	expect(100, "bob", "ann")
	h = h.Reopen(t)
	expect(100, "bob", "ann")
	st = h.lookup(t, "ann")
	st.Sweep, st.Lease = nil, userstate.Lease{}
	h.step(t, "ann", st)
	expect(100, "bob")
	h = h.Reopen(t)
	expect(100, "bob")
}

// dueAtRandom changes random states, and compares Due with a search through all states.
func (s userSuite) dueAtRandom(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	states := map[message.UserID]userstate.State{}
	rapid.Check(t, func(t *rapid.T) {
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			user := message.UserID(fmt.Sprintf("user-%d", rapid.IntRange(0, 9).Draw(t, "user")))
			was, known := states[user]
			if !known {
				was = userstate.State{User: user}
			}
			to := leased(user, epoch.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, "until"))*time.Millisecond))
			if rapid.Bool().Draw(t, "a sweep") {
				to.Sweep = &userstate.Sweep{From: epoch}
			}
			if rapid.Bool().Draw(t, "no mark") {
				to.Mark = nil
			}
			stepped, err := h.Store.Step(t.Context(), []userstate.Step{{From: was, To: to}})
			require.NoError(t, err)
			require.True(t, stepped[0].Applied)
			states[user] = stepped[0].State
		}
		before := epoch.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "before")) * time.Millisecond)
		dead := userstate.Dead{Before: before, After: epoch.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "after")) * time.Millisecond)}
		if dead.After.Before(dead.Before) {
			dead.After = dead.Before
		}
		var want []userstate.State
		for _, user := range slices.Sorted(maps.Keys(states)) {
			if st := states[user]; (st.Mark != nil || st.Sweep != nil) && dead.Holds(st.Lease) {
				want = append(want, st)
			}
		}
		got, err := userstate.States(h.Store.Due(t.Context(), dead, 100))
		require.NoError(t, err)
		require.ElementsMatch(t, want, got)
		require.True(t, slices.IsSortedFunc(got, func(x, y userstate.State) int { return x.Lease.Until.Compare(y.Lease.Until) }))
		limit := rapid.IntRange(0, 5).Draw(t, "limit")
		some, err := userstate.States(h.Store.Due(t.Context(), dead, limit))
		require.NoError(t, err)
		require.Len(t, some, min(limit, len(want)))
		for i := range some {
			require.True(t, some[i].Lease.Until.Equal(got[i].Lease.Until), "those that died first")
		}
	})
}

func (s userSuite) list(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	byPartition := make([][]userstate.State, h.Partitions)
	for i, user := range []message.UserID{"a", "aa", "a~", "A", "zoë", "ann", "bob", "cid", "dan", "eve", "ü", "user-1", "user-10", "user-2"} {
		h.create(t, user, later(i))
		if i%2 == 0 {
			h.step(t, user, fullState(user, i))
		}
		p := partition.Of(user, h.Partitions)
		byPartition[p] = append(byPartition[p], h.lookup(t, user))
	}
	for p, want := range byPartition {
		slices.SortFunc(want, func(x, y userstate.State) int { return strings.Compare(string(x.User), string(y.User)) })
		for limit := range len(want) + 2 {
			got, err := userstate.States(h.Store.List(t.Context(), p, "", limit))
			require.NoError(t, err)
			require.Equal(t, append([]userstate.State{}, want[:min(limit, len(want))]...), append([]userstate.State{}, got...))
		}
		for i, st := range want {
			got, err := userstate.States(h.Store.List(t.Context(), p, st.User, 100))
			require.NoError(t, err)
			require.Equal(t, append([]userstate.State{}, want[i+1:]...), append([]userstate.State{}, got...), "after is excluded")
			got, err = userstate.States(h.Store.List(t.Context(), p, st.User+"\x01", 100))
			require.NoError(t, err)
			require.Len(t, got, len(want)-i-1, "after need not exist")
		}
	}
}
