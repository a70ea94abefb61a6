package pebblestore_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// slowDisk is a file system on which syncs of the log wait while the gate is locked.
type slowDisk struct {
	*vfs.MemFS
	gate chan struct{} // holds one token while syncs may go on
}

func newSlowDisk() *slowDisk {
	d := &slowDisk{MemFS: vfs.NewCrashableMem(), gate: make(chan struct{}, 1)}
	d.release()
	return d
}

func (d *slowDisk) stall()   { <-d.gate }
func (d *slowDisk) release() { d.gate <- struct{}{} }

func (d *slowDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.MemFS.Create(name, category)
	return d.slow(name, f), err
}

func (d *slowDisk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.MemFS.ReuseForWrite(oldname, newname, category)
	return d.slow(newname, f), err
}

func (d *slowDisk) slow(name string, f vfs.File) vfs.File {
	if f == nil || !strings.HasSuffix(name, ".log") {
		return f
	}
	return slowFile{File: f, disk: d}
}

type slowFile struct {
	vfs.File
	disk *slowDisk
}

func (f slowFile) Sync() error {
	f.disk.stall()
	defer f.disk.release()
	return f.File.Sync()
}

func (f slowFile) SyncData() error { return f.Sync() }

// TestFoundInPlaceIsSynced lets a write wait for the disk, and makes a call that finds what that has written. Once
// such a call has returned, what it found must survive a crash: its caller goes on from there.
func TestFoundInPlaceIsSynced(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := messagetest.Message(1, "ada")
	tests := map[string]struct {
		write func(ctx context.Context, db *pebblestore.DB) error
		there func(db *pebblestore.DB) bool
	}{
		"an entry is appended again": {
			write: func(ctx context.Context, db *pebblestore.DB) error {
				entries := []bucket.Entry{bucket.EntryOf(m)}
				_, err := bucket.NewAppender(db.Inbox(), db.Users()).Append(ctx, []bucket.Append{{Owner: "bob", Entries: entries}})
				return err
			},
			there: func(db *pebblestore.DB) bool {
				buckets, err := bucket.ReadSection(ctx, db.Inbox(), bucket.Section{Owner: "bob"}, bucket.AllFields)
				return err == nil && len(buckets) == 1
			},
		},
		"a message is inserted again": {
			write: func(ctx context.Context, db *pebblestore.DB) error {
				_, err := db.Messages().Insert(ctx, []message.Message{m}, messagetest.AnyTime)
				return err
			},
			there: func(db *pebblestore.DB) bool {
				_, err := db.Messages().Get(ctx, m.Ref())
				return err == nil
			},
		},
		"a message is read": {
			write: func(ctx context.Context, db *pebblestore.DB) error {
				_, err := db.Messages().Get(ctx, m.Ref())
				if errors.Is(err, message.ErrNotFound) {
					_, err = db.Messages().Insert(ctx, []message.Message{m}, messagetest.AnyTime)
				}
				return err
			},
			there: func(db *pebblestore.DB) bool {
				_, err := db.Messages().Get(ctx, m.Ref())
				return err == nil
			},
		},
		"a key is reserved": {
			write: func(ctx context.Context, db *pebblestore.DB) error {
				k := message.Key{From: "ada", Key: "once", ID: m.ID, Expires: messagetest.Epoch.AddDate(1, 0, 0)}
				_, err := db.Keys().Reserve(ctx, k, messagetest.Epoch)
				return err
			},
			there: func(db *pebblestore.DB) bool {
				n, err := db.Keys().Forget(ctx, messagetest.Epoch.AddDate(2, 0, 0), 1)
				return err == nil && n == 1
			},
		},
		"an edge is open": {
			write: func(ctx context.Context, db *pebblestore.DB) error {
				_, err := db.Edges().Follow(ctx, []follow.Pair{{Follower: "bob", Followee: "ada"}}, messagetest.Epoch)
				return err
			},
			there: func(db *pebblestore.DB) bool {
				edges, err := db.Edges().Following(ctx, "bob", "", 1)
				return err == nil && len(edges) == 1
			},
		},
		"a user was seen": {
			write: func(ctx context.Context, db *pebblestore.DB) error {
				return storetest.See(ctx, db.Users(), messagetest.Epoch, time.Hour, "bob")
			},
			there: func(db *pebblestore.DB) bool {
				st, err := userstate.Get(ctx, db.Users(), "bob")
				return err == nil && st.Known()
			},
		},
		"a step is refused": {
			write: func(ctx context.Context, db *pebblestore.DB) error {
				st := userstate.State{User: "bob", LastViewed: messagetest.Epoch, Sweep: &userstate.Sweep{}}
				_, err := db.Users().Step(ctx, []userstate.Step{{From: userstate.State{User: "bob"}, To: st}})
				return err
			},
			there: func(db *pebblestore.DB) bool {
				due, err := userstate.States(db.Users().Due(ctx, userstate.Dead{Before: messagetest.Epoch}, 1))
				return err == nil && len(due) == 1
			},
		},
		"a fan-out is planned": {
			write: func(ctx context.Context, db *pebblestore.DB) error {
				_, err := db.Progress().Plan(ctx, m.ID, "medium", []int{1}, messagetest.Epoch)
				return err
			},
			there: func(db *pebblestore.DB) bool {
				_, err := db.Progress().Get(ctx, m.ID)
				return err == nil
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := newSlowDisk()
			db := open(t, disk)
			disk.stall()
			release := sync.OnceFunc(disk.release)
			defer release() // closing the store needs it too
			written, found := make(chan error, 1), make(chan error, 1)
			logged := logBytes(db)
			go func() { written <- test.write(t.Context(), db) }()
			waitUntil(func() bool { return logBytes(db) > logged })
			logged = logBytes(db)
			go func() { found <- test.write(t.Context(), db) }()
			waitUntil(func() bool { return len(found) > 0 || logBytes(db) > logged })
			if len(found) == 0 { // it waits for the disk, as it should
				release()
			}
			require.NoError(t, <-found)
			require.True(t, test.there(open(t, crash(disk.MemFS))), "what was found did not survive")
			release()
			require.NoError(t, <-written)
		})
	}
}

// A store is healthy if the disk syncs. It is asked once in a while.
func TestHealthy(t *testing.T) {
	t.Parallel()
	disk := newSlowDisk()
	db := open(t, disk)
	disk.stall()
	release := sync.OnceFunc(disk.release)
	defer release() // closing the store needs it too
	ctx, cancel := context.WithCancel(t.Context())
	logged, healthy := logBytes(db), make(chan error, 1)
	go func() { healthy <- db.Healthy(ctx) }()
	waitUntil(func() bool { return logBytes(db) > logged })
	cancel()
	require.ErrorIs(t, <-healthy, context.Canceled)
	release()
	require.NoError(t, db.Healthy(t.Context()))
	logged = logBytes(db)
	require.NoError(t, db.Healthy(t.Context()))
	require.Equal(t, logged, logBytes(db))
	require.NoError(t, db.Close())
	require.ErrorIs(t, db.Healthy(t.Context()), pebblestore.ErrClosed)
}

// logBytes returns how much has been handed to the log.
func logBytes(db *pebblestore.DB) uint64 { return db.Engine().Metrics().WAL.BytesIn }

func waitUntil(is func() bool) {
	for !is() {
		runtime.Gosched()
	}
}
