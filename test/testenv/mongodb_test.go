package testenv_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/testenv"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// connect returns a client whose writes are acknowledged once they survive the end of the server.
func connect(t *testing.T, uri string) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetWriteConcern(writeconcern.Majority()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Disconnect(context.WithoutCancel(t.Context()))) })
	return client
}

func TestMongoDBGivesEachTestADatabase(t *testing.T) {
	t.Parallel()
	uri, first := testenv.MongoDB(t)
	client := connect(t, uri)
	databases := func() []string {
		names, err := client.ListDatabaseNames(context.WithoutCancel(t.Context()), bson.D{})
		require.NoError(t, err)
		return names
	}
	var second string
	t.Cleanup(func() { require.NotContains(t, databases(), second, "the database is dropped before") })
	_, second = testenv.MongoDB(t)
	require.NotEqual(t, first, second)
	require.NotContains(t, databases(), second)
	_, err := client.Database(second).Collection("c").InsertOne(t.Context(), bson.D{})
	require.NoError(t, err)
	require.Contains(t, databases(), second)
}

func TestMongoDBNamesDatabasesAfterAnyTest(t *testing.T) {
	t.Parallel()
	uri, _ := testenv.MongoDB(t)
	client := connect(t, uri)
	for _, name := range []string{`$/. \ ` + strings.Repeat("long ", 20), "Größe", ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, database := testenv.MongoDB(t)
			_, err := client.Database(database).Collection("c").InsertOne(t.Context(), bson.D{})
			require.NoError(t, err)
		})
	}
}

// What a server has acknowledged is there after kill -9 and a restart, on the same port and for the same client.
func TestKilledMongoDBLosesNothing(t *testing.T) {
	t.Parallel()
	server := testenv.StartMongoDB(t)
	collection := connect(t, server.URI()).Database("d").Collection("c")
	acknowledged := make(map[int]bool)
	for round := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		writing, writer := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(writer)
			for i := range 100_000 {
				id := round*100_000 + i
				if _, err := collection.InsertOne(ctx, bson.D{{Key: "_id", Value: id}}); err != nil {
					return // killed in the middle
				}
				acknowledged[id] = true
				if i == 50 {
					close(writing)
				}
			}
		}()
		select {
		case <-writing:
		case <-writer:
			require.Fail(t, "the writer has failed before the server was killed")
		}
		server.Kill()
		cancel() // or it would wait for a server
		<-writer
		_, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(server.URI(), "mongodb://"), "/?directConnection=true")) //nolint:noctx // refused at once
		require.Error(t, err, "somebody listens although the server was killed")
		server.Start()

		var found []struct {
			ID int `bson:"_id"`
		}
		cursor, err := collection.Find(t.Context(), bson.D{})
		require.NoError(t, err)
		require.NoError(t, cursor.All(t.Context(), &found))
		there := make(map[int]bool)
		for _, document := range found {
			there[document.ID] = true
		}
		for id := range acknowledged {
			require.True(t, there[id], "%d is lost", id)
		}
	}
	server.Stop()
	server.Start()
	count, err := collection.CountDocuments(t.Context(), bson.D{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, count, int64(len(acknowledged)), "after a clean stop")
}
