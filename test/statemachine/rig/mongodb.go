package rig

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/test/testenv"
)

// mongoTimeout is for an operation, however busy the machine is and however long an actor stalls in the midst of it.
const mongoTimeout = 5 * time.Minute

// MongoDB is databases on the MongoDB server of the tests. A crash ends the client that has one open, and loses nothing: what is
// acknowledged is the server's. Databases are dropped when they are closed.
type MongoDB struct {
	uri, prefix string
	byCommand   bool
	created     atomic.Int64
	client      *mongo.Client
}

var _ Backend = (*MongoDB)(nil)

// NewMongoDB returns MongoDB until the test ends, with a seam between operations like that of the embedded store. The test needs the
// server: see testenv.MongoDB.
func NewMongoDB(t *testing.T) *MongoDB {
	t.Helper()
	const longest = 50 // bytes, which leaves some for a number
	uri, database := testenv.MongoDB(t)
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	require.NoError(t, err)
	ctx := t.Context()
	t.Cleanup(func() { require.NoError(t, client.Disconnect(context.WithoutCancel(ctx))) })
	return &MongoDB{uri: uri, prefix: database[:min(len(database), longest)], client: client}
}

// NewMongoDBByCommand is NewMongoDB with a seam between any two commands, of which an operation may take several. An actor stalls or
// dies there as it does between operations, but it cannot fail.
func NewMongoDBByCommand(t *testing.T) *MongoDB {
	t.Helper()
	m := NewMongoDB(t)
	m.byCommand = true
	return m
}

// Create implements Backend.
func (m *MongoDB) Create(ctx context.Context, clock *Clock, size int) (*DB, error) {
	opts := mongostore.Options{
		URI: m.uri, Database: fmt.Sprintf("%s_%d", m.prefix, m.created.Add(1)), Partitions: Partitions, BucketSize: size,
		Timeout: mongoTimeout, ClockTolerance: func() time.Duration { return 4 * mongoTimeout }, Now: clock.Now, Stamp: clock.Now, Settings: storetest.Proposed, KeyGrace: mongostore.MaxKeyGrace, Logger: zerolog.Nop(),
	}
	if m.byCommand {
		opts.Concurrency = 1 // an actor does one thing at a time
		opts.Monitor = &event.CommandMonitor{Started: func(ctx context.Context, _ *event.CommandStartedEvent) { command(ctx) }}
	}
	db, err := mongostore.Connect(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := db.Init(ctx, false); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return m.wrap(db, opts), nil
}

func (m *MongoDB) wrap(db *mongostore.DB, opts mongostore.Options) *DB {
	return &DB{
		Messages: db.Messages(), Keys: db.Keys(), Progress: db.Progress(), Users: db.Users(), Edges: db.Edges(), Inbox: db.Inbox(),
		Walk: db.Retention(), Passes: db.Passes(), Topics: db.Topics(), Flags: db.Flags(),
		Lossless: true,
		close: func() error {
			ctx, cancel := context.WithTimeout(context.Background(), mongoTimeout)
			defer cancel()
			return errors.Join(db.Close(), m.client.Database(opts.Database).Drop(ctx))
		},
		crash: func(ctx context.Context, _ int, _ uint64) (*DB, error) {
			if err := db.Close(); err != nil {
				return nil, err
			}
			again, err := mongostore.Open(ctx, opts)
			if err != nil {
				return nil, err
			}
			return m.wrap(again, opts), nil
		},
	}
}
