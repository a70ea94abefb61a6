package identities_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/identities"
	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

const patience = 2 * time.Minute

// world is a store, and names that no other test of the store uses.
type world struct {
	store identity.Store
	names *atomic.Int64
}

// onEachStore runs a test on the embedded store and, with the tag mongodb, on MongoDB.
func onEachStore(t *testing.T, test func(t *testing.T, w world)) {
	t.Helper()
	stores := map[string]func(t *testing.T) identity.Store{"embedded": embedded}
	if testenv.OnMongoDB {
		stores["mongodb"] = mongodb
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, world{store: open(t), names: new(atomic.Int64)})
		})
	}
}

func embedded(t *testing.T) identity.Store {
	t.Helper()
	db, err := pebblestore.Open(t.Context(), "store", pebblestore.Options{FS: vfs.NewMem(), Now: time.Now, Logger: zerolog.Nop(), CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db.Identities()
}

func mongodb(t *testing.T) identity.Store {
	t.Helper()
	uri, database := testenv.MongoDB(t)
	db, err := mongostore.Connect(t.Context(), mongostore.Options{URI: uri, Database: database, Timeout: patience, Settings: storetest.Proposed, Now: time.Now, Logger: zerolog.Nop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.Init(t.Context(), false))
	return db.Identities()
}

// service returns a service of a process with a store of its own.
func service(store identity.Store) *identities.Service {
	return identities.New(store, identities.Options{
		Further: []identity.Kind{"badge"}, Now: func() time.Time { return messagetest.Epoch },
	})
}

// user and value return names that have not been used.
func (w world) user(name string) message.UserID {
	return message.UserID(fmt.Sprintf("%s-%d", name, w.names.Add(1)))
}

func (w world) value() identity.Identity {
	return identity.Identity{Kind: identity.Email, Value: fmt.Sprintf("joe+%d@example.com", w.names.Add(1))}
}

// claim claims an identity and returns the result.
func (w world) claim(t *testing.T, id identity.Identity, user message.UserID) error {
	t.Helper()
	results, err := service(w.store).Claim(t.Context(), []identities.Claim{{Identity: id, User: user}})
	require.NoError(t, err)
	return results[0]
}

// full gives a user so many identities.
func (w world) fill(t *testing.T, user message.UserID, n int) []identity.Identity {
	t.Helper()
	var ids []identity.Identity
	var claims []identities.Claim
	for range n {
		ids = append(ids, w.value())
		claims = append(claims, identities.Claim{Identity: ids[len(ids)-1], User: user})
	}
	results, err := service(w.store).Claim(t.Context(), claims)
	require.NoError(t, err)
	for _, result := range results {
		require.NoError(t, result)
	}
	return ids
}

func (w world) owner(t *testing.T, id identity.Identity) message.UserID {
	t.Helper()
	user, err := service(w.store).Get(t.Context(), id)
	if err != nil {
		require.ErrorIs(t, err, identity.ErrNotFound)
	}
	return user
}

func (w world) list(t *testing.T, user message.UserID) []identity.Identity {
	t.Helper()
	ids, err := service(w.store).List(t.Context(), user)
	require.NoError(t, err)
	return ids
}

// requireSafe requires what holds in every state: a record in force has its item, and no list is too long.
func (w world) requireSafe(t *testing.T, ids []identity.Identity, users []message.UserID) {
	t.Helper()
	looked, err := w.store.Lookup(t.Context(), ids)
	require.NoError(t, err)
	lists, err := w.store.Lists(t.Context(), users)
	require.NoError(t, err)
	items := make(map[message.UserID]map[identity.Number]bool)
	for i, l := range lists {
		require.NoError(t, l.Err)
		require.LessOrEqual(t, len(l.List.Items), identity.MaxPerUser)
		items[users[i]] = make(map[identity.Number]bool)
		for _, item := range l.List.Items {
			items[users[i]][item.Number] = true
		}
	}
	for _, l := range looked {
		require.NoError(t, l.Err)
		require.True(t, !l.Record.InForce || items[l.Record.User][l.Record.Number], "in force without an item")
	}
}

// requireAgreed requires that lists and records agree, and that nothing else is stored of the identities.
func (w world) requireAgreed(t *testing.T, ids []identity.Identity, users []message.UserID) {
	t.Helper()
	w.requireSafe(t, ids, users)
	owned := make(map[identity.Identity]message.UserID)
	for _, user := range users {
		for _, id := range w.list(t, user) {
			require.NotContains(t, owned, id, "twice in lists")
			owned[id] = user
		}
	}
	for _, id := range ids {
		require.Equal(t, w.owner(t, id), owned[id])
	}
}
