//go:build mongodb

package mongostore_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestMain has rapid try this number of checks, unless -rapid.checks says otherwise.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	code := leaktest.Run(m)
	if err := returned.drop(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "a database of the tests cannot be dropped:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

const partitions = 16

func testOptions(tb testing.TB, uri, database string) mongostore.Options {
	tb.Helper()
	monitor, _ := watched(tb)
	return mongostore.Options{
		URI: uri, Database: database, Partitions: partitions, Now: time.Now, KeyGrace: mongostore.MaxKeyGrace,
		Timeout: 2 * time.Minute, ClockTolerance: func() time.Duration { return 8 * time.Minute }, // a loaded machine may need long: what is late is told apart by other means
		Settings: storetest.Proposed,
		Logger:   zerolog.New(zerolog.NewTestWriter(tb)).Level(zerolog.WarnLevel),
		Monitor:  monitor,
	}
}

// connect connects to a server, and closes the connection when the test is over.
func connect(tb testing.TB, opts mongostore.Options) *mongostore.DB {
	tb.Helper()
	db, err := mongostore.Connect(tb.Context(), opts)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	return db
}

// open opens a database that has been initialized, and closes it when the test is over.
func open(tb testing.TB, opts mongostore.Options) *mongostore.DB {
	tb.Helper()
	db, err := mongostore.Open(tb.Context(), opts)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	return db
}

// create initializes a database that only this test uses, and opens it. On a sharded cluster, it shards the collections.
func create(tb testing.TB) (*mongostore.DB, mongostore.Options) {
	tb.Helper()
	uri, database := testenv.MongoDB(tb)
	opts := testOptions(tb, uri, database)
	db := connect(tb, opts)
	require.NoError(tb, db.Init(tb.Context(), db.Sharded()))
	return open(tb, opts), opts
}

func stored(id message.ID) bson.Binary { return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]} }
