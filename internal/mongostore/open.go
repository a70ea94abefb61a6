package mongostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/fanmail/fanmail/internal/partition"
)

const (
	// DefaultDatabase is the name of the database.
	DefaultDatabase = "fanmail"
	// DefaultTimeout is how long an operation may take, all attempts included.
	DefaultTimeout = 10 * time.Second
	// DefaultBulkOperations is how many updates are sent at a time.
	DefaultBulkOperations = 1000
	// DefaultBulkBytes is how many bytes of updates are sent at a time.
	DefaultBulkBytes = 8 << 20
	// DefaultConcurrency is how many updates that cannot be sent together a call has under way.
	DefaultConcurrency = 16

	// DefaultKeyGrace leaves it to publishers to remove what has expired, as long as there are any.
	DefaultKeyGrace = 24 * time.Hour
	// MaxKeyGrace is what servers accept.
	MaxKeyGrace = (1<<31 - 1) * time.Second

	// MaxBulkOperations is how many updates all servers accept in a command. MongoDB accepts 100,000, and DocumentDB says so too.
	MaxBulkOperations = 25_000
	// MaxBulkBytes is less than the 48,000,000 bytes that servers accept in a command, for what goes round the updates.
	MaxBulkBytes = 44 << 20
)

// Options says how a database is opened.
type Options struct {
	// URI is the connection string. What it says of write concern, read concern, read preference and retries is overruled:
	// other than as they are here, messages can be lost.
	URI string
	// CAFile holds the certificates of the authorities to trust, CertFile the certificate to show with its private key, all as
	// PEM. With either the connection is encrypted; empty is what the URI says.
	CAFile, CertFile string
	// Database is the name of the database; "" is DefaultDatabase.
	Database string
	// Partitions is the number of partitions of all users, 1 to partition.MaxCount; 0 is partition.DefaultCount. It is
	// fixed when the database is initialized.
	Partitions int
	// Timeout is how long an operation may take, all attempts included; 0 is DefaultTimeout. What a publisher or a user
	// does takes effect up to that much later than its clock says, so it has to be below half of the clock tolerance.
	Timeout time.Duration
	// BulkOperations is how many updates are sent at a time, at most MaxBulkOperations; 0 is DefaultBulkOperations.
	BulkOperations int
	// BulkBytes is how many bytes of updates are sent at a time, at most MaxBulkBytes; 0 is DefaultBulkBytes. A single
	// update may have more, up to what a document may have.
	BulkBytes int
	// Concurrency is how many updates that cannot be sent together a call has under way; 0 is DefaultConcurrency.
	Concurrency int
	// Now is the clock by which a query begins at what is recent. It decides how fast an answer is found, not which. It is
	// required.
	Now func() time.Time
	// Stamp is the clock by which messages are stamped as they are stored; nil, as it has to be where several hosts
	// publish, is the server's.
	Stamp func() time.Time
	// KeyGrace is how long after its expiry the server removes an idempotency key that no publisher has, to the second; 0 is
	// DefaultKeyGrace. It goes by the server's clock: with a Now of its own, a test makes it long. It is fixed when the
	// database is initialized.
	KeyGrace time.Duration
	// Logger gets what an operator has to know.
	Logger zerolog.Logger
	// Monitor is told of every command; nil is nobody.
	Monitor *event.CommandMonitor
}

func (o Options) withDefaults() (Options, error) {
	if o.URI == "" || o.Now == nil {
		return o, errors.New("options: URI and Now are required")
	}
	setDefault(&o.Database, DefaultDatabase)
	setDefault(&o.Partitions, partition.DefaultCount)
	setDefault(&o.Timeout, DefaultTimeout)
	setDefault(&o.BulkOperations, DefaultBulkOperations)
	setDefault(&o.BulkBytes, DefaultBulkBytes)
	setDefault(&o.Concurrency, DefaultConcurrency)
	setDefault(&o.KeyGrace, DefaultKeyGrace)
	switch {
	case o.KeyGrace < 0 || o.KeyGrace > MaxKeyGrace:
		return o, fmt.Errorf("options: KeyGrace is %v: it can be up to %v", o.KeyGrace, MaxKeyGrace)
	case o.Timeout < 0 || o.Concurrency < 0:
		return o, errors.New("options: Timeout and Concurrency must not be negative")
	case o.BulkOperations < 0 || o.BulkOperations > MaxBulkOperations:
		return o, fmt.Errorf("options: BulkOperations is %d: it can be 1 to %d", o.BulkOperations, MaxBulkOperations)
	case o.BulkBytes < 0 || o.BulkBytes > MaxBulkBytes:
		return o, fmt.Errorf("options: BulkBytes is %d: it can be 1 to %d", o.BulkBytes, MaxBulkBytes)
	}
	return o, partition.ValidateCount(o.Partitions)
}

func setDefault[T comparable](option *T, value T) {
	var zero T
	if *option == zero {
		*option = value
	}
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	client   *mongo.Client
	database *mongo.Database
	opts     Options
	server   server
	watch    *watch

	messages *Messages
	keys     *Keys
	inbox    *Inbox
	users    *Users
	edges    *Edges
	progress *Progress
}

// Open connects to a server and checks that the database was initialized as it is configured. It waits for a server that
// does not answer until ctx ends, and says so in the log. It returns an error that wraps ErrNotInitialized, ErrFormat,
// ErrPartitions or ErrCapacity where that is what stands in the way.
func Open(ctx context.Context, opts Options) (*DB, error) {
	db, err := Connect(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := db.Check(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the database %s: %w", db.database.Name(), err), db.close(ctx))
	}
	return db, nil
}

// Connect is Open without the check: for whoever is going to initialize the database.
func Connect(ctx context.Context, opts Options) (*DB, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("mongostore: %w", err)
	}
	watch := newWatch(opts.Logger)
	o := clientOptions(opts).SetServerMonitor(watch.monitor())
	if err := secure(o, opts); err != nil {
		return nil, fmt.Errorf("mongostore: connect: %w", err)
	}
	client, err := mongo.Connect(o)
	if err != nil {
		return nil, fmt.Errorf("mongostore: connect: %w", withoutSecrets(err, opts.URI))
	}
	db := &DB{client: client, opts: opts, watch: watch}
	if db.server, err = db.greet(ctx); err != nil {
		return nil, errors.Join(err, db.close(ctx))
	}
	db.open()
	return db, nil
}

func clientOptions(opts Options) *options.ClientOptions {
	journaled := true
	majority := writeconcern.Majority()
	majority.Journal = &journaled
	o := options.Client().ApplyURI(opts.URI).
		SetWriteConcern(majority).
		SetReadPreference(readpref.Primary()).
		SetReadConcern(readconcern.Local()).
		SetRetryWrites(true).
		SetRetryReads(true).
		SetTimeout(opts.Timeout).
		SetMonitor(opts.Monitor)
	if o.AppName == nil {
		o.SetAppName("fanmail")
	}
	return o
}

// open makes the stores.
func (db *DB) open() {
	concern := readconcern.Local()
	if db.server.replicated() {
		concern = readconcern.Linearizable()
	}
	db.database = db.client.Database(db.opts.Database, options.Database().SetReadConcern(concern))
	db.messages = &Messages{c: db.collection(messagesName)}
	db.keys = &Keys{c: db.collection(keysName)}
	db.inbox = newInbox(db.collection(inboxName))
	db.users = &Users{c: db.collection(usersName)}
	db.edges = &Edges{followers: db.collection(followersName), following: db.collection(followingName), pages: newPages()}
	db.progress = &Progress{c: db.collection(fanoutsName)}
}

// Healthy returns nil if the server answers. That a connection has broken says nothing of it: it is asked again then.
func (db *DB) Healthy(ctx context.Context) error {
	return db.call(ctx, "ping", func(ctx context.Context) error { return db.client.Ping(ctx, readpref.Primary()) })
}

// closeTimeout is how long connections that are in use are waited for.
const closeTimeout = 10 * time.Second

// Close closes all connections; calls from then on return ErrClosed. Closing it again does nothing.
func (db *DB) Close() error { return db.close(context.Background()) }

func (db *DB) close(ctx context.Context) error {
	db.watch.end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := db.client.Disconnect(ctx); err != nil && !errors.Is(err, mongo.ErrClientDisconnected) {
		return fmt.Errorf("mongostore: close: %w", err)
	}
	return nil
}

// Drop removes the database with everything in it: that of a benchmark, which nobody else uses.
func (db *DB) Drop(ctx context.Context) error {
	if err := db.client.Database(db.opts.Database).Drop(ctx); err != nil {
		return fmt.Errorf("mongostore: drop the database %s: %w", db.opts.Database, err)
	}
	return nil
}

// Messages returns the canonical store of messages.
func (db *DB) Messages() *Messages { return db.messages }

// Keys returns the store of idempotency keys.
func (db *DB) Keys() *Keys { return db.keys }

// Inbox returns the store of buckets.
func (db *DB) Inbox() *Inbox { return db.inbox }

// Users returns the store of user states.
func (db *DB) Users() *Users { return db.users }

// Edges returns the store of edges.
func (db *DB) Edges() *Edges { return db.edges }

// Progress returns the store of fan-outs.
func (db *DB) Progress() *Progress { return db.progress }
