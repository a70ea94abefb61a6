package pebblestore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
)

// A store that was closed goes on in its epoch. One that was not may have lost appends, and begins another.
func TestEpoch(t *testing.T) {
	t.Parallel()
	files := vfs.NewCrashableMem()
	open := func(files *vfs.MemFS) *pebblestore.DB {
		opts := options(t, nil)
		opts.FS = files
		db, err := pebblestore.Open(t.Context(), "store", opts)
		require.NoError(t, err)
		return db
	}
	db := open(files)
	first := db.Epoch()
	require.NotZero(t, first)
	require.NoError(t, db.Close())
	db = open(files)
	require.Equal(t, first, db.Epoch())
	crashed := open(files.CrashClone(vfs.CrashCloneCfg{}))
	require.NotEqual(t, first, crashed.Epoch())
	require.NoError(t, crashed.Close())
	require.NoError(t, db.Close())
}
