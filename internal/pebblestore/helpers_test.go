package pebblestore_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/pkg/message/messagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const partitions = 16

// clock is when the tests store messages.
func clock() time.Time { return messagetest.Epoch.Add(time.Hour) }

func options(t testing.TB, files vfs.FS) pebblestore.Options {
	t.Helper()
	return pebblestore.Options{
		Partitions: partitions, FS: files, Now: clock, CacheBytes: 1 << 20, MemTableBytes: 1 << 20,
		Logger: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
	}
}

// open opens the store on a file system, and closes it when the test is over.
func open(t testing.TB, files vfs.FS) *pebblestore.DB {
	t.Helper()
	db, err := pebblestore.Open(t.Context(), "store", options(t, files))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// crash returns the file system as a crash at this moment leaves it: with what was synced, and nothing else.
func crash(files *vfs.MemFS) *vfs.MemFS { return files.CrashClone(vfs.CrashCloneCfg{}) }
