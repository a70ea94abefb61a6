package pebblestore_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

// The number of schedules of each scenario of the append protocol. On its model, buckettest tries them all. Tables take far longer.
const interleavings, interleavingsOfTables = 25, 5

func TestConformance(t *testing.T) {
	t.Parallel()
	for by, with := range map[string]struct{ tableEntries, interleavings int }{"log": {0, interleavings}, "tables": {1, interleavingsOfTables}} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			opened := func(t *testing.T, set func(*pebblestore.Options)) storetest.Database {
				t.Helper()
				opts := options(t, nil)
				opts.TableEntries = with.tableEntries
				set(&opts)
				return database(t, vfs.NewCrashableMem(), opts)
			}
			storetest.Run(t, storetest.Backend{
				New: func(t *testing.T) storetest.Database {
					t.Helper()
					return opened(t, func(*pebblestore.Options) {})
				},
				NewAt: func(t *testing.T, now func() time.Time) storetest.Database {
					t.Helper()
					return opened(t, func(opts *pebblestore.Options) { opts.Now = now })
				},
				Sized: func(t *testing.T, size int) storetest.Database {
					t.Helper()
					return opened(t, func(opts *pebblestore.Options) { opts.BucketSize = size })
				},
				Partitions: partitions, Interleavings: with.interleavings,
			})
		})
	}
}

// database opens the store in files. Reopen opens what a crash leaves: only the data that was synced.
func database(t *testing.T, files *vfs.MemFS, opts pebblestore.Options) storetest.Database {
	t.Helper()
	opts.FS = files
	db, err := pebblestore.Open(t.Context(), "store", opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := stores(db)
	spoil := func(t *testing.T, key []byte) func() {
		t.Helper()
		value, closer, err := db.Engine().Get(key)
		require.NoError(t, err)
		value = bytes.Clone(value)
		require.NoError(t, closer.Close())
		require.NoError(t, db.Engine().Set(key, value[:len(value)/2], pebble.Sync))
		return func() { require.NoError(t, db.Engine().Set(key, value, pebble.Sync)) }
	}
	keyOf := func(space byte, user message.UserID) []byte {
		return append(binary.BigEndian.AppendUint16([]byte{space}, uint16(partition.Of(user, partitions))), user...)
	}
	s.DamageUser = func(t *testing.T, user message.UserID) func() {
		t.Helper()
		return spoil(t, keyOf('u', user))
	}
	s.DamageIdentity = func(t *testing.T, id identity.Identity) { t.Helper(); spoil(t, []byte("h"+id.Key())) }
	s.DamageList = func(t *testing.T, user message.UserID) { t.Helper(); spoil(t, []byte("y"+user)) }
	s.DamageFlags = func(t *testing.T, owner message.UserID) { t.Helper(); spoil(t, append(keyOf('s', owner), 0)) }
	s.Reopen = func(t *testing.T) storetest.Database { t.Helper(); return database(t, crash(files), opts) }
	return s
}

// stores returns the stores of a database.
func stores(db *pebblestore.DB) storetest.Database {
	return storetest.Database{
		Messages: db.Messages(), Keys: db.Keys(), Users: db.Users(), Edges: db.Edges(), Progress: db.Progress(), Inbox: db.Inbox(),
		Settings: db.Settings(), Walk: db.Retention(), Passes: db.Passes(), Identities: db.Identities(), Topics: db.Topics(), Flags: db.Flags(),
	}
}
