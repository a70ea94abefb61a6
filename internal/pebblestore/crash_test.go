package pebblestore_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
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

// linkedAlone is a disk whose links exclude what holds the mutex. MemFS.Link takes its read lock twice, which waits for good if a clone begins between.
type linkedAlone struct {
	*vfs.MemFS
	mu *sync.Mutex
}

func (l linkedAlone) Link(from, to string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.MemFS.Link(from, to)
}

// TestCrashWhileAppending takes images of the disk while writers append the same messages to the same inboxes, so
// that each often finds what another is still waiting for. Another writer appends to these and many other inboxes at once, as tables. Each image holds
// what was acknowledged before it was taken, once, and is sound: no gaps, whatever of the unsynced happened to reach the disk.
func TestCrashWhileAppending(t *testing.T) {
	t.Parallel()
	for _, percent := range []int{0, 50, 100} {
		t.Run(fmt.Sprintf("with %d percent of the unsynced", percent), func(t *testing.T) {
			t.Parallel()
			files := vfs.NewCrashableMem()
			disk := linkedAlone{MemFS: files, mu: new(sync.Mutex)}
			opts := options(t, disk)
			opts.TableEntries = 2
			db, err := pebblestore.Open(t.Context(), "store", opts)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
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
			const large, largeOwners = 30, 64
			writers.Go(func() error {
				appender := bucket.NewAppender(db.Inbox(), db.Users())
				for n := messages + 1; n <= messages+large; n++ {
					if err := db.Engine().Flush(); err != nil { // an owner with entries in memory is not in a table
						return err
					}
					appends := make([]bucket.Append, largeOwners)
					for o := range appends {
						appends[o] = bucket.Append{Owner: crashOwner(o), Entries: []bucket.Entry{bucket.EntryOf(messagetest.Message(n, "bob"))}}
					}
					if _, err := appender.AppendLazily(t.Context(), appends); err != nil {
						return err
					}
				}
				return nil
			})
			rng := rand.New(rand.NewPCG(1, uint64(percent)))
			for range images {
				for range messages * crashOwners * crashWriters / (images + 1) {
					<-progress
				}
				before := acks.copy()
				disk.mu.Lock()
				image := files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
				disk.mu.Unlock()
				requireSurvived(t, image, before)
			}
			require.NoError(t, writers.Wait())
			requireSurvived(t, crash(files), acks.copy())
		})
	}
}

// requireSurvived opens the data after a crash, and requires that it is sound and holds every acknowledged write.
func requireSurvived(t *testing.T, image *vfs.MemFS, acknowledged map[message.UserID][]message.ID) {
	t.Helper()
	db, err := pebblestore.Open(t.Context(), "store", options(t, image))
	require.NoError(t, err)
	for owner, ids := range acknowledged {
		buckets, err := bucket.ReadSection(t.Context(), db.Inbox(), bucket.Section{Owner: owner, High: math.MaxUint32}, bucket.AllFields)
		require.NoError(t, err)
		held := make(map[message.ID]int)
		for i, b := range buckets {
			require.EqualValues(t, len(buckets)-1-i, b.Sequence, "a bucket is missing")
			if i > 0 {
				require.Len(t, b.Entries, bucket.Capacity, "a bucket below the head has room")
			}
			for _, e := range b.Entries {
				require.NotZero(t, e.ID, "a slot has no entry")
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
	d, err := bucket.ReadDeletions(t.Context(), inbox, "bob", 0)
	require.NoError(t, err)
	require.Equal(t, bucket.Deletions{Total: 1, Ever: 1, Recent: []bucket.Tombstone{{Slot: 1, Position: 1, ID: entries[1].ID}}}, d)
	buckets, err := bucket.ReadSection(t.Context(), inbox, bucket.Section{Owner: "bob"}, bucket.AllFields)
	require.NoError(t, err)
	require.Equal(t, []bucket.Entry{entries[0], {ID: entries[1].ID, Deleted: true}}, buckets[0].Entries)
	require.Equal(t, entries[1].ID, buckets[0].Last)
}

// TestCrashAfterLazyAppends takes images of the disk while inboxes are rebuilt as rehydrations do it: messages are appended,
// then the state says so, and nobody waits for a sync. In each image a state says so only where the messages are there; a
// state that was recorded durably says so in each image that was taken later.
func TestCrashAfterLazyAppends(t *testing.T) {
	t.Parallel()
	for _, percent := range []int{0, 50, 100} {
		for _, lazy := range []bool{true, false} {
			t.Run(fmt.Sprintf("with %d percent of the unsynced, lazy=%v", percent, lazy), func(t *testing.T) {
				t.Parallel()
				files := vfs.NewCrashableMem()
				db := open(t, files)
				appender := bucket.NewAppender(db.Inbox(), db.Users())
				rng := rand.New(rand.NewPCG(2, uint64(percent)))
				const owners, messages = 60, 70
				found := 0
				for n := range owners {
					owner := crashOwner(n)
					entries := make([]bucket.Entry, messages)
					for i := range entries {
						entries[i] = bucket.EntryOf(messagetest.Message(i+1, "ada"))
					}
					done, err := appender.AppendLazily(t.Context(), []bucket.Append{{Owner: owner, Entries: entries}})
					require.NoError(t, err)
					require.Equal(t, messages, done[0].New)
					said := userstate.State{User: owner, LastViewed: time.UnixMilli(1).UTC(), Recovered: messages}
					stepped, err := db.Users().Step(t.Context(), []userstate.Step{{From: userstate.State{User: owner}, To: said, Lazy: lazy}})
					require.NoError(t, err)
					require.True(t, stepped[0].Applied)
					if n%10 == 9 {
						image := files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
						found = requireDoneAsSaid(t, image, n+1, messages)
						if !lazy {
							require.Equal(t, n+1, found)
						}
					}
				}
				if percent == 100 {
					require.NotZero(t, found, "nothing is lost but what is still in the process")
				}
			})
		}
	}
}

// requireDoneAsSaid opens what a crash left, and demands that the inboxes hold what the owners' states say was recovered. It
// returns how many states say so.
func requireDoneAsSaid(t *testing.T, image *vfs.MemFS, owners, messages int) (said int) {
	t.Helper()
	db, err := pebblestore.Open(t.Context(), "store", options(t, image))
	require.NoError(t, err)
	for n := range owners {
		owner := crashOwner(n)
		st, err := userstate.Get(t.Context(), db.Users(), owner)
		require.NoError(t, err)
		if st.Recovered == 0 {
			continue
		}
		said++
		buckets, err := bucket.ReadSection(t.Context(), db.Inbox(), bucket.Section{Owner: owner, High: math.MaxUint32}, bucket.AllFields)
		require.NoError(t, err)
		require.Len(t, buckets, 2)
		require.Len(t, buckets[0].Entries, messages-bucket.Capacity)
	}
	require.NoError(t, db.Close())
	return said
}
