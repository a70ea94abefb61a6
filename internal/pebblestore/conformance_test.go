package pebblestore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/internal/storetest/followtest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/internal/storetest/progresstest"
	"github.com/fanmail/fanmail/internal/storetest/userstatetest"
)

// backend returns what opens an empty store for a conformance suite. Its harness reopens what a crash leaves
// behind: only what was synced.
func backend[H any](harness func(db *pebblestore.DB, reopen func(*testing.T) H) H) func(*testing.T) H {
	var on func(t *testing.T, files *vfs.MemFS) H
	on = func(t *testing.T, files *vfs.MemFS) H {
		t.Helper()
		return harness(open(t, files), func(t *testing.T) H {
			t.Helper()
			return on(t, crash(files))
		})
	}
	return func(t *testing.T) H {
		t.Helper()
		return on(t, vfs.NewCrashableMem())
	}
}

func TestMessageConformance(t *testing.T) {
	t.Parallel()
	type harness = messagetest.Harness
	messagetest.Run(t, backend(func(db *pebblestore.DB, reopen func(*testing.T) harness) harness {
		return harness{Messages: db.Messages(), Keys: db.Keys(), Reopen: reopen}
	}))
}

func TestUserStateConformance(t *testing.T) {
	t.Parallel()
	type harness = userstatetest.Harness
	userstatetest.Run(t, backend(func(db *pebblestore.DB, reopen func(*testing.T) harness) harness {
		return harness{Store: db.Users(), Partitions: partitions, Reopen: reopen}
	}))
}

func TestFollowConformance(t *testing.T) {
	t.Parallel()
	type harness = followtest.Harness
	followtest.Run(t, backend(func(db *pebblestore.DB, reopen func(*testing.T) harness) harness {
		return harness{Store: db.Edges(), Partitions: partitions, Reopen: reopen}
	}))
}

func TestProgressConformance(t *testing.T) {
	t.Parallel()
	type harness = progresstest.Harness
	progresstest.Run(t, backend(func(db *pebblestore.DB, reopen func(*testing.T) harness) harness {
		return harness{Store: db.Progress(), Partitions: partitions, Reopen: reopen}
	}))
}

// TestBucketConformance tries every interleaving, unless the race detector makes that ten times as long: that is for what
// happens at the same time, and the operations of an interleaving follow each other.
func TestBucketConformance(t *testing.T) {
	t.Parallel()
	type harness = buckettest.Harness
	buckettest.Run(t, backend(func(db *pebblestore.DB, reopen func(*testing.T) harness) harness {
		return harness{Store: db.Inbox(), Reopen: reopen, Interleavings: interleavings}
	}))
}
