package identities_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/identities"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w world) {
		t.Helper()
		ann, ben, id := w.user("ann"), w.user("ben"), w.value()
		require.Empty(t, w.owner(t, id))
		for range 2 {
			require.NoError(t, w.claim(t, id, ben))
			require.Equal(t, ben, w.owner(t, id))
			require.ErrorIs(t, w.claim(t, id, ann), identity.ErrTaken)
		}
		require.Equal(t, []identity.Identity{id}, w.list(t, ben))
		require.Empty(t, w.list(t, ann))
		w.requireAgreed(t, []identity.Identity{id}, []message.UserID{ann, ben})

		looked, err := w.store.Lookup(t.Context(), []identity.Identity{id})
		require.NoError(t, err)
		require.Equal(t, 1, looked[0].Record.Form)

		results, err := service(w.store).Claim(t.Context(), []identities.Claim{{Identity: w.value(), User: "a/b"}, {Identity: w.value()}})
		require.NoError(t, err)
		for _, result := range results {
			invalid := new(message.InvalidError)
			require.ErrorAs(t, result, &invalid)
			require.Equal(t, "user", invalid.Field)
		}
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w world) {
		t.Helper()
		ann, ben, id := w.user("ann"), w.user("ben"), w.value()
		remove := func(user message.UserID) { require.NoError(t, service(w.store).Delete(t.Context(), id, user)) }
		remove("")
		require.NoError(t, w.claim(t, id, ben))
		remove(ann)
		require.Equal(t, ben, w.owner(t, id), "it is another user's")
		for _, of := range []message.UserID{ben, ""} {
			for range 2 {
				remove(of)
				require.Empty(t, w.owner(t, id))
				require.Empty(t, w.list(t, ben))
			}
			require.NoError(t, w.claim(t, id, ann))
			require.ErrorIs(t, w.claim(t, id, ben), identity.ErrTaken)
			remove(ann)
			require.NoError(t, w.claim(t, id, ben))
		}
		lists, err := w.store.Lists(t.Context(), []message.UserID{ann})
		require.NoError(t, err)
		require.Zero(t, lists[0].List.Revision, "a user without identities has no list")
	})
}

// A user has at most 20 identities. Items of claims that are under way count; dead ones do not.
func TestLimit(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w world) {
		t.Helper()
		ben := w.user("ben")
		ids := w.fill(t, ben, identity.MaxPerUser)
		require.Equal(t, ids, w.list(t, ben))
		extra := w.value()
		require.ErrorIs(t, w.claim(t, extra, ben), identity.ErrFull)
		require.NoError(t, w.claim(t, ids[3], ben), "the user has it already")
		ann := w.user("ann")
		require.NoError(t, w.claim(t, extra, ann), "nothing is left of the claim")
		w.requireAgreed(t, append(ids, extra), []message.UserID{ann, ben})

		require.NoError(t, service(w.store).Delete(t.Context(), ids[3], ben))
		other := w.value()
		require.NoError(t, w.claim(t, other, ben))
		require.ErrorIs(t, w.claim(t, w.value(), ben), identity.ErrFull)
		require.Equal(t, append(slices.Delete(slices.Clone(ids), 3, 4), other), w.list(t, ben))
	})
}

// The order of the lines of a batch decides, also of those of one user or one identity.
func TestBatch(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w world) {
		t.Helper()
		ann, ben := w.user("ann"), w.user("ben")
		x, y := w.value(), w.value()
		claims := []identities.Claim{
			{Identity: x, User: ann}, {Identity: x, User: ben}, {Identity: y, User: ben}, {Identity: y, User: ann}, {Identity: x, User: ann}, {Identity: w.value(), User: ""},
		}
		full := w.user("full")
		for range identity.MaxPerUser + 2 {
			claims = append(claims, identities.Claim{Identity: w.value(), User: full})
		}
		for range 1500 {
			claims = append(claims, identities.Claim{Identity: w.value(), User: w.user("many")})
		}
		results, err := service(w.store).Claim(t.Context(), claims)
		require.NoError(t, err)
		var ids []identity.Identity
		users := []message.UserID{ann, ben, full}
		for i, result := range results {
			ids = append(ids, claims[i].Identity)
			switch i {
			case 1, 3:
				require.ErrorIs(t, result, identity.ErrTaken)
			case 5:
				require.ErrorIs(t, result, message.ErrInvalid)
			case 26, 27:
				require.ErrorIs(t, result, identity.ErrFull)
			default:
				require.NoError(t, result, i)
			}
		}
		w.requireAgreed(t, ids[:28], users)
		owners, err := service(w.store).Lookup(t.Context(), append(ids, ids...))
		require.NoError(t, err)
		require.Equal(t, owners[:len(ids)], owners[len(ids):])
		require.Equal(t, identities.Owner{User: claims[1000].User}, owners[1000])
		require.Equal(t, identities.Owner{Err: identity.ErrNotFound}, owners[27])
		results, err = service(w.store).Claim(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, results)
	})
}

// Whatever requests run beside each other, records and lists agree afterwards.
func TestBesideEachOther(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w world) {
		t.Helper()
		users := []message.UserID{w.user("ann"), w.user("ben"), w.user("cid")}
		var ids []identity.Identity
		for _, user := range users {
			ids = append(ids, w.fill(t, user, identity.MaxPerUser-1)...)
		}
		contested := []identity.Identity{w.value(), w.value(), w.value(), ids[0], ids[20]}
		ids = append(ids, contested[:3]...)
		var wg sync.WaitGroup
		errs := make(chan error, 1000)
		for n := range 6 {
			wg.Go(func() {
				s := service(w.store)
				for k := range 25 {
					id, user := contested[(n+k)%len(contested)], users[(n*k+k/3)%len(users)]
					if (n+k)%3 == 0 {
						errs <- s.Delete(t.Context(), id, user)
						continue
					}
					_, err := s.Claim(t.Context(), []identities.Claim{{Identity: id, User: user}})
					errs <- err
					owner, err := s.Get(t.Context(), id)
					if err == nil && !slices.Contains(users, owner) {
						err = identity.ErrChanged
					}
					if err != identity.ErrNotFound { //nolint:errorlint // as it is
						errs <- err
					}
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		w.requireAgreed(t, ids, users)
	})
}

func TestForms(t *testing.T) {
	t.Parallel()
	s := service(nil)
	for _, test := range [][3]string{{"email", "Joe@Example.com", "joe@example.com"}, {"badge", "B 17", "B 17"}, {"phone", "+49 30 1234567", "+49301234567"}} {
		id, err := s.Identity(test[0], test[1])
		require.NoError(t, err)
		require.Equal(t, identity.Kind(test[0]), id.Kind)
		require.Equal(t, test[2], id.Value)
	}
	_, err := s.Identity("fax", "1")
	require.ErrorIs(t, err, message.ErrInvalid)
}
