package pebblestore_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// entriesOf returns the copies of count messages.
func entriesOf(first, count int) []bucket.Entry {
	entries := make([]bucket.Entry, count)
	for i := range entries {
		entries[i] = bucket.EntryOf(messagetest.Message(first+i, "ada"))
	}
	return entries
}

// camera takes an image of the disk, with all that is unsynced, before each write and each sync.
type camera struct {
	files *vfs.MemFS

	mu     sync.Mutex
	on     bool
	images []*vfs.MemFS
}

func (c *camera) take(op errorfs.Op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".log") {
		c.images = append(c.images, c.files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))}))
	}
	return nil
}

func (c *camera) String() string { return "camera" }

// turn turns the camera on or off, and returns the images.
func (c *camera) turn(on bool) []*vfs.MemFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = on
	return c.images
}

// TestCrashWhileEmptying empties an inbox, and looks at each image that a crash may leave. A bucket is there, or the record says that it was
// removed. Nothing comes back.
func TestCrashWhileEmptying(t *testing.T) {
	t.Parallel()
	c := &camera{files: vfs.NewCrashableMem()}
	db := open(t, errorfs.Wrap(c.files, errorfs.InjectorFunc(c.take)))
	const messages = 230
	results, err := bucket.NewAppender(db.Inbox(), db.Users()).Append(t.Context(), []bucket.Append{{Owner: "bob", Entries: entriesOf(1, messages)}})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	for _, n := range []int{7, 60, 61, 150, 220} {
		require.NoError(t, bucket.Delete(t.Context(), db.Inbox(), "bob", bucket.Hint{}, messagetest.ID(n)))
	}
	c.turn(true)
	emptying := bucket.NewEmptying(db.Inbox(), "bob", bucket.Hint{}, messagetest.ID(205))
	for more := true; more; {
		_, more, err = emptying.Step(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, db.Inbox().Persist(t.Context()))
	}
	removed := make(map[uint32]bool)
	for _, image := range append(c.turn(false), crash(c.files)) {
		removed[requireEmptied(t, image, messages)] = true
	}
	require.Len(t, removed, 5, "each step was seen")
}

// requireEmptied opens an image, and returns how many buckets were removed.
func requireEmptied(t *testing.T, image *vfs.MemFS, messages int) (removed uint32) {
	t.Helper()
	db, err := pebblestore.Open(t.Context(), "store", options(t, image))
	require.NoError(t, err)
	inbox := db.Inbox()
	require.NoError(t, bucket.Check(t.Context(), inbox, "bob"))
	buckets, err := bucket.ReadSection(t.Context(), inbox, bucket.Section{Owner: "bob", High: math.MaxUint32}, bucket.AllFields)
	require.NoError(t, err)
	var tombstones int64
	for _, b := range buckets {
		if b.Stub {
			removed = b.Sequence + 1
			require.EqualValues(t, removed*bucket.Capacity, b.End(inbox.Size()))
		}
		for _, e := range b.Entries {
			if e.Deleted {
				tombstones++
			}
		}
	}
	deletions, err := bucket.ReadDeletions(t.Context(), inbox, "bob", 0)
	require.NoError(t, err)
	require.Equal(t, tombstones, deletions.Total)
	require.Len(t, deletions.Recent, int(tombstones))
	gone, err := pebblestore.RemovedTombstones(db, "bob")
	require.NoError(t, err)
	require.EqualValues(t, 5, tombstones+gone, "those that were removed are counted")
	for _, push := range []bucket.Push{{Guard: true}, {Create: true}, {Sequence: 1, Create: true, Floor: messagetest.ID(50)}} {
		push.Owner, push.Entries = "bob", entriesOf(messages, 1) // it is in bucket 4
		outcomes, err := inbox.Push(t.Context(), []bucket.Push{push})
		require.NoError(t, err)
		require.False(t, outcomes[0].Applied, "%d buckets are gone", removed)
	}
	results, err := bucket.NewAppender(inbox, db.Users()).Append(t.Context(), []bucket.Append{{Owner: "bob", Entries: entriesOf(1, messages)}})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	require.Zero(t, results[0].New)
	require.NoError(t, db.Close())
	return removed
}

// TestRemovedBucketsAreRemembered pushes onto buckets that were removed, while the store remembers the tail of the inbox, and after it has
// forgotten it.
func TestRemovedBucketsAreRemembered(t *testing.T) {
	t.Parallel()
	for name, remembered := range map[string]int{"with the tail": 1000, "without": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := options(t, vfs.NewMem())
			opts.RememberedOwners = remembered
			db, err := pebblestore.Open(t.Context(), "store", opts)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			appender := bucket.NewAppender(db.Inbox(), db.Users())
			add := func(owner string, first, count int) int {
				results, err := appender.Append(t.Context(), []bucket.Append{{Owner: message.UserID(owner), Entries: entriesOf(first, count)}})
				require.NoError(t, err)
				require.NoError(t, results[0].Err)
				return results[0].New
			}
			for _, owner := range []string{"ann", "bob", "cid"} {
				require.Equal(t, 120, add(owner, 1, 120))
			}
			freed, err := db.Inbox().Empty(t.Context(), "bob", 0, 2, messagetest.ID(110))
			require.NoError(t, err)
			require.Equal(t, []int{3, 2, 110}, []int{freed.Buckets, freed.Stubs, freed.Entries})
			for _, owner := range []string{"ann", "bob", "cid"} {
				require.Zero(t, add(owner, 1, 120))
				require.Equal(t, 31, add(owner, 121, 31))
				require.Zero(t, add(owner, 1, 151))
			}
			for sequence := range uint32(3) {
				outcomes, err := db.Inbox().Push(t.Context(), []bucket.Push{{Owner: "bob", Sequence: sequence, Entries: entriesOf(500, 1), Create: sequence > 0}})
				require.NoError(t, err)
				require.False(t, outcomes[0].Applied)
			}
		})
	}
}

// TestLostFloorOfTheLowestBucket mends the lowest bucket after others were removed. The record of these has its floor.
func TestLostFloorOfTheLowestBucket(t *testing.T) {
	t.Parallel()
	db := open(t, vfs.NewMem())
	_, err := bucket.NewAppender(db.Inbox(), db.Users()).Append(t.Context(), []bucket.Append{{Owner: "bob", Entries: entriesOf(1, 120)}})
	require.NoError(t, err)
	_, err = db.Inbox().Empty(t.Context(), "bob", 0, 1, messagetest.ID(60))
	require.NoError(t, err)
	require.NoError(t, pebblestore.LoseEntry(db, "bob", 1, 0))
	require.ErrorIs(t, db.Inbox().Blank(t.Context(), "bob", 0, 0, message.ID{}), bucket.ErrNotFound, "that bucket is gone")
	require.NoError(t, db.Inbox().Blank(t.Context(), "bob", 1, 0, message.ID{}))
	buckets, err := bucket.ReadSection(t.Context(), db.Inbox(), bucket.Section{Owner: "bob", Low: 1, High: 1}, bucket.AllFields)
	require.NoError(t, err)
	require.Equal(t, messagetest.ID(50), buckets[0].Floor)
}
