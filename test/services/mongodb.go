package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// URIVariable is the environment variable with the URI of the MongoDB server that the tests use.
const URIVariable = "FANMAIL_TEST_MONGODB_URI"

// ErrNotInstalled means that this machine has no server with MongoDB's protocol.
var ErrNotInstalled = errors.New("no MongoDB server is installed: neither a mongod on the PATH nor DocumentDB")

// MongoDB is an installed server program with MongoDB's protocol.
type MongoDB struct {
	name string
	// command runs a server on a data folder and a port of 127.0.0.1.
	command func(data string, port int) *exec.Cmd
	// prepare makes a running server usable. It is idempotent.
	prepare func(ctx context.Context, client *mongo.Client, port int) error
}

// String returns the name of the program.
func (m *MongoDB) String() string { return m.name }

// FindMongoDB returns the mongod on the PATH, or else an installed DocumentDB. Without either, it returns ErrNotInstalled.
func FindMongoDB(ctx context.Context) (*MongoDB, error) {
	if path, err := exec.LookPath("mongod"); err == nil {
		return mongod(path), nil
	}
	return findDocumentDB(ctx)
}

// InstallMongoDB returns the mongod on the PATH, or else DocumentDB, which it installs if necessary. The installation takes minutes
// and reports to progress.
func InstallMongoDB(ctx context.Context, progress io.Writer) (*MongoDB, error) {
	found, err := FindMongoDB(ctx)
	if errors.Is(err, ErrNotInstalled) {
		return installDocumentDB(ctx, progress)
	}
	return found, err
}

// mongod is MongoDB's own server. It runs as the only member of a replica set, because clients do not retry writes without one.
func mongod(path string) *MongoDB {
	const replicas = "fanmail"
	return &MongoDB{
		name: path,
		command: func(data string, port int) *exec.Cmd {
			return exec.Command(path, "--bind_ip", "127.0.0.1", "--port", strconv.Itoa(port), "--dbpath", data, //nolint:noctx // Kill or Stop ends it
				"--replSet", replicas, "--nounixsocket", "--wiredTigerCacheSizeGB", "0.5")
		},
		prepare: func(ctx context.Context, client *mongo.Client, port int) error {
			const alreadyInitialized = 23
			member := bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: fmt.Sprintf("127.0.0.1:%d", port)}}
			config := bson.D{{Key: "_id", Value: replicas}, {Key: "members", Value: bson.A{member}}}
			err := admin(ctx, client, bson.D{{Key: "replSetInitiate", Value: config}}, &bson.D{})
			if refused := new(mongo.CommandError); err != nil && (!errors.As(err, refused) || refused.Code != alreadyInitialized) {
				return err
			}
			return client.Ping(ctx, readpref.Primary()) // waits for the election
		},
	}
}

// admin runs a command on the admin database.
func admin(ctx context.Context, client *mongo.Client, command bson.D, answer any) error {
	return client.Database("admin").RunCommand(ctx, command).Decode(answer)
}

// Identify returns the name and the version of the server at a URI. It waits for the server until ctx ends.
func Identify(ctx context.Context, uri string) (string, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return "", fmt.Errorf("%s: %w", URIVariable, err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	var build struct {
		Version  string
		FerretDB struct{ Version string } `bson:"ferretdb"`
	}
	if err := admin(ctx, client, bson.D{{Key: "buildInfo", Value: 1}}, &build); err != nil {
		return "", err
	}
	if build.FerretDB.Version != "" {
		return "FerretDB " + build.FerretDB.Version + " with the features of MongoDB " + build.Version, nil
	}
	return "MongoDB " + build.Version, nil
}
