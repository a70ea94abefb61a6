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

// ErrNotInstalled says that this machine has no program that speaks MongoDB's protocol.
var ErrNotInstalled = errors.New("no MongoDB server is installed: neither a mongod on the PATH nor DocumentDB")

// MongoDB is a server program on this machine that speaks MongoDB's protocol.
type MongoDB struct {
	name string
	// command runs a server on a data folder and a port of 127.0.0.1.
	command func(data string, port int) *exec.Cmd
	// prepare makes a server usable that answers. It may be called again and again.
	prepare func(ctx context.Context, client *mongo.Client, port int) error
}

// String names the program.
func (m *MongoDB) String() string { return m.name }

// FindMongoDB returns the mongod on the PATH or else DocumentDB, if InstallMongoDB has installed it before.
// If there is neither, it fails with ErrNotInstalled.
func FindMongoDB(ctx context.Context) (*MongoDB, error) {
	if path, err := exec.LookPath("mongod"); err == nil {
		return mongod(path), nil
	}
	return findDocumentDB(ctx)
}

// InstallMongoDB returns the mongod on the PATH or else DocumentDB, which it installs if it has to. That takes minutes, of
// which progress tells.
func InstallMongoDB(ctx context.Context, progress io.Writer) (*MongoDB, error) {
	found, err := FindMongoDB(ctx)
	if errors.Is(err, ErrNotInstalled) {
		return installDocumentDB(ctx, progress)
	}
	return found, err
}

// mongod is MongoDB's own server. It is the only member of a replica set: without one, it would not repeat writes.
func mongod(path string) *MongoDB {
	const replicas = "fanmail"
	return &MongoDB{
		name: path,
		command: func(data string, port int) *exec.Cmd {
			return exec.Command(path, "--bind_ip", "127.0.0.1", "--port", strconv.Itoa(port), "--dbpath", data, //nolint:noctx // it ends by Kill or Stop
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

// Identify tells which server answers at a URI, and its version. It waits for it until ctx ends.
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
