package pebblestore_test

import (
	"fmt"
	"io"
	"path"
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
		for _, percent := range []int{20, 50} {
			t.Run(fmt.Sprintf("%d restarts, at %d percent", restarts, percent), func(t *testing.T) {
				t.Parallel()
				files := vfs.NewCrashableMem()
				for range restarts {
					db, err := pebblestore.Open(t.Context(), "store", options(t, files))
					require.NoError(t, err)
					require.NoError(t, db.Close())
				}
				insertLarge(t, open(t, files), 90) // one log has all of them
				image := crash(files)
				size, at := flipBit(t, image, "*.log", percent)
				require.Less(t, at, size-32<<10, "damage at the end looks like a torn write")
				_, err := pebblestore.Open(t.Context(), "store", options(t, image))
				require.ErrorContains(t, err, "a file is damaged: check the disk, and restore a backup")
			})
		}
	}
}

// A store whose manifest is damaged is refused, although no file is missing that it would name without what follows the damage.
func TestDamagedManifestIsRefused(t *testing.T) {
	t.Parallel()
	files := vfs.NewCrashableMem()
	db, err := pebblestore.Open(t.Context(), "store", pebblestore.WithoutCompactions(options(t, files)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for range 4 {
		insertLarge(t, db, 10)
		require.NoError(t, db.Engine().Flush())
	}
	for _, percent := range []int{10, 30, 50, 70} {
		image := crash(files)
		flipBit(t, image, "MANIFEST-*", percent)
		_, err = pebblestore.Open(t.Context(), "store", options(t, image))
		require.ErrorContains(t, err, "a file is damaged: check the disk, and restore a backup", "at %d percent", percent)
	}
	open(t, crash(files))
}

func insertLarge(t *testing.T, db *pebblestore.DB, messages int) {
	t.Helper()
	for n := range messages {
		m := messagetest.Message(n+1, "ada")
		m.Body = strings.Repeat("x", 2<<10)
		_, err := db.Messages().Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
		require.NoError(t, err)
	}
}

// flipBit flips one bit of the newest file whose name matches a pattern, at a percentage of its size.
func flipBit(t *testing.T, files vfs.FS, pattern string, percent int) (size, at int) {
	t.Helper()
	names, err := files.List("store")
	require.NoError(t, err)
	names = slices.DeleteFunc(names, func(name string) bool {
		is, err := path.Match(pattern, name)
		require.NoError(t, err)
		return !is
	})
	name := files.PathJoin("store", slices.Max(names))
	f, err := files.Open(name)
	require.NoError(t, err)
	content, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	size, at = len(content), len(content)*percent/100
	content[at] ^= 1
	f, err = files.Create(name, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(content)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return size, at
}
