package pebblestore_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

// A store whose process was killed, and one bit of whose log has flipped, is refused: also the first log of a new store, and the first log
// after a restart.
func TestDamagedLogIsRefused(t *testing.T) {
	t.Parallel()
	for _, restarts := range []int{0, 1} {
		for _, percent := range []int64{20, 50} {
			t.Run(fmt.Sprintf("%d restarts, at %d percent", restarts, percent), func(t *testing.T) {
				t.Parallel()
				files := vfs.NewCrashableMem()
				for range restarts {
					db, err := pebblestore.Open(t.Context(), "store", options(t, files))
					require.NoError(t, err)
					require.NoError(t, db.Close())
				}
				db := open(t, files)
				for n := range 90 { // one log has all of them
					m := messagetest.Message(n+1, "ada")
					m.Body = strings.Repeat("x", 2<<10)
					_, err := db.Messages().Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
					require.NoError(t, err)
				}
				image := crash(files)
				flipBit(t, image, percent)
				_, err := pebblestore.Open(t.Context(), "store", options(t, image))
				require.ErrorContains(t, err, "a file is damaged: check the disk, and restore a backup")
			})
		}
	}
}

// flipBit flips one bit of the newest log, at a percentage of its size.
func flipBit(t *testing.T, files vfs.FS, percent int64) {
	t.Helper()
	names, err := files.List("store")
	require.NoError(t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
	name := files.PathJoin("store", slices.Max(names))
	f, err := files.Open(name)
	require.NoError(t, err)
	var content bytes.Buffer
	_, err = io.Copy(&content, f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	at := int64(content.Len()) * percent / 100
	require.Less(t, at, int64(content.Len()-32<<10), "damage at the end looks like a torn write")
	content.Bytes()[at] ^= 1
	f, err = files.Create(name, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(content.Bytes())
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}
