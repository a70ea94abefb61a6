//go:build mongodb

package mongostore_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/test/testenv"
)

// raw returns a database by the driver alone.
func raw(tb testing.TB, opts mongostore.Options) *mongo.Database {
	tb.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(opts.URI))
	require.NoError(tb, err)
	ctx := tb.Context()
	tb.Cleanup(func() { require.NoError(tb, client.Disconnect(context.WithoutCancel(ctx))) })
	return client.Database(opts.Database)
}

func TestInitByManyHosts(t *testing.T) {
	t.Parallel()
	const hosts = 4
	uri, database := testenv.MongoDB(t)
	opts := testOptions(t, uri, database)
	dbs := make([]*mongostore.DB, hosts)
	for i := range dbs {
		dbs[i] = connect(t, opts)
	}
	for range 2 { // and once more
		errs := make([]error, hosts)
		var wg sync.WaitGroup
		for i, db := range dbs {
			wg.Go(func() { errs[i] = db.Init(t.Context(), false) })
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
	}
	require.NoError(t, open(t, opts).Healthy(t.Context()))
}

// TestInitKeepsAnIndexMadeBefore creates an index as the changelog says for large collections.
func TestInitKeepsAnIndexMadeBefore(t *testing.T) {
	t.Parallel()
	uri, database := testenv.MongoDB(t)
	opts := testOptions(t, uri, database)
	_, err := raw(t, opts).Collection("followers").Indexes().CreateOne(t.Context(), mongo.IndexModel{
		Keys:    bson.D{{Key: "follower", Value: 1}, {Key: "followee", Value: 1}},
		Options: options.Index().SetName("follower_followee").SetPartialFilterExpression(bson.D{{Key: "pending", Value: true}}),
	})
	require.NoError(t, err)
	require.NoError(t, connect(t, opts).Init(t.Context(), false))
	open(t, opts)
}

func TestInitByManyHostsThatDisagree(t *testing.T) {
	t.Parallel()
	const hosts = 4
	uri, database := testenv.MongoDB(t)
	opts := testOptions(t, uri, database)
	errs := make([]error, hosts)
	var wg sync.WaitGroup
	for i := range hosts {
		opts.Partitions = i + 1
		db := connect(t, opts)
		wg.Go(func() { errs[i] = db.Init(t.Context(), false) })
	}
	wg.Wait()
	agreed := 0
	for i, err := range errs {
		if opts.Partitions = i + 1; err == nil {
			agreed++
			open(t, opts)
			continue
		}
		require.ErrorIs(t, err, mongostore.ErrPartitions)
		_, err := mongostore.Open(t.Context(), opts)
		require.ErrorIs(t, err, mongostore.ErrPartitions)
	}
	require.Equal(t, 1, agreed)
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	set := func(field string, value any) func(*testing.T, *mongo.Database, *mongostore.Options) {
		return func(t *testing.T, db *mongo.Database, _ *mongostore.Options) {
			t.Helper()
			_, err := db.Collection("meta").UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "format"}},
				bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: value}}}})
			require.NoError(t, err)
		}
	}
	for name, test := range map[string]struct {
		change func(*testing.T, *mongo.Database, *mongostore.Options)
		want   error
		words  []string
	}{
		"another number of partitions": {
			func(_ *testing.T, _ *mongo.Database, opts *mongostore.Options) { opts.Partitions = 7 },
			mongostore.ErrPartitions,
			[]string{"16", "7", "configure 16"},
		},
		"buckets of another size": {
			func(_ *testing.T, _ *mongo.Database, opts *mongostore.Options) { opts.BucketSize = 20 },
			mongostore.ErrCapacity,
			[]string{"buckets of 50 slots", "inbox.bucket_size is 20", "configure 50"},
		},
		"a later format": {
			set("v", int32(2)), mongostore.ErrFormat,
			[]string{"made by another version of Fanmail", "has format 2, this version reads format 1", "run the version that wrote it"},
		},
		"a database of before format 1": {
			set("v", int32(5)), mongostore.ErrFormat,
			[]string{"made by another version of Fanmail", "has format 5, this version reads format 1"},
		},
		"no recorded settings, as before format 1": {
			set("settings", nil), mongostore.ErrFormat,
			[]string{"made by another version of Fanmail", "no recorded settings"},
		},
		"a database that is not initialized": {
			func(t *testing.T, db *mongo.Database, _ *mongostore.Options) {
				t.Helper()
				require.NoError(t, db.Collection("meta").Drop(t.Context()))
			},
			mongostore.ErrNotInitialized,
			[]string{"fanmail admin init"},
		},
		"a database without one of its indexes": {
			func(t *testing.T, db *mongo.Database, _ *mongostore.Options) {
				t.Helper()
				require.NoError(t, db.Collection("messages").Indexes().DropOne(t.Context(), "to__id"))
			},
			mongostore.ErrNotInitialized,
			[]string{"to__id", "messages", "fanmail admin init"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, opts := create(t)
			test.change(t, raw(t, opts), &opts)
			before := metaOf(t, opts)
			_, err := mongostore.Open(t.Context(), opts)
			require.ErrorIs(t, err, test.want)
			for _, words := range test.words {
				require.ErrorContains(t, err, words)
			}
			if err := connect(t, opts).Init(t.Context(), false); test.want != mongostore.ErrNotInitialized { //nolint:errorlint // it is the very one
				require.ErrorIs(t, err, test.want, "nor does initializing it again overwrite what is recorded")
				require.Equal(t, before, metaOf(t, opts))
				return
			}
			open(t, opts)
		})
	}
}

func TestInitShards(t *testing.T) {
	t.Parallel()
	uri, database := testenv.MongoDB(t)
	opts := testOptions(t, uri, database)
	db := connect(t, opts)
	if db.Sharded() {
		require.NoError(t, db.Init(t.Context(), true))
		open(t, opts)
		return
	}
	err := db.Init(t.Context(), true)
	require.ErrorIs(t, err, mongostore.ErrNotSharded)
	require.ErrorContains(t, err, "--shard")
	_, err = mongostore.Open(t.Context(), opts)
	require.ErrorIs(t, err, mongostore.ErrNotInitialized, "it was left as it is")
}

func TestShardCommands(t *testing.T) {
	t.Parallel()
	requireGolden(t, "shard_commands.golden.json", bson.D{{Key: "commands", Value: mongostore.ShardCommands("fanmail")}})
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	uri, database := testenv.MongoDB(t)
	for name, change := range map[string]func(*mongostore.Options){
		"URI":            func(o *mongostore.Options) { o.URI = "" },
		"Now":            func(o *mongostore.Options) { o.Now = nil },
		"Timeout":        func(o *mongostore.Options) { o.Timeout = -1 },
		"BulkOperations": func(o *mongostore.Options) { o.BulkOperations = mongostore.MaxBulkOperations + 1 },
		"BulkBytes":      func(o *mongostore.Options) { o.BulkBytes = mongostore.MaxBulkBytes + 1 },
		"Concurrency":    func(o *mongostore.Options) { o.Concurrency = -1 },
		"KeyGrace":       func(o *mongostore.Options) { o.KeyGrace = mongostore.MaxKeyGrace + 1 },
		"partitions":     func(o *mongostore.Options) { o.Partitions = 257 },
	} {
		opts := testOptions(t, uri, database)
		change(&opts)
		_, err := mongostore.Connect(t.Context(), opts)
		require.ErrorContains(t, err, name)
	}
}

// metaOf returns all documents of the collection with the format.
func metaOf(t *testing.T, opts mongostore.Options) (all []bson.M) {
	t.Helper()
	cursor, err := raw(t, opts).Collection("meta").Find(t.Context(), bson.D{})
	require.NoError(t, err)
	require.NoError(t, cursor.All(t.Context(), &all))
	return all
}
