package mongolayouts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/mongostore/mongoraw"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// buckets is the store's own layout as fan-out uses it: the hints come from the users' states.
type buckets struct {
	written
	db       *mongostore.DB
	appender *bucket.Appender
	opts     Options
	known    map[message.UserID]bool // the users who have a state, guarded by the one Send
}

func openBuckets(ctx context.Context, opts Options) (*buckets, error) {
	b := &buckets{opts: opts, known: make(map[message.UserID]bool)}
	store := mongostore.Options{
		URI: opts.URI, Database: opts.Database, Timeout: opts.Timeout, Now: opts.Now, BulkOperations: opts.Operations, Concurrency: opts.Commands,
		Logger: opts.Logger, Monitor: b.monitor(),
	}
	empty, err := mongostore.Connect(ctx, store)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(empty.Init(ctx, false), empty.Close()); err != nil { //nolint:contextcheck // Close has a timeout of its own
		return nil, fmt.Errorf("prepare a database: %w", err)
	}
	if b.db, err = mongostore.Open(ctx, store); err != nil {
		return nil, err
	}
	b.appender = bucket.NewAppender(b.db.Inbox(), b.db.Users()).WithCapacity(func() int { return opts.BucketSize })
	return b, nil
}

// Send implements Layout.
func (b *buckets) Send(ctx context.Context, e bucket.Entry, recipients []message.UserID) (documents int, err error) {
	if err := b.meet(ctx, recipients); err != nil {
		return 0, err
	}
	before := b.documents.Load()
	states, err := userstate.States(b.db.Users().Lookup(ctx, recipients))
	if err != nil {
		return 0, err
	}
	appends := make([]bucket.Append, len(recipients))
	for i, owner := range recipients {
		appends[i] = bucket.Append{Owner: owner, Hint: states[i].Head, Entries: []bucket.Entry{e}}
	}
	results, err := b.appender.Append(ctx, appends)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return int(b.documents.Load() - before), err
}

// meet gives states to the users who have none. Hints are kept only for users who have.
func (b *buckets) meet(ctx context.Context, users []message.UserID) error {
	var steps []userstate.Step
	for _, user := range users {
		if !b.known[user] {
			seen := b.opts.Now().UTC().Truncate(time.Millisecond)
			steps = append(steps, userstate.Step{From: userstate.State{User: user}, To: userstate.State{User: user, LastViewed: seen}})
			b.known[user] = true
		}
	}
	if len(steps) == 0 {
		return nil
	}
	_, err := b.db.Users().Step(ctx, steps)
	return err
}

// Read implements Layout.
func (b *buckets) Read(ctx context.Context, recipient message.UserID, n int) (ids []message.ID, documents int, err error) {
	state, err := userstate.Get(ctx, b.db.Users(), recipient)
	if err != nil {
		return nil, 0, err
	}
	page, err := bucket.ReadPage(ctx, b.db.Inbox(), bucket.PageRequest{Owner: recipient, Hint: state.Head, Limit: n, Capacity: b.opts.BucketSize})
	for _, e := range page.Entries {
		ids = append(ids, e.ID)
	}
	return ids, page.Buckets, err
}

// Sizes implements Layout. The hints are in the collection of the users.
func (b *buckets) Sizes(ctx context.Context) (s mongoraw.Sizes, err error) {
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
	return errors.Join(b.db.Drop(context.WithoutCancel(ctx)), b.db.Close()) //nolint:contextcheck // Close has a timeout of its own
}
