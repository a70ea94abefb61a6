//go:build mongodb && mongod

package testenv_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/test/testenv"
)

// Acknowledged writes survive kill -9 and a restart, on the same port and for the same client.
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
					return // killed during the write
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
		cancel() // otherwise the writer would wait for a server
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
