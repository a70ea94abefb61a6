package pebblelayouts

import (
	"context"
	"errors"
	"time"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// buckets is the embedded store's own layout, a record for each entry, as fan-out uses it: the hints come from the users' states.
type buckets struct {
	db       *pebblestore.DB
	appender *bucket.Appender
	capacity int
	known    map[message.UserID]bool // the users who have a state, guarded by the one Send
	now      func() time.Time
}

func openBuckets(ctx context.Context, opts Options) (*buckets, error) {
	db, err := pebblestore.Open(ctx, opts.Dir, pebblestore.Options{
		Now: opts.Now, Logger: opts.Logger, CacheBytes: opts.CacheBytes, MemTableBytes: opts.MemTableBytes,
	})
	if err != nil {
		return nil, err
	}
	appender := bucket.NewAppender(db.Inbox(), db.Users()).WithCapacity(func() int { return opts.BucketSize })
	return &buckets{db: db, appender: appender, capacity: opts.BucketSize, known: make(map[message.UserID]bool), now: opts.Now}, nil
}

// Send implements Layout.
func (b *buckets) Send(ctx context.Context, e bucket.Entry, recipients []message.UserID) (records int, err error) {
	if err := b.meet(ctx, recipients); err != nil {
		return 0, err
	}
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
		records += r.New
		err = errors.Join(err, r.Err)
	}
	return records, err
}

// meet gives states to the users who have none. Hints are kept only for users who have.
func (b *buckets) meet(ctx context.Context, users []message.UserID) error {
	var steps []userstate.Step
	for _, user := range users {
		if !b.known[user] {
			seen := b.now().UTC().Truncate(time.Millisecond)
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
func (b *buckets) Read(ctx context.Context, recipient message.UserID, n int) (ids []message.ID, records int, err error) {
	state, err := userstate.Get(ctx, b.db.Users(), recipient)
	if err != nil {
		return nil, 0, err
	}
	page, err := bucket.ReadPage(ctx, b.db.Inbox(), bucket.PageRequest{Owner: recipient, Hint: state.Head, Limit: n, Capacity: b.capacity})
	for _, e := range page.Entries {
		ids = append(ids, e.ID)
	}
	return ids, len(ids), err
}

// Written implements Layout.
func (b *buckets) Written() (log, flushed, compacted uint64) { return b.db.Written() }

// Close implements Layout.
func (b *buckets) Close(context.Context) error { return b.db.Close() }
