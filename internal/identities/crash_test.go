package identities_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/identities"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

var errDied = errors.New("the process has died")

// dying is the store of a process that dies at one of its writes: before it, or after it without an answer.
type dying struct {
	identity.Store
	left   int // writes until then
	before bool
}

func (d *dying) dead() bool { return d.left <= 0 }

// write carries out a write, unless the process is dead or dies before it.
func (d *dying) write(do func() error) error {
	if d.dead() {
		return errDied
	}
	d.left--
	if d.dead() && d.before {
		return errDied
	}
	if err := do(); err != nil || !d.dead() {
		return err
	}
	return errDied
}

func (d *dying) Insert(ctx context.Context, records []identity.Record) (looked []identity.Looked, err error) {
	return looked, d.write(func() error { looked, err = d.Store.Insert(ctx, records); return err })
}

func (d *dying) Confirm(ctx context.Context, records []identity.Record) (looked []identity.Looked, err error) {
	return looked, d.write(func() error { looked, err = d.Store.Confirm(ctx, records); return err })
}

func (d *dying) Withdraw(ctx context.Context, r identity.Record) (done bool, err error) {
	return done, d.write(func() error { done, err = d.Store.Withdraw(ctx, r); return err })
}

func (d *dying) Remove(ctx context.Context, r identity.Record) error {
	return d.write(func() error { return d.Store.Remove(ctx, r) })
}

func (d *dying) ReplaceLists(ctx context.Context, changes []identity.Change) (results []error, err error) {
	return results, d.write(func() error { results, err = d.Store.ReplaceLists(ctx, changes); return err })
}

// request is a claim, or a deletion, of the user ben.
type request struct {
	remove bool
	// items is how many identities ben has before.
	items int
	// dead is whether one of those is deleted by a process that dies before it removes the item.
	dead bool
	// stopped is whether ann has claimed the identity in a process that died before it added the item.
	stopped bool
	writes  int // of the whole request
	want    error
}

var requests = map[string]request{
	"a claim":                      {writes: 3},
	"a claim with a dead item":     {items: identity.MaxPerUser, dead: true, writes: 3},
	"a claim with a full list":     {items: identity.MaxPerUser, writes: 2, want: identity.ErrFull},
	"a claim of what ann claims":   {stopped: true, writes: 3, want: identity.ErrTaken},
	"a deletion":                   {remove: true, writes: 2},
	"a deletion with a full list":  {remove: true, items: identity.MaxPerUser - 1, writes: 2},
	"a deletion of a claim by ann": {remove: true, stopped: true, writes: 1},
}

// A process dies before or after each of its writes. Nothing wrong shows then, and the next use settles it: the same request again, a claim
// by either user, or a deletion.
func TestCrashes(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w world) {
		t.Helper()
		for name, r := range requests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for write := 1; write <= r.writes; write++ {
					for _, before := range []bool{true, false} {
						for _, next := range []string{"again", "ann", "ben", "delete"} {
							w.crash(t, r, &dying{Store: w.store, left: write, before: before}, next)
						}
					}
				}
				healthy := &dying{Store: w.store, left: r.writes + 1}
				w.crash(t, r, healthy, "again")
				require.Equal(t, 1, healthy.left, "the number of writes")
			})
		}
	})
}

func (w world) crash(t *testing.T, r request, d *dying, next string) {
	t.Helper()
	ctx := t.Context()
	ann, ben, id := w.user("ann"), w.user("ben"), w.value()
	users := []message.UserID{ann, ben}
	ids := append(w.fill(t, ben, r.items), id)
	if r.dead {
		first := &dying{Store: w.store, left: 1}
		require.ErrorIs(t, service(first).Delete(ctx, ids[0], ben), errDied)
	}
	if r.stopped {
		_, err := service(&dying{Store: w.store, left: 1}).Claim(ctx, []identities.Claim{{Identity: id, User: ann}})
		require.ErrorIs(t, err, errDied)
	}
	if r.remove && !r.stopped {
		require.NoError(t, w.claim(t, id, ben))
	}
	do := func(store identity.Store) error {
		s := service(store)
		if r.remove {
			return s.Delete(ctx, id, ben)
		}
		results, err := s.Claim(ctx, []identities.Claim{{Identity: id, User: ben}})
		if err != nil {
			return err
		}
		return results[0]
	}
	if err := do(d); d.dead() {
		require.ErrorIs(t, err, errDied)
	} else {
		require.ErrorIs(t, err, r.want)
	}
	w.requireSafe(t, ids, users)

	switch next {
	case "again":
		err := do(w.store)
		if r.want == nil {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, r.want)
		}
	case "ben":
		if err := w.claim(t, id, ben); err != nil {
			require.True(t, errors.Is(err, identity.ErrFull) || errors.Is(err, identity.ErrTaken), "%v", err)
		} else {
			require.Equal(t, ben, w.owner(t, id))
		}
	case "ann":
		err := w.claim(t, id, ann)
		if err != nil {
			require.ErrorIs(t, err, identity.ErrTaken)
			require.Equal(t, ben, w.owner(t, id))
		} else {
			require.Equal(t, ann, w.owner(t, id))
		}
	case "delete":
		require.NoError(t, service(w.store).Delete(ctx, id, ""))
		require.Empty(t, w.owner(t, id))
	}
	w.requireAgreed(t, ids, users)
	looked, err := w.store.Lookup(ctx, []identity.Identity{id})
	require.NoError(t, err)
	require.True(t, !looked[0].Record.Exists() || looked[0].Record.InForce || r.remove && r.stopped, "the claim is settled")
}

// A claim that has added its item counts against the limit. A claim that finds the list full finishes it, so that the user sees what the list is
// full of.
func TestClaimsUnderWayCount(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w world) {
		t.Helper()
		ben, id := w.user("ben"), w.value()
		ids := append(w.fill(t, ben, identity.MaxPerUser-1), id)
		_, err := service(&dying{Store: w.store, left: 2}).Claim(t.Context(), []identities.Claim{{Identity: id, User: ben}})
		require.ErrorIs(t, err, errDied)
		require.ErrorIs(t, w.claim(t, w.value(), ben), identity.ErrFull)
		require.Equal(t, ben, w.owner(t, id))
		require.Equal(t, ids, w.list(t, ben))
		require.ErrorIs(t, w.claim(t, id, w.user("ann")), identity.ErrTaken)
		w.requireAgreed(t, ids, []message.UserID{ben})
	})
}

// A batch meets claims of one user that were cut short, and finishes them one after the other.
func TestBatchFinishesClaimsOfOneUser(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w world) {
		t.Helper()
		ann := w.user("ann")
		var ids []identity.Identity
		var claims []identities.Claim
		users := []message.UserID{ann}
		for range 5 {
			id, user := w.value(), w.user("ben")
			ids, users = append(ids, id), append(users, user)
			claims = append(claims, identities.Claim{Identity: id, User: user})
			_, err := service(&dying{Store: w.store, left: 1}).Claim(t.Context(), []identities.Claim{{Identity: id, User: ann}})
			require.ErrorIs(t, err, errDied)
		}
		results, err := service(w.store).Claim(t.Context(), claims)
		require.NoError(t, err)
		for _, result := range results {
			require.ErrorIs(t, result, identity.ErrTaken)
		}
		require.Len(t, w.list(t, ann), len(ids))
		w.requireAgreed(t, ids, users)
	})
}

// between runs a function once, when a process is about to read lists.
type between struct {
	identity.Store
	run func()
}

func (b *between) Lists(ctx context.Context, users []message.UserID) ([]identity.LookedList, error) {
	if run := b.run; run != nil {
		b.run = nil
		run()
	}
	return b.Store.Lists(ctx, users)
}

// The user claims the identity again after a deletion has removed the record, and before it removes the item.
func TestDeletionThatStalls(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w world) {
		t.Helper()
		ben, id := w.user("ben"), w.value()
		require.NoError(t, w.claim(t, id, ben))
		stalls := &between{Store: w.store, run: func() { require.NoError(t, w.claim(t, id, ben)) }}
		require.NoError(t, service(stalls).Delete(t.Context(), id, ben))
		require.Equal(t, ben, w.owner(t, id))
		w.requireAgreed(t, []identity.Identity{id}, []message.UserID{ben})
	})
}

// A claim stalls before it adds its item, while another process finishes it, and a deletion removes the identity.
func TestClaimThatStalls(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w world) {
		t.Helper()
		ann, ben, id := w.user("ann"), w.user("ben"), w.value()
		stalls := &between{Store: w.store, run: func() {
			require.ErrorIs(t, w.claim(t, id, ann), identity.ErrTaken)
			require.NoError(t, service(w.store).Delete(t.Context(), id, ben))
			require.NoError(t, w.claim(t, id, ann))
		}}
		results, err := service(stalls).Claim(t.Context(), []identities.Claim{{Identity: id, User: ben}})
		require.NoError(t, err)
		require.ErrorIs(t, results[0], identity.ErrTaken)
		require.Equal(t, ann, w.owner(t, id))
		w.requireAgreed(t, []identity.Identity{id}, []message.UserID{ann, ben})
	})
}
