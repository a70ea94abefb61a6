package pebblelayouts

import (
	"context"

	"github.com/fanmail/fanmail/bench/ownlayout"
	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// buckets is the embedded store's own layout, a record for each entry, as fan-out uses it: the hints come from the users' states.
type buckets struct {
	*ownlayout.Inboxes
	db *pebblestore.DB
}

func openBuckets(ctx context.Context, opts Options) (*buckets, error) {
	db, err := pebblestore.Open(ctx, opts.Dir, pebblestore.Options{
		Settings: config.Default().Recorded().Texts(), Now: opts.Now, Logger: opts.Logger, BucketSize: opts.BucketSize,
		CacheBytes: opts.CacheBytes, MemTableBytes: opts.MemTableBytes,
	})
	if err != nil {
		return nil, err
	}
	return &buckets{Inboxes: ownlayout.New(db.Inbox(), db.Users(), opts.Now), db: db}, nil
}

// Send implements Layout.
func (b *buckets) Send(ctx context.Context, e bucket.Entry, recipients []message.UserID) (records int, err error) {
	return b.Append(ctx, []bucket.Entry{e}, recipients)
}

// Read implements Layout.
func (b *buckets) Read(ctx context.Context, recipient message.UserID, n int) (ids []message.ID, records int, err error) {
	ids, _, err = b.Inboxes.Read(ctx, recipient, n)
	return ids, len(ids), err
}

// Written implements Layout.
func (b *buckets) Written() (log, flushed, compacted uint64) { return b.db.Written() }

// Close implements Layout.
func (b *buckets) Close(context.Context) error { return b.db.Close() }
