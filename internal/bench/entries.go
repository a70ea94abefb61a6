package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fanmail/fanmail/internal/mongostore/mongoraw"
	"github.com/fanmail/fanmail/internal/pebblestore/pebbleraw"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// ofEntries is the name of the other layout.
const ofEntries = "a record for each entry"

// entriesLayout is the other layout. It has a record for each entry, and an index for each of some attributes.
type entriesLayout struct {
	// insert inserts entries for each owner.
	insert func(ctx context.Context, owners []message.UserID, entries []bucket.Entry) error
	// find returns the newest entries below an id that meet all conditions, newest first.
	find func(ctx context.Context, owner message.UserID, conditions []attribute.Condition, below message.ID, limit int) ([]message.ID, error)
	// sizes returns the sizes of the records, and of each index if that is asked for.
	sizes func(ctx context.Context, each bool) ([]Figure, error)
	close func(ctx context.Context) error
}

// openEntries opens the other layout, in a collection of the world's database or in a folder of its own. The caller must close it before the world.
func (w *world) openEntries(ctx context.Context, name string, all, indexed attribute.Set) (entriesLayout, error) {
	if w.onMongoDB() {
		f, m := w.cfg.Fanout, w.cfg.MongoDB
		opts := mongoraw.Options{
			URI: string(m.URI), Database: m.Database, Operations: m.BulkOperations,
			Commands: min(m.Concurrency, max(1, f.BatchOwners/m.BulkOperations)),
		}
		var names []string
		for _, d := range indexed.All() {
			names = append(names, d.Name)
		}
		l, err := mongoraw.OpenEntries(ctx, opts, "entries_"+name, all, names)
		if err != nil {
			return entriesLayout{}, err
		}
		sizes := func(ctx context.Context, each bool) ([]Figure, error) {
			s, err := l.Sizes(ctx)
			return figuresOf(s, each), err
		}
		return entriesLayout{insert: l.Insert, find: l.Find, sizes: sizes, close: l.Close}, nil
	}
	dir, err := os.MkdirTemp(filepath.Dir(w.cfg.Data), "fanmail-bench-raw-")
	if err != nil {
		return entriesLayout{}, fmt.Errorf("make a folder: %w", err)
	}
	l, err := pebbleraw.OpenEntries(w.rawOptions(dir), indexed)
	if err != nil {
		return entriesLayout{}, errors.Join(err, os.RemoveAll(dir))
	}
	sizes := func(ctx context.Context, _ bool) ([]Figure, error) {
		records, index, err := l.Sizes(ctx)
		return []Figure{{"records", records / (1 << 20), "MiB"}, {"all indexes", index / (1 << 20), "MiB"}}, err
	}
	return entriesLayout{insert: l.Insert, find: l.Find, sizes: sizes, close: func(context.Context) error {
		return errors.Join(l.Close(), os.RemoveAll(dir))
	}}, nil
}
