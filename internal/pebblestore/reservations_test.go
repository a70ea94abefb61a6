package pebblestore_test

import (
	"context"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// reserve begins a large push of the first message to owners of a new store. Its table waits for the disk until release is called, which demands that
// the push then ends.
func reserve(t *testing.T, owners string) (db *pebblestore.DB, release func()) {
	t.Helper()
	var first sync.Once
	reached, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	db = watched(t, vfs.NewMem(), "store", func(call string) error {
		if call == "sync.table" {
			first.Do(func() { close(reached); <-goOn })
		}
		return nil
	})
	open := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(open) // closing the store needs it too
	go func() { done <- pushTo(t, db, 1, owners) }()
	<-reached
	return db, func() { t.Helper(); open(); requireEnds(t, done) }
}

// waits begins a push that has to wait for a reservation. No other call has waited for that.
func waits(t *testing.T, db *pebblestore.DB, n int, owners string) (done chan error) {
	t.Helper()
	done = make(chan error, 1)
	go func() { done <- pushTo(t, db, n, owners) }()
	waitUntil(func() bool { return len(done) > 0 || db.AwaitsReservation() })
	require.Empty(t, done, "it must wait")
	return done
}

func requireEnds(t *testing.T, done chan error) {
	t.Helper()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("it waits without end")
	}
}

// While a table is synced, what changes an inbox in it waits, and what changes another one does not, although it may share a lock.
func TestReservation(t *testing.T) {
	t.Parallel()
	db, release := reserve(t, "ci")
	require.Equal(t, db.LockOf("c"), db.LockOf("g"))
	waiting := waits(t, db, 2, "c")
	for name, change := range map[string]func(ctx context.Context) error{
		"push": func(ctx context.Context) error {
			_, err := db.Inbox().Push(ctx, []bucket.Push{{Owner: "i", Entries: entriesOf(3, 1)}})
			return err
		},
		"delete": func(ctx context.Context) error { return db.Inbox().Delete(ctx, "i", 0, messagetest.ID(1)) },
		"empty": func(ctx context.Context) error {
			_, err := db.Inbox().Empty(ctx, "i", 0, 0, messagetest.ID(1))
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		require.ErrorIs(t, change(ctx), context.DeadlineExceeded, name)
		cancel()
	}
	require.NoError(t, pushTo(t, db, 4, "g"))
	requireInboxes(t, db, "g", 4)
	release()
	requireEnds(t, waiting)
	require.NoError(t, pushTo(t, db, 5, "cgi"))
	requireInboxes(t, db, "c", 1, 2, 5)
	requireInboxes(t, db, "g", 4, 5)
	requireInboxes(t, db, "i", 1, 5)
	require.NoError(t, db.Engine().Flush())
	require.EqualValues(t, 1, db.Engine().Metrics().Flush.AsIngestCount, "the table must have reached over the push beside it")
}

// Large pushes that share an owner end, whichever is the first. One that waits has no owner.
func TestReservationsThatShareAnOwner(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ first, second, other string }{{"ab", "bc", "c"}, {"bc", "ab", "a"}} {
		db, release := reserve(t, test.first)
		waiting := waits(t, db, 2, test.second)
		require.NoError(t, pushTo(t, db, 3, test.other))
		release()
		requireEnds(t, waiting)
		requireInboxes(t, db, "b", 1, 2)
		requireInboxes(t, db, test.other, 3, 2)
	}
}

// A large push whose context has ended makes no more tables.
func TestLargePushEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var tables atomic.Int32
	opts := options(t, watchedDisk{vfs.NewMem(), func(call, name string) error {
		if call == "sync" && path.Ext(name) == ".table" {
			tables.Add(1)
			cancel()
		}
		return nil
	}})
	opts.Partitions, opts.TableEntries = 4, 2
	db, err := pebblestore.Open(t.Context(), "store", opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	var pushes []bucket.Push
	for owner := range 200 {
		pushes = append(pushes, bucket.Push{Owner: message.UserID(strconv.Itoa(owner)), Entries: entriesOf(1, 1)})
	}
	_, err = db.Inbox().Push(ctx, pushes)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, 1, tables.Load())
}

// Two pushes of a call to one inbox would get the same slot.
func TestOwnerTwiceInAPush(t *testing.T) {
	t.Parallel()
	db := watched(t, vfs.NewMem(), "store", func(string) error { return nil })
	_, err := db.Inbox().Push(t.Context(), []bucket.Push{{Owner: "b", Entries: entriesOf(2, 1)}, {Owner: "a", Entries: entriesOf(1, 1)}, {Owner: "b", Entries: entriesOf(3, 1)}})
	require.ErrorContains(t, err, `two pushes have the owner "b"`)
	requireInboxes(t, db, "ab")
}

// A reservation of an owner of a push is found, wherever they are in its list.
func TestReservationsOfNeighbors(t *testing.T) {
	t.Parallel()
	for reserved := range 1 << 5 {
		for push := range 1 << 5 {
			if reserved > 0 {
				require.Equal(t, reserved&push != 0, pebblestore.Meet(ownersOf(push), ownersOf(reserved)), "%b %b", push, reserved)
			}
		}
	}
}

// ownersOf returns an owner for each bit of a set.
func ownersOf(set int) (owners []message.UserID) {
	for bit := range 5 {
		if set>>bit&1 != 0 {
			owners = append(owners, message.UserID("abcde"[bit:bit+1]))
		}
	}
	return owners
}
