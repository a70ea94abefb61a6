package pebblestore_test

import (
	"math"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

const stretchOwners = "bdfhjlnprtvx"

// countTables opens a store, and counts the tables that are begun.
func countTables(t *testing.T) (db *pebblestore.DB, tables *atomic.Int32) {
	t.Helper()
	tables = new(atomic.Int32)
	return watched(t, vfs.NewMem(), "store", func(call string) error {
		if call == "create.table" {
			tables.Add(1)
		}
		return nil
	}), tables
}

// A large push has tables around the owners who have an entry in memory, where at least 2 owners are beside one another.
func TestStretches(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		inMemory string
		tables   int32
	}{
		"one":                                  {"h", 2},
		"the first and the last":               {"bx", 1},
		"owners who are not in the push":       {"imq", 4},
		"owners beside the push":               {"az", 1},
		"some have one between them":           {"dhl", 1},
		"all have one between them":            {"dhlpt", 1},
		"nobody is beside another one":         {"dhlptv", 0},
		"as many as there could be tables for": {"bdfhjlm", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, tables := countTables(t)
			for owner := range strings.SplitSeq(test.inMemory, "") {
				require.NoError(t, pushTo(t, db, 1, owner))
			}
			require.NoError(t, pushTo(t, db, 2, stretchOwners))
			require.Equal(t, test.tables, tables.Load())
			require.NoError(t, db.Engine().Flush())
			require.NoError(t, pushTo(t, db, 3, stretchOwners))
			require.Equal(t, test.tables+1, tables.Load())
			require.Zero(t, db.Engine().Metrics().Flush.AsIngestCount, "a table reached over an entry in memory")
			for owner := range strings.SplitSeq(stretchOwners, "") {
				want := []int{1, 2, 3}
				if !strings.Contains(test.inMemory, owner) {
					want = want[1:]
				}
				requireInboxes(t, db, owner, want...)
			}
		})
	}
}

// A large push leaves to the log what needs more records than its entries. The next push finds everything in its slot.
func TestStretchWithRecords(t *testing.T) {
	t.Parallel()
	db, tables := countTables(t)
	want := make(map[message.UserID][]bucket.Entry)
	push := func(n int, change func(pushes []bucket.Push)) {
		var pushes []bucket.Push
		for owner := range strings.SplitSeq(stretchOwners, "") {
			pushes = append(pushes, bucket.Push{Owner: message.UserID(owner), Sequence: 1, Entries: entriesOf(n, 1)})
		}
		change(pushes)
		_, err := db.Inbox().Push(t.Context(), pushes)
		require.NoError(t, err)
		for _, p := range pushes {
			want[p.Owner] = append(want[p.Owner], p.Entries...)
		}
	}
	push(20, func(pushes []bucket.Push) {
		for i := range pushes {
			pushes[i].Create, pushes[i].Floor = true, messagetest.ID(10)
		}
	})
	push(30, func(pushes []bucket.Push) {
		pushes[3].Entries = entriesOf(5, 1)
		pushes[7].Entries = []bucket.Entry{{ID: messagetest.ID(30), Deleted: true}}
	})
	push(40, func([]bucket.Push) {})
	require.EqualValues(t, 1+1+3, tables.Load(), "the last push must have found two owners in memory")
	for owner, entries := range want {
		late, err := bucket.ReadSection(t.Context(), db.Inbox(), bucket.Section{Owner: owner, Late: messagetest.ID(6)}, bucket.AllFields)
		require.NoError(t, err)
		require.Equal(t, owner == "h", len(late) > 0, owner)
		d, err := bucket.ReadDeletions(t.Context(), db.Inbox(), owner, 0)
		require.NoError(t, err)
		require.Equal(t, owner == "p", d.Total == 1 && len(d.Recent) == 1, owner)
		buckets, err := bucket.ReadSection(t.Context(), db.Inbox(), bucket.Section{Owner: owner, High: math.MaxUint32}, bucket.AllFields)
		require.NoError(t, err)
		require.Equal(t, entries, buckets[0].Entries, owner)
	}
}

// Large bodies go into tables although they are fewer, if they are for many inboxes.
func TestLargeBodiesAreTables(t *testing.T) {
	t.Parallel()
	for owners, want := range map[int]int32{pebblestore.BulkPushes: 1, pebblestore.BulkPushes - 1: 0} {
		var tables atomic.Int32
		opts := options(t, watchedDisk{vfs.NewMem(), func(call, name string) error {
			if call == "create" && path.Ext(name) == ".table" {
				tables.Add(1)
			}
			return nil
		}})
		opts.Partitions, opts.TableEntries = 1, 2*owners
		db, err := pebblestore.Open(t.Context(), "store", opts)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		entry := bucket.EntryOf(messagetest.Message(1, "ada"))
		entry.Body = strings.Repeat("x", 1<<10)
		var pushes []bucket.Push
		for owner := range owners {
			pushes = append(pushes, bucket.Push{Owner: message.UserID(strconv.Itoa(owner)), Entries: []bucket.Entry{entry}})
		}
		_, err = db.Inbox().Push(t.Context(), pushes)
		require.NoError(t, err)
		require.Equal(t, want, tables.Load(), owners)
	}
}
