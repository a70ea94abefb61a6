// Package pebblelayouts keeps inboxes on Pebble in layouts that the embedded store's own is compared with. Each layout follows a recipe for a
// document database; a document is a value here, and a push rewrites the value.
package pebblelayouts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Names returns the names of the layouts.
func Names() []string {
	return []string{"on-read", "on-write", "counter", "open-bucket", "newest-n", "dated", "bucket-values", "buckets"}
}

// Options say where a layout is, and how large its parts are.
type Options struct {
	// Dir is a folder that is empty, or has the layout. Only one process at a time may open it.
	Dir string
	// CacheBytes and MemTableBytes are those of the embedded store.
	CacheBytes, MemTableBytes int64
	// BucketSize is the number of messages in a full bucket, and Newest how many messages the layout newest-n keeps.
	BucketSize, Newest int
	// Now and Logger are those of the embedded store.
	Now    func() time.Time `json:"-"`
	Logger zerolog.Logger   `json:"-"`
}

// Layout keeps messages for recipients. One Send may run at a time, and any number of Reads.
type Layout interface {
	// Send gives a message to recipients, each named once, and returns the number of records that it wrote. They survive a crash.
	Send(ctx context.Context, e bucket.Entry, recipients []message.UserID) (records int, err error)
	// Fill gives messages, ascending by id, to recipients whose inboxes are empty. The records are then as if each message had been sent to all, and
	// each record is written once.
	Fill(ctx context.Context, entries []bucket.Entry, recipients []message.UserID) error
	// Read returns the newest n messages of a recipient, newest first, and the number of records that it has read.
	Read(ctx context.Context, recipient message.UserID, n int) (ids []message.ID, records int, err error)
	// Written returns the bytes that were written to the log, by flushes and by compactions since Open.
	Written() (log, flushed, compacted uint64)
	// Close closes the layout. Its files stay.
	Close(ctx context.Context) error
}

// Open opens a layout. The caller must close it.
func Open(ctx context.Context, name string, opts Options) (Layout, error) {
	if name == "buckets" {
		return openBuckets(ctx, opts)
	}
	l := &layout{opts: opts}
	l.push, l.read = l.intoBucket, l.readBuckets
	switch name {
	case "on-read":
		l.read = l.readIndex
	case "on-write":
		l.push, l.read = l.copyFor, l.readCopies
	case "counter":
		l.counted, l.place = true, l.byCount
	case "open-bucket":
		l.place = l.open
	case "newest-n":
		l.place, l.keep = func(message.UserID, bucket.Entry) (uint64, error) { return 0, nil }, opts.Newest
	case "dated":
		l.place, l.expires = byDay, true
	case "bucket-values":
		l.push = l.intoBucketOnce
	default:
		return nil, fmt.Errorf("layout %q is not one of %v", name, Names())
	}
	cache := pebble.NewCache(opts.CacheBytes)
	defer cache.Unref()
	var err error
	l.db, err = pebble.Open(opts.Dir, &pebble.Options{Logger: quiet{}, Cache: cache, MemTableSize: uint64(opts.MemTableBytes)}) //nolint:gosec // the caller checks it
	if err != nil {
		return nil, fmt.Errorf("layout %s: %w", name, err)
	}
	l.name = name
	return l, nil
}

// layout is a layout of a recipe.
type layout struct {
	name string
	opts Options
	db   *pebble.DB

	// push adds to a batch what gives a message to a recipient.
	push func(batch *pebble.Batch, owner message.UserID, e bucket.Entry) error
	read func(owner message.UserID, n int) (ids []message.ID, records int, err error)
	// place returns the number of the bucket into which intoBucket pushes.
	place func(owner message.UserID, e bucket.Entry) (uint64, error)
	// keep is the number of messages that stay in a bucket; 0 means all.
	keep int
	// counted says that a counter of each recipient is raised first. expires says that buckets are indexed by the day of their end.
	counted, expires bool
}

const (
	writers = 2
	// together is the number of recipients in a batch.
	together = 1000
)

// Send implements Layout. It writes in synced batches of 1,000 recipients from two goroutines, and on-read in one batch.
func (l *layout) Send(ctx context.Context, e bucket.Entry, recipients []message.UserID) (records int, err error) {
	if l.name == "on-read" {
		return l.sendOnce(e, recipients)
	}
	var written atomic.Int64
	err = l.spread(ctx, recipients, together, func(owners []message.UserID) error {
		n, err := l.sendBatch(e, owners)
		written.Add(int64(n))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("layout %s: send: %w", l.name, err)
	}
	return int(written.Load()), nil
}

// spread calls do with so many recipients at a time, from two goroutines.
func (l *layout) spread(ctx context.Context, recipients []message.UserID, at int, do func(owners []message.UserID) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for owners := range slices.Chunk(recipients, at) {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return do(owners)
		})
	}
	return group.Wait()
}

func (l *layout) sendBatch(e bucket.Entry, owners []message.UserID) (records int, err error) {
	batch := l.db.NewBatch()
	if l.counted {
		counters := l.db.NewBatch()
		for _, owner := range owners {
			if err := l.count(counters, owner); err != nil {
				return 0, err
			}
		}
		records = int(counters.Count())
		if err := counters.Commit(pebble.Sync); err != nil {
			return 0, err
		}
	}
	for _, owner := range owners {
		if err := l.push(batch, owner, e); err != nil {
			return 0, err
		}
	}
	return records + int(batch.Count()), batch.Commit(pebble.Sync)
}

// Read implements Layout.
func (l *layout) Read(_ context.Context, recipient message.UserID, n int) (ids []message.ID, records int, err error) {
	if ids, records, err = l.read(recipient, n); err != nil {
		return nil, 0, fmt.Errorf("layout %s: read: %w", l.name, err)
	}
	return ids, records, nil
}

// Written implements Layout.
func (l *layout) Written() (log, flushed, compacted uint64) {
	m := l.db.Metrics()
	for i := range m.Levels {
		flushed += m.Levels[i].TableBytesFlushed
		compacted += m.Levels[i].TableBytesCompacted
	}
	return m.WAL.BytesWritten, flushed, compacted
}

// Close implements Layout.
func (l *layout) Close(context.Context) error { return l.db.Close() }

// Sizes opens the folder of a layout that is closed, compacts it, and returns the bytes of its files: of records, and of the index.
func Sizes(ctx context.Context, name, dir string) (records, index float64, err error) {
	db, err := pebble.Open(dir, &pebble.Options{Logger: quiet{}})
	if err != nil {
		return 0, 0, fmt.Errorf("layout %s: sizes: %w", name, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := errors.Join(db.Flush(), db.Compact(ctx, []byte{0}, []byte{0xff}, false)); err != nil {
		return 0, 0, fmt.Errorf("layout %s: sizes: %w", name, err)
	}
	all, err := db.EstimateDiskUsage([]byte{0}, []byte{0xff})
	if err != nil || name == "buckets" {
		return float64(all), 0, err
	}
	keys, err := db.EstimateDiskUsage([]byte{indexKeys}, []byte{indexKeys + 1})
	return float64(all - keys), float64(keys), err
}

// quiet is a logger of a store that is thrown away.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
