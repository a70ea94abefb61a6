package pebblestore_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const partitions = 16

// newClock returns a clock that is a millisecond further each time it is read.
func newClock() func() time.Time {
	var millis atomic.Int64
	return func() time.Time { return messagetest.Epoch.Add(time.Duration(millis.Add(1)) * time.Millisecond) }
}

func options(tb testing.TB, files vfs.FS) pebblestore.Options {
	tb.Helper()
	return pebblestore.Options{
		Partitions: partitions, FS: files, Now: newClock(), Settings: storetest.Proposed, CacheBytes: 1 << 20, MemTableBytes: 1 << 20,
		Logger: zerolog.New(zerolog.NewTestWriter(tb)).Level(zerolog.WarnLevel),
	}
}

// open opens the store on a file system, and closes it when the test is over.
func open(tb testing.TB, files vfs.FS) *pebblestore.DB {
	tb.Helper()
	db, err := pebblestore.Open(tb.Context(), "store", options(tb, files))
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	return db
}

// crash returns the file system as a crash at this moment leaves it: with what was synced, and nothing else.
func crash(files *vfs.MemFS) *vfs.MemFS { return files.CrashClone(vfs.CrashCloneCfg{}) }
