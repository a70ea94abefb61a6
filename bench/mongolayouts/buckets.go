package mongolayouts

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fanmail/fanmail/bench/ownlayout"
	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/mongostore/mongoraw"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// buckets is the store's own layout as fan-out uses it: the hints come from the users' states.
type buckets struct {
	written
	*ownlayout.Inboxes
	db   *mongostore.DB
	opts Options
}

func openBuckets(ctx context.Context, opts Options) (*buckets, error) {
	b := &buckets{opts: opts}
	store := mongostore.Options{
		URI: opts.URI, Database: opts.Database, Timeout: opts.Timeout, Settings: config.Default().Recorded().Texts(), Now: opts.Now, BucketSize: opts.BucketSize, BulkOperations: opts.Operations, Concurrency: opts.Commands,
		Logger: opts.Logger, Monitor: b.monitor(),
	}
	if !opts.Existing {
		if err := prepareStore(ctx, store); err != nil {
			return nil, fmt.Errorf("prepare a database: %w", err)
		}
	}
	var err error
	if b.db, err = mongostore.Open(ctx, store); err != nil {
		return nil, err
	}
	b.Inboxes = ownlayout.New(b.db.Inbox(), b.db.Users(), opts.Now)
	return b, nil
}

// prepareStore makes the collections of the store.
func prepareStore(ctx context.Context, store mongostore.Options) error {
	empty, err := mongostore.Connect(ctx, store)
	if err != nil {
		return err
	}
	return errors.Join(empty.Init(ctx, false), empty.Close()) //nolint:contextcheck // Close has a timeout of its own
}

// Send implements Layout.
func (b *buckets) Send(ctx context.Context, e bucket.Entry, recipients []message.UserID) (documents int, err error) {
	before := b.documents.Load()
	_, err = b.Append(ctx, []bucket.Entry{e}, recipients)
	return int(b.documents.Load() - before), err
}

// Sizes implements Layout. The hints are in the collection of the users.
func (b *buckets) Sizes(ctx context.Context) (s Sizes, err error) {
	client, err := mongoraw.Connect(b.opts.URI, nil)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, client.Disconnect(context.WithoutCancel(ctx))) }()
	db := client.Database(b.opts.Database)
	return sizesOf(ctx, []*mongo.Collection{db.Collection("inbox"), db.Collection("users")})
}

// Close implements Layout.
func (b *buckets) Close(ctx context.Context) error {
	if b.opts.Existing {
		return b.db.Close() //nolint:contextcheck // Close has a timeout of its own
	}
	return errors.Join(b.db.Drop(context.WithoutCancel(ctx)), b.db.Close()) //nolint:contextcheck // Close has a timeout of its own
}
