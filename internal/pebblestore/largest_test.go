package pebblestore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest"
)

// TestLargestRecords builds the largest record of each kind, and compares its size with the documentation.
func TestLargestRecords(t *testing.T) {
	t.Parallel()
	files := vfs.NewCrashableMem()
	opts := options(t, files)
	db, err := pebblestore.Open(t.Context(), "store", opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	storetest.WriteLargest(t, stores(db))

	it, err := db.Engine().NewIter(nil)
	require.NoError(t, err)
	largest := make(map[byte]int)
	for ok := it.First(); ok; ok = it.Next() {
		space := it.Key()[0]
		largest[space] = max(largest[space], len(it.Key())+len(it.Value()))
	}
	require.NoError(t, it.Close())
	documented, built := make(map[string]int), make(map[string]int)
	for collection, sizes := range storetest.DocumentedSizes(t) {
		documented[collection] = sizes.Embedded
	}
	for collection, space := range map[string]byte{
		"messages": 'm', "users": 'u', "inbox": 'i', "followers": 'f', "following": 'g', "fanouts": 'p', "publish_keys": 'k', "topics": 'o',
		"identities": 'h', "user_identities": 'y', "flags": 's',
	} {
		built[collection] = largest[space]
		delete(largest, space)
	}
	require.Equal(t, built, documented, "in docs/data-model.md")
	for space, size := range largest {
		require.Less(t, size, 1000, "a record of the space %c", space)
	}
}
