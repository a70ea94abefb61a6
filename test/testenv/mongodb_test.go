//go:build mongodb

package testenv_test

import (
	"context"
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

// connect returns a client whose writes are acknowledged only when they are durable.
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
