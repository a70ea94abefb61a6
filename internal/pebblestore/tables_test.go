package pebblestore_test

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// watchedDisk is a file system that calls see before some of its calls, with the name of the call and the file. An error of see fails the call.
type watchedDisk struct {
	vfs.FS
	see func(call, name string) error
}

func (d watchedDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.see("create", name); err != nil {
		return nil, err
	}
	f, err := d.FS.Create(name, category)
	return watchedFile{f, d, name}, err
}

func (d watchedDisk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := d.see("open", name); err != nil {
		return nil, err
	}
	return d.FS.Open(name, opts...)
}

type watchedFile struct {
	vfs.File
	disk watchedDisk
	name string
}

func (f watchedFile) Sync() error {
	if err := f.disk.see("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

// SyncData is what the engine calls for the log.
func (f watchedFile) SyncData() error {
	if err := f.disk.see("sync", f.name); err != nil {
		return err
	}
	return f.File.SyncData()
}

// watched opens the store in a folder, with one partition, whose pushes are tables from 2 entries on.
func watched(t *testing.T, files vfs.FS, dir string, see func(call string) error) *pebblestore.DB {
	t.Helper()
	opts := options(t, watchedDisk{files, func(call, name string) error { return see(call + path.Ext(name)) }})
	opts.Partitions, opts.TableEntries = 1, 2
	db, err := pebblestore.Open(t.Context(), dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// pushTo pushes the nth message to owners whose names have one letter.
func pushTo(t *testing.T, db *pebblestore.DB, n int, owners string) error {
	t.Helper()
	var pushes []bucket.Push
	for owner := range strings.SplitSeq(owners, "") {
		pushes = append(pushes, bucket.Push{Owner: message.UserID(owner), Entries: []bucket.Entry{bucket.EntryOf(messagetest.Message(n, "ada"))}})
	}
	_, err := db.Inbox().Push(t.Context(), pushes)
	return err
}

// requireInboxes requires that owners have messages in their first bucket, in this order.
func requireInboxes(t *testing.T, db *pebblestore.DB, owners string, messages ...int) {
	t.Helper()
	var want []message.ID
	for _, n := range messages {
		want = append(want, messagetest.ID(n))
	}
	for owner := range strings.SplitSeq(owners, "") {
		buckets, err := bucket.ReadSection(t.Context(), db.Inbox(), bucket.Section{Owner: message.UserID(owner)}, bucket.AllFields)
		require.NoError(t, err)
		var held []message.ID
		for _, b := range buckets {
			held = buckettest.IDs(b.Entries)
		}
		require.Equal(t, want, held, owner)
	}
}

// filesOf returns the files of the store with one of some suffixes.
func filesOf(t *testing.T, files vfs.FS, suffixes ...string) []string {
	t.Helper()
	names, err := files.List("store")
	require.NoError(t, err)
	return slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(suffixes, path.Ext(name)) })
}

// A push whose tables do not fit on the disk, or whose ingest fails, changes nothing and leaves nothing.
func TestTablesFail(t *testing.T) {
	t.Parallel()
	for _, failing := range []string{"create.table", "sync.table", "open.table"} {
		t.Run(failing, func(t *testing.T) {
			t.Parallel()
			var full atomic.Bool
			files := vfs.NewMem()
			db := watched(t, files, "store", func(call string) error {
				if full.Load() && call == failing {
					return syscall.ENOSPC
				}
				return nil
			})
			require.NoError(t, pushTo(t, db, 1, "abcde"))
			require.EqualValues(t, 1, db.Engine().Metrics().Ingest.Count)
			before := filesOf(t, files, ".table", ".sst")
			full.Store(true)
			require.ErrorIs(t, pushTo(t, db, 2, "abcde"), syscall.ENOSPC)
			require.ElementsMatch(t, before, filesOf(t, files, ".table", ".sst"))
			requireInboxes(t, db, "abcde", 1)
			require.NoError(t, pushTo(t, db, 3, "c"), "the log has room")
			full.Store(false)
			require.NoError(t, pushTo(t, db, 2, "abcde"))
			require.EqualValues(t, 2, db.Engine().Metrics().Ingest.Count)
			requireInboxes(t, db, "abde", 1, 2)
			requireInboxes(t, db, "c", 1, 3, 2)
		})
	}
}

// The blocks of tables are as large as those of the engine's own files.
func TestTablesHaveLargeBlocks(t *testing.T) {
	t.Parallel()
	db := watched(t, vfs.NewMem(), "store", func(string) error { return nil })
	const owners, bytes, block = 256, 1 << 10, 32 << 10
	entry := bucket.EntryOf(messagetest.Message(1, "ada"))
	entry.Body = strings.Repeat("x", bytes)
	pushes := make([]bucket.Push, owners)
	for i := range pushes {
		pushes[i] = bucket.Push{Owner: message.UserID(fmt.Sprintf("%03d", i)), Entries: []bucket.Entry{entry}}
	}
	_, err := db.Inbox().Push(t.Context(), pushes)
	require.NoError(t, err)
	levels, err := db.Engine().SSTables(pebble.WithProperties())
	require.NoError(t, err)
	tables := slices.Concat(levels...)
	newest := tables[len(tables)-1]
	require.EqualValues(t, owners, newest.Properties.NumEntries)
	require.InDelta(t, owners*bytes/block, newest.Properties.NumDataBlocks, 2)
}

// A store that is opened after a crash removes the tables that the engine had not taken over.
func TestTablesOfACrash(t *testing.T) {
	t.Parallel()
	files := vfs.NewCrashableMem()
	var image *vfs.MemFS
	db := watched(t, files, "store", func(call string) error {
		if call == "sync.table" {
			image = files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
		}
		return nil
	})
	require.NoError(t, pushTo(t, db, 1, "ab"))
	require.Len(t, filesOf(t, image, ".table"), 1)
	db = watched(t, image, "store", func(string) error { return nil })
	require.Empty(t, filesOf(t, image, ".table"))
	requireInboxes(t, db, "ab")
}

// A checkpoint copies the log after the tables. Pushes that arrive between have no hole in it, and do not wait for it.
func TestCheckpointBesideTables(t *testing.T) {
	t.Parallel()
	files := vfs.NewMem()
	var armed atomic.Bool
	reached, goOn := make(chan struct{}), make(chan struct{})
	db := watched(t, files, "store", func(call string) error {
		if call == "open.log" && armed.CompareAndSwap(true, false) {
			close(reached)
			<-goOn
		}
		return nil
	})
	require.NoError(t, pushTo(t, db, 1, "ab"))
	armed.Store(true)
	var saving errgroup.Group
	saving.Go(func() error {
		_, err := db.Checkpoint(t.Context(), "saved")
		return err
	})
	<-reached
	require.NoError(t, pushTo(t, db, 2, "ab"))
	require.NoError(t, pushTo(t, db, 3, "a"))
	require.NoError(t, db.Inbox().Persist(t.Context()))
	close(goOn)
	require.NoError(t, saving.Wait())
	saved := watched(t, files, "saved", func(string) error { return nil })
	requireInboxes(t, saved, "a", 1, 2, 3)
	require.EqualValues(t, 1, db.Engine().Metrics().Ingest.Count)
	require.NoError(t, db.Engine().Flush())
	require.NoError(t, pushTo(t, db, 4, "ab"))
	require.EqualValues(t, 2, db.Engine().Metrics().Ingest.Count, "tables again after the checkpoint")
}

// A table is never there after a crash without the entries in the slots below, also if they came while the push waited for its owners.
func TestCrashAfterTables(t *testing.T) {
	t.Parallel()
	for _, percent := range []int{0, 50, 100} {
		t.Run(fmt.Sprintf("with %d percent of the unsynced", percent), func(t *testing.T) {
			t.Parallel()
			files := vfs.NewCrashableMem()
			var first sync.Once
			reached, goOn := make(chan struct{}), make(chan struct{})
			db := watched(t, files, "store", func(call string) error {
				if call == "sync.table" {
					first.Do(func() { close(reached); <-goOn })
				}
				return nil
			})
			var large errgroup.Group
			large.Go(func() error { return pushTo(t, db, 1, "bc") })
			<-reached
			large.Go(func() error { return pushTo(t, db, 3, "ab") })
			require.Eventually(t, db.AwaitsReservation, time.Minute, time.Millisecond)
			require.NoError(t, db.Inbox().Persist(t.Context()))
			require.NoError(t, pushTo(t, db, 2, "a")) // below the first key of the next table: above it, the engine would sync the log
			close(goOn)
			require.NoError(t, large.Wait())
			image := files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, uint64(percent)))})
			db = watched(t, image, "store", func(string) error { return nil })
			requireInboxes(t, db, "a", 2, 3)
			requireInboxes(t, db, "b", 1, 3)
		})
	}
}

// Tables are handed over only when everything written before is on the disk, however long that takes.
func TestTablesWaitForTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slow, synced atomic.Bool
		db := watched(t, vfs.NewMem(), "store", func(call string) error {
			switch {
			case !slow.Load():
			case call == "sync.log":
				<-time.After(time.Minute) // passes when everybody else waits
				synced.Store(true)
			case call == "open.table":
				require.True(t, synced.Load())
			}
			return nil
		})
		slow.Store(true)
		require.NoError(t, pushTo(t, db, 1, "ab"))
		require.EqualValues(t, 1, db.Engine().Metrics().Ingest.Count)
		slow.Store(false)
	})
}
