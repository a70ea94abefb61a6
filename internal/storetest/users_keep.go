package storetest

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// keeping returns the state of ann, who was never seen, and has a retention of their own.
func keeping(days int) userstate.State {
	return userstate.State{User: "ann", Keep: userstate.Retention{MaxAge: time.Duration(days) * 24 * time.Hour}}
}

// list returns the users whom List finds.
func (h userStore) list(t *testing.T) (users []message.UserID) {
	t.Helper()
	for p := range h.Partitions {
		found, err := userstate.States(h.Store.List(t.Context(), p, "", 100))
		require.NoError(t, err)
		for _, st := range found {
			require.Equal(t, p, partition.Of(st.User, h.Partitions))
			users = append(users, st.User)
		}
	}
	return users
}

// keepOfUnseen has a record of a user who was never seen.
func (s userSuite) keepOfUnseen(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	for _, keep := range []userstate.Retention{{MaxAge: time.Millisecond}, {Newest: math.MaxInt64}, {MaxAge: 106_751 * 24 * time.Hour, Newest: 1}} {
		there := h.step(t, "ann", userstate.State{User: "ann", Keep: keep})
		require.Equal(t, userstate.State{User: "ann", Keep: keep}, there)
		require.Equal(t, there, h.lookup(t, "ann"))
		require.False(t, there.Known())
		require.False(t, there.Empty())
		require.Equal(t, []message.UserID{"ann"}, h.list(t))

		for _, view := range []userstate.View{{At: epoch}, {At: epoch, Beyond: time.UnixMilli(1)}} {
			view.User = "ann"
			require.Equal(t, userstate.Viewed{Previous: there}, h.view(t, view)[0], "a view is not the first look")
		}
		require.NoError(t, h.Store.RaiseHeads(t.Context(), []bucket.Head{{Owner: "ann", Hint: bucket.Hint{Sequence: 1, Floor: id(50)}}}))
		due, err := h.Store.Due(t.Context(), endedBefore(later(1000)), 10)
		require.NoError(t, err)
		require.Empty(t, due)
		require.Equal(t, there, h.lookup(t, "ann"))
		h = h.Reopen(t)
		require.Equal(t, there, h.lookup(t, "ann"))
	}
}

// keepOutlivesTheFirstLook steps from the state without a record, which is not the stored one, and then from the stored one.
func (s userSuite) keepOutlivesTheFirstLook(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	kept := h.step(t, "ann", keeping(30))
	seen := fullState("ann", 1)
	require.Equal(t, []userstate.Stepped{{State: kept}}, h.steps(t, userstate.Step{From: userstate.State{User: "ann"}, To: seen}))
	require.Equal(t, kept, h.lookup(t, "ann"))
	other := keeping(31)
	require.Equal(t, []userstate.Stepped{{State: kept}}, h.steps(t, userstate.Step{From: other, To: seen}))
	seen.Keep = kept.Keep
	require.Equal(t, []userstate.Stepped{{State: seen, Applied: true}}, h.steps(t, userstate.Step{From: kept, To: seen}))
	require.Equal(t, seen, h.lookup(t, "ann"))
	viewed := h.view(t, userstate.View{User: "ann", At: seen.LastViewed.Add(time.Second)})[0]
	require.Equal(t, userstate.Viewed{Previous: seen, Applied: true}, viewed)
	seen.LastViewed = seen.LastViewed.Add(time.Second)
	require.Equal(t, seen, h.lookup(t, "ann"))
}

// stepRemoves replaces states by one that holds nothing.
func (s userSuite) stepRemoves(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.create(t, "zoe", later(1))
	none := userstate.State{User: "ann"}
	for _, there := range []userstate.State{keeping(30), fullState("ann", 1), seenAt("ann", epoch)} {
		h.step(t, "ann", there)
		hint := bucket.Hint{Sequence: 3, Floor: id(150)}
		require.NoError(t, h.Store.RaiseHeads(t.Context(), []bucket.Head{{Owner: "ann", Hint: hint}}))
		there = h.lookup(t, "ann")
		for _, other := range []userstate.State{none, keeping(29), fullState("ann", 2)} {
			require.Equal(t, []userstate.Stepped{{State: there}}, h.steps(t, userstate.Step{From: other, To: none}))
			require.Equal(t, there, h.lookup(t, "ann"))
		}
		to := none
		to.Head = hint // which does not count
		require.Equal(t, []userstate.Stepped{{State: none, Applied: true}}, h.steps(t, userstate.Step{From: there, To: to}))
		require.Equal(t, none, h.lookup(t, "ann"))
		require.Equal(t, []message.UserID{"zoe"}, h.list(t))
		due, err := h.Store.Due(t.Context(), endedBefore(later(1000)), 10)
		require.NoError(t, err)
		require.Empty(t, due)
		require.Equal(t, []userstate.Stepped{{State: none}}, h.steps(t, userstate.Step{From: there, To: fullState("ann", 3)}))
		require.Equal(t, []userstate.Stepped{{State: none, Applied: true}}, h.steps(t, userstate.Step{From: none, To: none}))
		h = h.Reopen(t)
		require.Equal(t, []message.UserID{"zoe"}, h.list(t))
	}
	got := h.steps(t,
		userstate.Step{From: h.lookup(t, "zoe"), To: userstate.State{User: "zoe"}},
		userstate.Step{From: none, To: keeping(1)},
		userstate.Step{From: userstate.State{User: "bob"}, To: userstate.State{User: "bob"}},
	)
	require.Equal(t, []userstate.Stepped{
		{State: userstate.State{User: "zoe"}, Applied: true}, {State: keeping(1), Applied: true}, {State: userstate.State{User: "bob"}, Applied: true},
	}, got)
	require.Equal(t, []message.UserID{"ann"}, h.list(t))
}

// removeConcurrently lets callers remove the same record, and create it again, in several rounds.
func (s userSuite) removeConcurrently(t *testing.T) {
	t.Parallel()
	const callers, rounds = 8, 10
	h := s.open(t)
	at, to := userstate.State{User: "ann"}, keeping(1)
	for round := range rounds {
		applied := make([]bool, callers)
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				stepped, err := h.Store.Step(t.Context(), []userstate.Step{{From: at, To: to}})
				if errs[i] = err; err == nil {
					applied[i] = stepped[0].Applied
				}
			})
		}
		wg.Wait()
		winners := 0
		for i := range callers {
			require.NoError(t, errs[i])
			if applied[i] {
				winners++
			}
		}
		require.Equal(t, 1, winners, "round %d", round)
		require.Equal(t, to, h.lookup(t, "ann"))
		at, to = to, at
	}
}
