package bench_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/testenv"
)

// backend is where a benchmark keeps its data: in a folder, or in a database on a MongoDB server.
type backend struct {
	messages message.Store
	users    userstate.Store
	edges    follow.Store

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
		messages: db.Messages(), users: db.Users(), edges: db.Edges(),
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
		messages: db.Messages(), users: db.Users(), edges: db.Edges(),
		close: func() error { return db.Close() },
		configure: func(cfg *config.Config) {
			cfg.Data, cfg.Store = folder, config.StoreMongoDB
			cfg.MongoDB.URI, cfg.MongoDB.Database = config.URL(uri), database
		},
	}
}
