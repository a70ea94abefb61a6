package pebblestore_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/message/messagetest"
)

// acknowledged collects what writers were told is done.
type acknowledged struct {
	mu   sync.Mutex
	done map[message.UserID][]message.ID
}

func (a *acknowledged) add(owner message.UserID, id message.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done[owner] = append(a.done[owner], id)
}

func (a *acknowledged) copy() map[message.UserID][]message.ID {
	a.mu.Lock()
	defer a.mu.Unlock()
	copied := make(map[message.UserID][]message.ID)
	for owner, ids := range a.done {
		copied[owner] = append([]message.ID(nil), ids...)
	}
	return copied
}

const (
	crashOwners  = 3
	crashWriters = 4
)

func crashOwner(n int) message.UserID { return message.UserID(fmt.Sprintf("owner-%d", n)) }

// TestCrashWhileAppending takes images of the disk while writers append the same messages to the same inboxes, so
// that each often finds what another is still waiting for. Each image holds what was acknowledged before it was
// taken, once, and is sound: no gaps, whatever of the unsynced happened to reach the disk.
func TestCrashWhileAppending(t *testing.T) {
	t.Parallel()
	for _, percent := range []int{0, 50, 100} {
		t.Run(fmt.Sprintf("with %d percent of the unsynced", percent), func(t *testing.T) {
			t.Parallel()
			files := vfs.NewCrashableMem()
			db := open(t, files)
			acks := &acknowledged{done: make(map[message.UserID][]message.ID)}
			const messages, images = 120, 6
			var writers errgroup.Group
			progress := make(chan struct{}, messages*crashOwners*crashWriters)
			for range crashWriters {
				writers.Go(func() error {
					appender := bucket.NewAppender(db.Inbox(), db.Users())
					for n := 1; n <= messages; n++ {
						for o := range crashOwners {
							owner := crashOwner(o)
							entry := bucket.EntryOf(messagetest.Message(n, "ada"))
							done, err := appender.Append(t.Context(), []bucket.Append{{Owner: owner, Entries: []bucket.Entry{entry}}})
							if err != nil {
								return err
							}
							if done[0].Err != nil {
								return done[0].Err
							}
							acks.add(owner, entry.ID)
							progress <- struct{}{}
						}
					}
					return nil
				})
			}
			rng := rand.New(rand.NewPCG(1, uint64(percent)))
			for range images {
				for range messages * crashOwners * crashWriters / (images + 1) {
					<-progress
				}
				before := acks.copy()
				image := files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
				requireSurvived(t, image, before)
			}
			require.NoError(t, writers.Wait())
			requireSurvived(t, crash(files), acks.copy())
		})
	}
}

// requireSurvived opens what a crash left, and demands that it is sound and holds what was acknowledged.
func requireSurvived(t *testing.T, image *vfs.MemFS, acknowledged map[message.UserID][]message.ID) {
	t.Helper()
	db, err := pebblestore.Open(t.Context(), "store", options(t, image))
	require.NoError(t, err)
	for owner, ids := range acknowledged {
		buckets, err := db.Inbox().Range(t.Context(), owner, 0, math.MaxUint32, math.MaxInt)
		require.NoError(t, err)
		held := make(map[message.ID]int)
		for i, b := range buckets {
			require.EqualValues(t, len(buckets)-1-i, b.Sequence, "a bucket is missing")
			if i > 0 {
				require.Len(t, b.Entries, bucket.Capacity, "a bucket below the head has room")
			}
			for _, e := range b.Entries {
				held[e.ID]++
			}
		}
		for _, id := range ids {
			require.Equal(t, 1, held[id], "%s was acknowledged", id)
		}
		for id, times := range held {
			require.Equal(t, 1, times, "%s is there more than once", id)
		}
	}
	require.NoError(t, db.Close())
}

// TestCrashAfterDelete makes sure that a tombstone and its count are there or not together, and survive.
func TestCrashAfterDelete(t *testing.T) {
	t.Parallel()
	files := vfs.NewCrashableMem()
	inbox := open(t, files).Inbox()
	entries := []bucket.Entry{bucket.EntryOf(messagetest.Message(1, "ada")), bucket.EntryOf(messagetest.Message(2, "ada"))}
	outcomes, err := inbox.Push(t.Context(), []bucket.Push{{Owner: "bob", Entries: entries}})
	require.NoError(t, err)
	require.Equal(t, []bucket.Outcome{{Applied: true}}, outcomes)
	require.NoError(t, inbox.Delete(t.Context(), "bob", 0, entries[1].ID))
	require.NoError(t, inbox.Delete(t.Context(), "bob", 0, entries[1].ID), "it is idempotent")

	inbox = open(t, crash(files)).Inbox()
	d, err := inbox.Deletions(t.Context(), "bob", 0)
	require.NoError(t, err)
	require.Equal(t, bucket.Deletions{Total: 1, Recent: []bucket.Tombstone{{Slot: 1, ID: entries[1].ID}}}, d)
	buckets, err := inbox.Range(t.Context(), "bob", 0, 0, 1)
	require.NoError(t, err)
	require.Equal(t, []bucket.Entry{entries[0], {ID: entries[1].ID, Deleted: true}}, buckets[0].Entries)
	require.Equal(t, entries[1].ID, buckets[0].Last)
}
