package bench_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/testenv"
)

// backend is where a benchmark keeps its data: in a folder, or in a database on a MongoDB server.
type backend struct {
	messages message.Store
	keys     message.KeyStore
	progress progress.Store
	users    userstate.Store
	edges    follow.Store
	inbox    bucket.Store

	close func() error
	// configure lets a server have it, when it is closed.
	configure func(*config.Config)
}

// openBackend opens an empty backend of the kind that the flag store names. Messages are stamped by the clock.
func openBackend(b *testing.B, dir string, clock func() time.Time) *backend {
	b.Helper()
	if *store == config.StoreMongoDB {
		return openMongoDB(b, clock)
	}
	require.Equal(b, config.StoreEmbedded, *store, "-store is %s or %s", config.StoreEmbedded, config.StoreMongoDB)
	return openEmbedded(b, dir, clock)
}

func openEmbedded(b *testing.B, dir string, clock func() time.Time) *backend {
	b.Helper()
	defaults := config.Default()
	db, err := pebblestore.Open(b.Context(), dir+"/store", pebblestore.Options{
		Partitions: defaults.Partitions, Settings: defaults.Recorded().Texts(), Now: clock, Logger: zerolog.Nop(),
		CacheBytes: int64(defaults.Embedded.Cache), MemTableBytes: int64(defaults.Embedded.Memtable),
	})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	return &backend{
		messages: db.Messages(), keys: db.Keys(), progress: db.Progress(), users: db.Users(), edges: db.Edges(), inbox: db.Inbox(),
		close: db.Close, configure: func(cfg *config.Config) { cfg.Data = dir },
	}
}

func openMongoDB(b *testing.B, clock func() time.Time) *backend {
	b.Helper()
	uri, database := testenv.MongoDB(b)
	defaults := config.Default()
	opts := mongostore.Options{
		URI: uri, Database: database, Partitions: defaults.Partitions, Timeout: time.Minute, Now: time.Now, Stamp: clock,
		BulkOperations: defaults.MongoDB.BulkOperations, BulkBytes: int(defaults.MongoDB.BulkBytes), Concurrency: defaults.MongoDB.Concurrency,
		Settings: defaults.Recorded().Texts(), Logger: zerolog.Nop(),
	}
	prepared, err := mongostore.Connect(b.Context(), opts)
	require.NoError(b, err)
	require.NoError(b, prepared.Init(b.Context(), false))
	require.NoError(b, prepared.Close())
	db, err := mongostore.Open(b.Context(), opts)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	folder := b.TempDir()
	return &backend{
		messages: db.Messages(), keys: db.Keys(), progress: db.Progress(), users: db.Users(), edges: db.Edges(), inbox: db.Inbox(),
		close: func() error { return db.Close() },
		configure: func(cfg *config.Config) {
			cfg.Data, cfg.Store = folder, config.StoreMongoDB
			cfg.MongoDB.URI, cfg.MongoDB.Database = config.URL(uri), database
		},
	}
}

// preload gives users an inbox with so many entries, which were delivered before anything is measured.
func (s *backend) preload(ctx context.Context, b *testing.B, users []message.UserID, entries []bucket.Entry) {
	b.Helper()
	appender := bucket.NewAppender(s.inbox, s.users)
	for first := 0; first < len(users); first += together {
		some := users[first:min(len(users), first+together)]
		appends := make([]bucket.Append, len(some))
		for i, user := range some {
			appends[i] = bucket.Append{Owner: user, Entries: entries}
		}
		results, err := appender.Append(ctx, appends)
		require.NoError(b, err)
		for _, r := range results {
			require.NoError(b, r.Err)
			require.Equal(b, len(entries), r.New)
		}
	}
}
