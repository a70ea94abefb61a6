package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

type identitySuite struct{ backend Backend }

// run tests a backend's identity.Store.
func (s identitySuite) run(t *testing.T) {
	t.Helper()
	t.Run("Lookup/of many", s.lookup)
	t.Run("Insert/keeps what is there", s.insert)
	t.Run("Insert/by many has one winner", s.insertConcurrently)
	t.Run("Confirm/compares the number", s.confirm)
	t.Run("Withdraw/leaves what is in force", s.withdraw)
	t.Run("Remove/compares the number", s.remove)
	t.Run("Lists/are replaced by compare-and-swap", s.lists)
	t.Run("Lists/by many has one winner", s.listsConcurrently)
	t.Run("Damaged records fail alone", s.damaged)
	t.Run("Reopen/keeps what was answered", s.reopen)
}

func email(n int) identity.Identity {
	return identity.Identity{Kind: identity.Email, Value: fmt.Sprintf("joe+%d@example.com", n)}
}

// claim is a record to insert.
func claim(id identity.Identity, user message.UserID) identity.Record {
	return identity.Record{Identity: id, User: user, Form: 1, Since: epoch}
}

func requireSound(t *testing.T, looked []identity.Looked, err error) []identity.Record {
	t.Helper()
	require.NoError(t, err)
	records := make([]identity.Record, len(looked))
	for i, l := range looked {
		require.NoError(t, l.Err)
		records[i] = l.Record
	}
	return records
}

// inserted inserts a record, and requires that it is the one that is there.
func inserted(t *testing.T, store identity.Store, r identity.Record) identity.Record {
	t.Helper()
	looked, err := store.Insert(t.Context(), []identity.Record{r})
	there := requireSound(t, looked, err)[0]
	require.True(t, there.Exists())
	r.Number = there.Number
	require.Equal(t, r, there)
	require.Equal(t, there, found(t, store, r.Identity))
	return there
}

func found(t *testing.T, store identity.Store, id identity.Identity) identity.Record {
	t.Helper()
	looked, err := store.Lookup(t.Context(), []identity.Identity{id})
	return requireSound(t, looked, err)[0]
}

func confirmed(t *testing.T, store identity.Store, r identity.Record) identity.Record {
	t.Helper()
	looked, err := store.Confirm(t.Context(), []identity.Record{r})
	there := requireSound(t, looked, err)[0]
	require.Equal(t, there, found(t, store, r.Identity))
	return there
}

func (s identitySuite) lookup(t *testing.T) {
	t.Parallel()
	store := s.backend.New(t).Identities
	var ids []identity.Identity
	var records []identity.Record
	for n := range identity.MaxLookup {
		ids = append(ids, email(n))
		if n%2 == 0 {
			records = append(records, claim(email(n), "ben"))
		}
	}
	looked, err := store.Insert(t.Context(), records)
	records = requireSound(t, looked, err)
	looked, err = store.Lookup(t.Context(), ids)
	numbers := make(map[identity.Number]bool)
	for n, r := range requireSound(t, looked, err) {
		if n%2 == 1 {
			require.Equal(t, identity.Record{Identity: email(n)}, r)
			continue
		}
		require.Equal(t, records[n/2], r)
		numbers[r.Number] = true
	}
	require.Len(t, numbers, len(records), "each insert has a number of its own")

	alike := []identity.Identity{{Kind: "email", Value: "x"}, {Kind: "phone", Value: "x"}, {Kind: "e", Value: "mail:x"}, {Kind: "email", Value: "X"}, {Kind: "email", Value: "x\u00e9:/ %"}}
	for i, id := range alike {
		require.False(t, found(t, store, id).Exists())
		inserted(t, store, claim(id, message.UserID(fmt.Sprint("user", i))))
	}
	looked, err = store.Lookup(t.Context(), alike)
	for i, r := range requireSound(t, looked, err) {
		require.Equal(t, message.UserID(fmt.Sprint("user", i)), r.User)
	}
	looked, err = store.Lookup(t.Context(), nil)
	require.Empty(t, requireSound(t, looked, err))
}

func (s identitySuite) insert(t *testing.T) {
	t.Parallel()
	store := s.backend.New(t).Identities
	first := inserted(t, store, claim(email(1), "ben"))
	require.False(t, first.InForce)
	require.Equal(t, time.UTC, first.Since.Location())
	other := claim(email(1), "ann")
	other.InForce, other.Form = true, 7
	fresh := claim(email(2), "名前")
	looked, err := store.Insert(t.Context(), []identity.Record{other, fresh})
	there := requireSound(t, looked, err)
	require.Equal(t, first, there[0])
	require.Equal(t, message.UserID("名前"), there[1].User)
	require.NotEqual(t, first.Number, there[1].Number)
	first = confirmed(t, store, first)
	looked, err = store.Insert(t.Context(), []identity.Record{other})
	require.Equal(t, []identity.Record{first}, requireSound(t, looked, err))
}

func (s identitySuite) insertConcurrently(t *testing.T) {
	t.Parallel()
	const callers, values = 8, 5
	store := s.backend.New(t).Identities
	got := make([][]identity.Looked, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		records := make([]identity.Record, values)
		for n := range records {
			records[n] = claim(email((n+i)%values), message.UserID(fmt.Sprint("user", i)))
		}
		wg.Go(func() { got[i], errs[i] = store.Insert(t.Context(), records) })
	}
	wg.Wait()
	for i := range callers {
		for n, r := range requireSound(t, got[i], errs[i]) {
			require.Equal(t, found(t, store, email((n+i)%values)), r, "all are told of the same record")
		}
	}
}

func (s identitySuite) confirm(t *testing.T) {
	t.Parallel()
	store := s.backend.New(t).Identities
	none := claim(email(9), "ben")
	none.Number = identity.Number{1}
	require.Equal(t, identity.Record{Identity: email(9)}, confirmed(t, store, none), "there is none")
	first := inserted(t, store, claim(email(1), "ben"))
	stale := first
	stale.Number[0]++
	require.Equal(t, first, confirmed(t, store, stale), "it has another number")
	inForce := first
	inForce.InForce = true
	second := inserted(t, store, claim(email(2), "ann"))
	looked, err := store.Confirm(t.Context(), []identity.Record{stale, second})
	there := requireSound(t, looked, err)
	require.Equal(t, first, there[0])
	require.True(t, there[1].InForce)
	require.Equal(t, inForce, confirmed(t, store, first))
	require.Equal(t, inForce, confirmed(t, store, first), "it is repeated")
	require.Equal(t, inForce, confirmed(t, store, stale), "nothing takes it back")
}

func (s identitySuite) withdraw(t *testing.T) {
	t.Parallel()
	store := s.backend.New(t).Identities
	withdraw := func(r identity.Record) bool {
		done, err := store.Withdraw(t.Context(), r)
		require.NoError(t, err)
		return done
	}
	first := inserted(t, store, claim(email(1), "ben"))
	stale := first
	stale.Number[0]++
	require.True(t, withdraw(stale))
	require.Equal(t, first, found(t, store, email(1)), "it has another number")
	require.True(t, withdraw(first))
	require.False(t, found(t, store, email(1)).Exists())
	require.True(t, withdraw(first), "it is repeated")

	second := inserted(t, store, claim(email(1), "ben"))
	require.NotEqual(t, first.Number, second.Number)
	second = confirmed(t, store, second)
	require.False(t, withdraw(second))
	require.True(t, withdraw(first))
	require.Equal(t, second, found(t, store, email(1)))
}

func (s identitySuite) remove(t *testing.T) {
	t.Parallel()
	store := s.backend.New(t).Identities
	for _, inForce := range []bool{false, true} {
		r := inserted(t, store, claim(email(1), "ben"))
		if inForce {
			r = confirmed(t, store, r)
		}
		stale := r
		stale.Number[0]++
		require.NoError(t, store.Remove(t.Context(), stale))
		require.NoError(t, store.Remove(t.Context(), identity.Record{Identity: email(1)}))
		require.Equal(t, r, found(t, store, email(1)))
		require.NoError(t, store.Remove(t.Context(), r))
		require.False(t, found(t, store, email(1)).Exists())
		require.NoError(t, store.Remove(t.Context(), r))
	}
}

func listOf(t *testing.T, store identity.Store, user message.UserID) identity.List {
	t.Helper()
	lists, err := store.Lists(t.Context(), []message.UserID{user})
	require.NoError(t, err)
	require.NoError(t, lists[0].Err)
	require.Equal(t, user, lists[0].List.User)
	return lists[0].List
}

func items(from, to int) (all []identity.Item) {
	for n := from; n < to; n++ {
		all = append(all, identity.Item{Identity: email(n), Number: identity.Number{1: byte(n), 2: 1}}) //nolint:gosec // at most MaxPerUser
	}
	return all
}

func (s identitySuite) lists(t *testing.T) {
	t.Parallel()
	store := s.backend.New(t).Identities
	none := listOf(t, store, "ben")
	require.Equal(t, identity.List{User: "ben"}, none)
	seen := map[identity.Number]bool{{}: true}
	last := none
	for _, want := range [][]identity.Item{items(0, 1), items(0, identity.MaxPerUser), items(3, 5), {{Identity: identity.Identity{Kind: "badge", Value: "a:b é"}, Number: identity.Number{9}}}} {
		results, err := store.ReplaceLists(t.Context(), []identity.Change{{From: last, Items: want}, {From: identity.List{User: "ann", Revision: identity.Number{1}}, Items: want}})
		require.NoError(t, err)
		require.NoError(t, results[0])
		require.ErrorIs(t, results[1], identity.ErrChanged, "there is none")
		now := listOf(t, store, "ben")
		require.Equal(t, want, now.Items)
		require.False(t, seen[now.Revision], "each change has a revision of its own")
		seen[now.Revision] = true
		for _, stale := range []identity.List{last, none} {
			for _, to := range [][]identity.Item{items(7, 8), nil} {
				results, err = store.ReplaceLists(t.Context(), []identity.Change{{From: stale, Items: to}})
				require.NoError(t, err)
				require.ErrorIs(t, results[0], identity.ErrChanged)
			}
		}
		require.Equal(t, now, listOf(t, store, "ben"))
		require.Equal(t, identity.List{User: "ann"}, listOf(t, store, "ann"))
		last = now
	}
	results, err := store.ReplaceLists(t.Context(), []identity.Change{{From: last}, {From: identity.List{User: "ann"}, Items: items(1, 2)}, {From: identity.List{User: "cid"}}})
	require.NoError(t, err)
	require.Equal(t, []error{nil, nil, nil}, results)
	lists, err := store.Lists(t.Context(), []message.UserID{"ann", "ben", "cid"})
	require.NoError(t, err)
	require.Equal(t, items(1, 2), lists[0].List.Items)
	require.Equal(t, none, lists[1].List, "a list without items is removed")
	require.Equal(t, identity.List{User: "cid"}, lists[2].List)
}

func (s identitySuite) listsConcurrently(t *testing.T) {
	t.Parallel()
	const callers = 8
	store := s.backend.New(t).Identities
	for range 3 {
		from := listOf(t, store, "ben")
		results := make([][]error, callers)
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				results[i], errs[i] = store.ReplaceLists(t.Context(), []identity.Change{{From: from, Items: items(i, i+1)}})
			})
		}
		wg.Wait()
		winners := 0
		for i := range callers {
			require.NoError(t, errs[i])
			if results[i][0] == nil {
				winners++
				require.Equal(t, items(i, i+1), listOf(t, store, "ben").Items)
				continue
			}
			require.ErrorIs(t, results[i][0], identity.ErrChanged)
		}
		require.Equal(t, 1, winners)
	}
}

func (s identitySuite) damaged(t *testing.T) {
	t.Parallel()
	db := s.backend.New(t)
	store := db.Identities
	first, bad := inserted(t, store, claim(email(1), "ann")), inserted(t, store, claim(email(2), "ben"))
	for _, user := range []message.UserID{"ann", "ben"} {
		results, err := store.ReplaceLists(t.Context(), []identity.Change{{From: identity.List{User: user}, Items: items(1, 2)}})
		require.NoError(t, err)
		require.NoError(t, results[0])
	}
	ann, ben := listOf(t, store, "ann"), listOf(t, store, "ben")
	db.DamageIdentity(t, email(2))
	db.DamageList(t, "ben")
	for name, looked := range map[string]func() ([]identity.Looked, error){
		"Lookup": func() ([]identity.Looked, error) {
			return store.Lookup(t.Context(), []identity.Identity{email(1), email(2), email(3)})
		},
		"Insert": func() ([]identity.Looked, error) { return store.Insert(t.Context(), []identity.Record{first, bad}) },
		"Confirm": func() ([]identity.Looked, error) {
			return store.Confirm(t.Context(), []identity.Record{{Identity: email(1), Number: identity.Number{1}}, {Identity: email(2), Number: identity.Number{2}}})
		},
	} {
		found, err := looked()
		require.NoError(t, err, name)
		require.Equal(t, identity.Looked{Record: first}, found[0], name)
		require.ErrorIs(t, found[1].Err, message.ErrCorrupt, name)
		require.NotContains(t, found[1].Err.Error(), email(2).Value, name)
		require.Equal(t, identity.Record{Identity: email(2)}, found[1].Record, name)
	}
	lists, err := store.Lists(t.Context(), []message.UserID{"ann", "ben"})
	require.NoError(t, err)
	require.Equal(t, identity.LookedList{List: ann}, lists[0])
	require.ErrorIs(t, lists[1].Err, message.ErrCorrupt)
	require.ErrorContains(t, lists[1].Err, "ben")
	stale := ben
	stale.Revision[0]++
	results, err := store.ReplaceLists(t.Context(), []identity.Change{{From: ann, Items: items(4, 5)}, {From: stale, Items: items(4, 5)}})
	require.NoError(t, err)
	require.NoError(t, results[0])
	require.ErrorIs(t, results[1], message.ErrCorrupt)
}

// reopen crashes after each method that changes something.
func (s identitySuite) reopen(t *testing.T) {
	t.Parallel()
	db := s.backend.New(t)
	r := inserted(t, db.Identities, claim(email(1), "ben"))
	db = db.Reopen(t)
	require.Equal(t, r, found(t, db.Identities, email(1)))
	results, err := db.Identities.ReplaceLists(t.Context(), []identity.Change{{From: identity.List{User: "ben"}, Items: items(1, 3)}})
	require.NoError(t, err)
	require.NoError(t, results[0])
	list := listOf(t, db.Identities, "ben")
	db = db.Reopen(t)
	require.Equal(t, list, listOf(t, db.Identities, "ben"))
	r = confirmed(t, db.Identities, r)
	db = db.Reopen(t)
	require.Equal(t, r, found(t, db.Identities, email(1)))
	require.NoError(t, db.Identities.Remove(t.Context(), r))
	db = db.Reopen(t)
	require.False(t, found(t, db.Identities, email(1)).Exists())
}
