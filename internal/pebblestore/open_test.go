package pebblestore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before func(t *testing.T, dir string)
		change func(*pebblestore.Options)
		want   error
		says   string
	}{
		"a folder that is open": {
			before: func(t *testing.T, dir string) {
				t.Helper()
				db, err := pebblestore.Open(t.Context(), dir, options(t, nil))
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, db.Close()) })
			},
			want: pebblestore.ErrLocked, says: "is in use by another process",
		},
		"another number of partitions": {
			before: create, change: func(o *pebblestore.Options) { o.Partitions = 8 },
			want: pebblestore.ErrPartitions, says: "created with 16, 8 are configured: configure 16",
		},
		"a later format": {
			before: format(2),
			want:   pebblestore.ErrFormat, says: "made by another version of Fanmail: a record in format has format 2, this version reads format 1: run the version that wrote it, or choose another folder",
		},
		"no recorded settings, as before format 1": {
			before: format(1, 0xa2, 1, 16, 2, 0x18, 50),
			want:   pebblestore.ErrFormat, says: "made by another version of Fanmail: a record in format has no recorded settings",
		},
		"buckets of another size": {
			before: format(1, 0xa3, 1, 16, 2, 10, 4, 0x81, 0xa0),
			want:   pebblestore.ErrCapacity, says: "created with buckets of 10 slots, inbox.bucket_size is 50: configure 10",
		},
		"a damaged format": {
			before: format(1, 0xa2),
			want:   pebblestore.ErrCorrupt, says: "format",
		},
		"a folder with other files": {
			before: func(t *testing.T, dir string) {
				t.Helper()
				require.NoError(t, os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600))
			},
			want: pebblestore.ErrForeign, says: "thesis.tex",
		},
		"a database of somebody else": {
			before: func(t *testing.T, dir string) {
				t.Helper()
				db, err := pebble.Open(dir, &pebble.Options{})
				require.NoError(t, err)
				require.NoError(t, db.Set([]byte("key"), nil, pebble.Sync))
				require.NoError(t, db.Close())
			},
			want: pebblestore.ErrForeign, says: "did not create",
		},
		"no clock": {
			change: func(o *pebblestore.Options) { o.Now = nil }, says: "Now is required",
		},
		"too many partitions": {
			change: func(o *pebblestore.Options) { o.Partitions = 257 }, says: "257 is out of range",
		},
		"a negative size": {
			change: func(o *pebblestore.Options) { o.CacheBytes = -1 }, says: "must not be negative",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if test.before != nil {
				test.before(t, dir)
			}
			opts := options(t, nil)
			if test.change != nil {
				test.change(&opts)
			}
			_, err := pebblestore.Open(t.Context(), dir, opts)
			require.ErrorContains(t, err, test.says)
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
			}
		})
	}
}

func create(t *testing.T, dir string) {
	t.Helper()
	db, err := pebblestore.Open(t.Context(), dir, options(t, nil))
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// format returns what creates a store with that format record.
func format(record ...byte) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		db, err := pebblestore.Open(t.Context(), dir, options(t, nil))
		require.NoError(t, err)
		require.NoError(t, db.Engine().Set([]byte("!"), record, pebble.Sync))
		require.NoError(t, db.Close())
	}
}

// TestOtherVersionsStayAsTheyAre opens a folder that a version before format 1 wrote. Its format record began with a byte from 2 to 6.
func TestOtherVersionsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	format(6, 0xa0)(t, dir)
	files := func() map[string]string {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		all := make(map[string]string)
		for _, e := range entries {
			content, err := os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			all[e.Name()] = string(content)
		}
		return all
	}
	before := files()
	_, err := pebblestore.Open(t.Context(), dir, options(t, nil))
	require.ErrorIs(t, err, pebblestore.ErrFormat)
	require.ErrorContains(t, err, "made by another version of Fanmail: a record in format has format 6, this version reads format 1")
	require.Equal(t, before, files())
}

func TestOpenAfterRefusal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	create(t, dir)
	opts := options(t, nil)
	opts.Partitions = 8
	_, err := pebblestore.Open(t.Context(), dir, opts)
	require.ErrorIs(t, err, pebblestore.ErrPartitions)
	create(t, dir) // a refusal leaves nothing locked
}

func TestOpenWhereNoFolderCanBe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := pebblestore.Open(t.Context(), file, options(t, nil))
	require.ErrorContains(t, err, "folder of the store")
	require.NotErrorIs(t, err, pebblestore.ErrLocked)
}

// TestUnknownVersions makes sure that a record of a later release is refused by name rather than misread.
func TestUnknownVersions(t *testing.T) {
	t.Parallel()
	db := open(t, vfs.NewMem())
	ctx := t.Context()
	_, err := db.Messages().Insert(ctx, []message.Message{messagetest.Message(1, "ada")}, messagetest.AnyTime)
	require.NoError(t, err)
	st := userstate.State{User: "bob", LastViewed: messagetest.Epoch, Sweep: &userstate.Sweep{From: messagetest.Epoch}}
	_, err = db.Users().Step(ctx, []userstate.Step{{From: userstate.State{User: "bob"}, To: st}})
	require.NoError(t, err)
	_, err = db.Edges().Follow(ctx, []follow.Pair{{Follower: "bob", Followee: "ada"}}, messagetest.Epoch)
	require.NoError(t, err)
	_, err = db.Inbox().Push(ctx, []bucket.Push{{Owner: "bob", Entries: []bucket.Entry{bucket.EntryOf(messagetest.Message(1, "ada"))}}})
	require.NoError(t, err)
	raiseVersions(t, db)

	_, err = db.Messages().Get(ctx, message.Ref{ID: messagetest.ID(1)})
	require.ErrorIs(t, err, pebblestore.ErrFormat)
	require.ErrorContains(t, err, "in messages")
	_, err = userstate.Get(ctx, db.Users(), "bob")
	require.ErrorIs(t, err, pebblestore.ErrFormat)
	require.ErrorContains(t, err, "in users")
	_, err = db.Users().Due(ctx, userstate.Dead{Before: messagetest.Epoch}, 1)
	require.ErrorIs(t, err, pebblestore.ErrFormat)
	require.ErrorContains(t, err, "state of bob")
	_, err = db.Users().Step(ctx, []userstate.Step{{From: st, To: st}})
	require.ErrorIs(t, err, pebblestore.ErrFormat)
	_, err = db.Users().List(ctx, partition.Of("bob", partitions), "", 1)
	require.ErrorIs(t, err, pebblestore.ErrFormat)
	_, err = db.Messages().CountToFollowers(ctx, []message.Range{{From: "ada", Before: message.MaxID}})
	require.ErrorIs(t, err, pebblestore.ErrFormat)
	require.ErrorContains(t, err, "in authors")
	_, err = db.Edges().Following(ctx, "bob", "", 1)
	require.ErrorIs(t, err, pebblestore.ErrFormat)
	require.ErrorContains(t, err, "in following")
	_, err = bucket.ReadSection(ctx, db.Inbox(), bucket.Section{Owner: "bob"}, bucket.AllFields)
	require.ErrorIs(t, err, pebblestore.ErrFormat)
	require.ErrorContains(t, err, "in inbox")
}

// raiseVersions gives every value that there is a version that is not known.
func raiseVersions(t *testing.T, db *pebblestore.DB) {
	t.Helper()
	it, err := db.Engine().NewIter(nil)
	require.NoError(t, err)
	for found := it.First(); found; found = it.Next() {
		value, err := it.ValueAndErr()
		require.NoError(t, err)
		if len(value) > 0 {
			require.NoError(t, db.Engine().Set(it.Key(), append([]byte{9}, value[1:]...), pebble.NoSync))
		}
	}
	require.NoError(t, it.Close())
}

// Whoever names the wrong folder sees that it had no store.
func TestANewStoreIsLogged(t *testing.T) {
	t.Parallel()
	files, logged := vfs.NewMem(), &telemetrytest.Buffer{}
	for range 2 {
		opts := options(t, files)
		opts.Logger = zerolog.New(logged)
		db, err := pebblestore.Open(t.Context(), "store", opts)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		require.Equal(t, 1, strings.Count(logged.String(), `"store":"store","message":"created a new store: the data folder had none"`), logged.String())
	}
}
