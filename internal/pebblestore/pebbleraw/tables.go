package pebbleraw

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Tables writes the records of Batches as sorted tables of up to 4,000, in the format of the embedded store, and not through the log. Two
// goroutines write and ingest one table after the other, each synced. It returns how many records it wrote a second.
func Tables(ctx context.Context, opts Options, n int) (rate float64, err error) {
	tuned := engine(opts)
	tuned.FormatMajorVersion = pebble.FormatTableFormatV6
	tuned.Levels[0].BlockSize = 32 << 10 // and so that of all levels
	tuned.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	tuned.EnsureDefaults()
	values := opts.values()
	return measure(opts.Dir, tuned, n, func(db *pebble.DB) error {
		format := tuned.MakeWriterOptions(0, db.TableFormat())
		return inOrder(n, 4000, func(first, last int) error {
			path := filepath.Join(opts.Dir, fmt.Sprintf("raw-%d", first))
			file, err := vfs.Default.Create(path, vfs.WriteCategoryUnspecified)
			if err != nil {
				return err
			}
			w := sstable.NewWriter(objstorageprovider.NewFileWritable(file), format)
			for i := first; i < last && err == nil; i++ {
				err = w.Set(key(i, 0), values[i%len(values)])
			}
			if err := errors.Join(err, w.Close()); err != nil {
				return err
			}
			return db.Ingest(ctx, []string{path})
		})
	})
}
