package pebblestore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/fanmail/fanmail/internal/storetest"
)

// TestConformance tries every schedule of the append protocol, or with the race detector a sample. The detector makes a schedule
// ten times as slow, and has nothing to find in it: the operations of a schedule run one after the other.
func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Backend{
		New:        func(t *testing.T) storetest.Database { t.Helper(); return database(t, vfs.NewCrashableMem()) },
		Partitions: partitions, Interleavings: interleavings,
	})
}

// database opens the store in files. Reopen opens what a crash leaves: only the data that was synced.
func database(t *testing.T, files *vfs.MemFS) storetest.Database {
	t.Helper()
	db := open(t, files)
	return storetest.Database{
		Messages: db.Messages(), Keys: db.Keys(), Users: db.Users(), Edges: db.Edges(), Progress: db.Progress(), Inbox: db.Inbox(),
		Reopen: func(t *testing.T) storetest.Database { t.Helper(); return database(t, crash(files)) },
	}
}
