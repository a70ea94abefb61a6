package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/test/services"
)

// mongoTimeout is the timeout for starting or stopping a server, and for dropping a database.
const mongoTimeout = 3 * time.Minute

// MongoDB returns the URI of the MongoDB server that the tests share, and the name of a database for this test alone. The database
// does not exist yet. It is dropped when the test ends.
//
// The test fails if there is no server. Tests that call it are selected by the build tag mongodb.
func MongoDB(tb testing.TB) (uri, database string) {
	tb.Helper()
	uri, database, drop := LastingMongoDB(tb)
	tb.Cleanup(func() {
		require.NoError(tb, drop(context.WithoutCancel(tb.Context())), "the database cannot be dropped")
	})
	return uri, database
}

// LastingMongoDB is MongoDB for a database that other tests use later. The caller must drop the database at the end.
func LastingMongoDB(tb testing.TB) (uri, database string, drop func(ctx context.Context) error) {
	tb.Helper()
	uri = os.Getenv(services.URIVariable)
	require.NotEmpty(tb, uri, "%s is not set. Run the tests with a MongoDB server by \"make test-mongodb\", or these alone by\n"+
		"    go run ./test/services/withmongodb go test [-run ...] ./some/package", services.URIVariable)
	database = databaseName(tb.Name())
	return uri, database, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, mongoTimeout)
		defer cancel()
		client, err := mongo.Connect(options.Client().ApplyURI(uri))
		if err != nil {
			return err
		}
		return errors.Join(client.Database(database).Drop(ctx), client.Disconnect(ctx))
	}
}

// databaseName returns a unique name that contains the name of the test.
func databaseName(test string) string {
	const prefix, most = "fanmail_test_", 38 // the limit of Atlas in bytes
	name := strings.Map(func(r rune) rune {
		if ('a' <= r && r <= 'z') || ('A' <= r && r <= 'Z') || ('0' <= r && r <= '9') {
			return r
		}
		return '_'
	}, test)
	name = prefix + rand.Text()[:8] + "_" + name
	return name[:min(len(name), most)]
}

// MongoServer is a MongoDB server for one test, which the test can kill and restart.
type MongoServer struct {
	t      *testing.T
	server *services.Server
}

// StartMongoDB starts a server for this test alone, without databases. The server is killed when the test ends.
//
// The test fails if no server program is installed. Tests that call it are selected by the build tag mongod.
func StartMongoDB(t *testing.T) *MongoServer {
	t.Helper()
	program, err := services.FindMongoDB(t.Context())
	require.NoError(t, err, "test/services/documentdb/install, or a mongod on the PATH, would help")
	_, port, err := net.SplitHostPort(freeAddr(t))
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	s := &MongoServer{t: t, server: program.NewServer(t.TempDir(), number)}
	t.Cleanup(func() {
		s.server.Kill()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", program, s.server.Log())
		}
	})
	s.Start()
	return s
}

// URI returns the connection string. It stays the same after a restart.
func (s *MongoServer) URI() string { return s.server.URI() }

// Kill kills the server with SIGKILL, and returns when all of its processes have ended. Acknowledged writes are not lost.
func (s *MongoServer) Kill() { s.server.Kill() }

// Start restarts a killed or stopped server on the same data and port, and returns when it answers.
func (s *MongoServer) Start() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), mongoTimeout)
	defer cancel()
	require.NoError(s.t, s.server.Start(ctx))
}

// Stop terminates the server and waits until it has ended.
func (s *MongoServer) Stop() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), mongoTimeout)
	defer cancel()
	require.NoError(s.t, s.server.Stop(ctx))
}
