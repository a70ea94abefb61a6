package mongostore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/storemetrics"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/userstate"
)

const (
	// DefaultDatabase is the name of the database.
	DefaultDatabase = "fanmail"
	// DefaultTimeout is how long an operation may take, all attempts included.
	DefaultTimeout = 10 * time.Second
	// DefaultBulkOperations is how many updates one command holds.
	DefaultBulkOperations = 1000
	// DefaultBulkBytes is how many bytes of updates one command holds.
	DefaultBulkBytes = 8 << 20
	// DefaultConcurrency is how many single updates one call runs at the same time.
	DefaultConcurrency = 16

	// DefaultKeyGrace is long, because running publishers remove expired keys themselves.
	DefaultKeyGrace = 24 * time.Hour
	// MaxKeyGrace is below the seconds since 1970, which MongoDB demands of an index that removes documents.
	MaxKeyGrace = 50 * 365 * 24 * time.Hour

	// MaxBulkOperations is how many updates every server accepts in one command. MongoDB accepts 100,000. DocumentDB claims the
	// same limit but accepts fewer.
	MaxBulkOperations = 25_000
	// MaxBulkBytes is less than the 48,000,000 bytes that servers accept in one command. The rest is for the overhead of each
	// update.
	MaxBulkBytes = 44 << 20
)

// Options configures Connect and Open.
type Options struct {
	// URI is the connection string. Its write concern, read concern, read preference and retries are overruled, because other
	// values can lose messages.
	URI string
	// CAFile holds the certificates of the trusted authorities. CertFile holds the client certificate and its private key. Both
	// are PEM. With either of them the connection is encrypted. If both are empty, the URI decides.
	CAFile, CertFile string
	// Database is the name of the database; "" is DefaultDatabase.
	Database string
	// Partitions is the number of partitions of all users, 1 to partition.MaxCount; 0 is partition.DefaultCount. It is
	// fixed when the database is initialized.
	Partitions int
	// BucketSize is the number of slots of a bucket, 1 to bucket.MaxCapacity; 0 is bucket.Capacity. It is fixed when the database is
	// initialized.
	BucketSize int
	// Timeout is how long an operation may take, including all attempts; 0 is DefaultTimeout. It should be at most a quarter of
	// ClockTolerance: what it leaves of the half is how far the clocks of hosts and servers may be apart.
	Timeout time.Duration
	// ClockTolerance returns that of userstate.Rules, which the callers decide by; nil means that of userstate.DefaultRules. An update
	// that a caller decided by a clock takes effect before the server's clock is half of it after the call, or not at all.
	ClockTolerance func() time.Duration
	// Settings are the settings that Init records in a new database, by key.
	Settings map[string]string
	// BulkOperations is how many updates one command holds, at most MaxBulkOperations; 0 is DefaultBulkOperations.
	BulkOperations int
	// BulkBytes is how many bytes of updates one command holds, at most MaxBulkBytes; 0 is DefaultBulkBytes. A single update
	// may be larger, up to the size limit of a document.
	BulkBytes int
	// Concurrency is how many single updates one call runs at the same time; 0 is DefaultConcurrency.
	Concurrency int
	// Now returns the current time. Required. A search for the newest messages starts there. Now affects how fast an answer is
	// found, not which answer.
	Now func() time.Time
	// Stamp returns the time with which messages are stamped when they are stored. If nil, the server's clock stamps them. It
	// must be nil if several hosts publish.
	Stamp func() time.Time
	// KeyGrace is how long after its expiry the server removes an idempotency key that no publisher has removed. So long it also keeps the
	// revision of a removed topic or identity. It is whole seconds; 0 is DefaultKeyGrace. The server uses its own clock, so a test with
	// another Now sets a long KeyGrace. The value is fixed when the database is initialized.
	KeyGrace time.Duration
	// Logger receives warnings for the operator.
	Logger zerolog.Logger
	// Metrics is the registry of the metrics; nil registers none.
	Metrics prometheus.Registerer
	// Monitor receives every command. If nil, commands are not monitored.
	Monitor *event.CommandMonitor
}

// Each returns a monitor that calls do when a command begins, or nil if do is nil.
func Each(do func()) *event.CommandMonitor {
	if do == nil {
		return nil
	}
	return &event.CommandMonitor{Started: func(context.Context, *event.CommandStartedEvent) { do() }}
}

func (o Options) withDefaults() (Options, error) {
	if o.URI == "" || o.Now == nil {
		return o, errors.New("options: URI and Now are required")
	}
	setDefault(&o.Database, DefaultDatabase)
	setDefault(&o.Partitions, partition.DefaultCount)
	setDefault(&o.BucketSize, bucket.Capacity)
	setDefault(&o.Timeout, DefaultTimeout)
	if o.ClockTolerance == nil {
		o.ClockTolerance = func() time.Duration { return userstate.DefaultRules().ClockTolerance }
	}
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
	pool     *Pool
	apart    []*mongo.Client // see Apart
	database *mongo.Database
	opts     Options
	server   server
	plain    *DB // see Plain
	watch    *watch
	hosts    []string      // as the connection string names them
	epoch    *atomic.Int64 // shared by all views of the database
	metrics  *storemetrics.Metrics

	messages *Messages
	keys     *Keys
	inbox    *Inbox
	users    *Users
	edges    *Edges
	progress *Progress
	settings *Settings
	walk     *Retention
	passes   *Retention
	sweep    *Retention
	topics   *Topics
	flags    *Flags

	identities *Identities
}

// Open connects to a server and checks that the database was initialized with the configured values. If the server does not
// answer, Open logs that and waits until ctx ends. It returns an error that wraps ErrNotInitialized, ErrFormat, ErrPartitions
// or ErrCapacity if the check fails.
func Open(ctx context.Context, opts Options) (*DB, error) {
	db, err := Connect(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := db.Await(ctx, db.Check); err != nil {
		return nil, errors.Join(fmt.Errorf("open the database %s: %w", db.database.Name(), err), db.close(ctx))
	}
	return db, nil
}

// Connect is Open without the check. Use it before Init.
func Connect(ctx context.Context, opts Options) (*DB, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("mongostore: %w", err)
	}
	db := &DB{opts: opts, watch: newWatch(opts.Logger), epoch: new(atomic.Int64), metrics: storemetrics.New(opts.Metrics, opts.Now)}
	if err := db.dial(db.watch.monitor()); err != nil {
		return nil, fmt.Errorf("mongostore: connect: %w", err)
	}
	if db.server, err = db.greet(ctx); err != nil {
		return nil, errors.Join(err, db.close(ctx))
	}
	db.open()
	return db, nil
}

// dial makes a client. It connects when it is used.
func (db *DB) dial(monitor *event.ServerMonitor) error {
	o := clientOptions(db.opts).SetServerMonitor(monitor)
	if err := secure(o, db.opts); err != nil {
		return err
	}
	connections := uint64(defaultPool)
	if o.MaxPoolSize != nil {
		connections = *o.MaxPoolSize
	}
	pool := NewPool(connections)
	client, err := mongo.Connect(o.SetPoolMonitor(pool.monitor()))
	if err != nil {
		return withoutSecrets(err, db.opts.URI)
	}
	db.client, db.hosts, db.pool = client, o.Hosts, pool
	return nil
}

// defaultPool is how many connections the driver makes to a server if the connection string does not say it.
const defaultPool = 100

// Apart returns the same database over connections of its own. So calls for a part of the database that is away take no connection from others.
// Close of the first one closes them, too.
func (db *DB) Apart() (*DB, error) {
	other := *db
	if err := other.dial(nil); err != nil {
		return nil, fmt.Errorf("mongostore: connect: %w", err)
	}
	db.apart = append(db.apart, other.client)
	other.open()
	return &other, nil
}

func clientOptions(opts Options) *options.ClientOptions {
	majority := writeconcern.Majority()
	majority.Journal = new(true)
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

// open creates the stores, and those of Plain.
func (db *DB) open() {
	if !db.server.replicated() {
		db.plain = db
		db.openFor(readconcern.Local())
		return
	}
	plain := *db
	db.plain, plain.plain = &plain, &plain
	plain.openFor(readconcern.Majority())
	db.openFor(readconcern.Linearizable())
}

// Plain returns the same database with other stores, for what is merely shown. A majority had what they read, but a deposed primary may answer
// from a state that is seconds old. Close the first one only.
func (db *DB) Plain() *DB { return db.plain }

// openFor creates the stores, which read with a read concern.
func (db *DB) openFor(concern *readconcern.ReadConcern) {
	db.database = db.client.Database(db.opts.Database, options.Database().SetReadConcern(concern))
	db.messages = &Messages{c: db.collection(messagesName), ceiling: newCeiling(db.collection(metaName))}
	db.keys = &Keys{c: db.collection(keysName)}
	db.inbox = &Inbox{c: db.collection(inboxName), size: bucket.Size(db.opts.BucketSize)}
	db.users = &Users{c: db.collection(usersName)}
	db.edges = &Edges{followers: db.collection(followersName), following: db.collection(followingName), pages: newPages()}
	db.progress = &Progress{c: db.collection(fanoutsName)}
	db.settings = &Settings{c: db.collection(metaName)}
	meta := db.collection(metaName)
	db.walk, db.passes, db.sweep = &Retention{meta, walkID}, &Retention{meta, passesID}, &Retention{meta, sweepID}
	db.identities = &Identities{c: db.collection(identitiesName), lists: db.collection(listsName)}
	db.topics = &Topics{c: db.collection(topicsName)}
	db.flags = &Flags{c: db.collection(flagsName)}
}

// Healthy returns nil if the server answers. A broken connection is not a failure: Healthy then asks again.
func (db *DB) Healthy(ctx context.Context) error {
	return db.call(ctx, "ping", func(ctx context.Context) error { return db.client.Ping(ctx, readpref.Primary()) })
}

// Clock returns the time of the server that stamps messages, at some moment of the call: the primary's, or that of a router of a sharded
// cluster. It asks once, so the caller knows when.
func (db *DB) Clock(ctx context.Context) (time.Time, error) {
	var hello struct {
		LocalTime time.Time `bson:"localTime"`
	}
	err := db.within(ctx, "read the clock", func(ctx context.Context) error {
		return db.client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
	})
	return hello.LocalTime, err
}

// closeTimeout is how long Close waits for connections that are in use.
const closeTimeout = 10 * time.Second

// Close closes all connections. Later calls return ErrClosed. A second Close does nothing.
func (db *DB) Close() error { return db.close(context.Background()) }

func (db *DB) close(ctx context.Context) error {
	db.watch.end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	var failed error
	for _, client := range append(db.apart, db.client) {
		if err := client.Disconnect(ctx); err != nil && !errors.Is(err, mongo.ErrClientDisconnected) {
			failed = fmt.Errorf("mongostore: close: %w", err)
		}
	}
	return failed
}

// Drop removes the database with everything in it. Only benchmarks call it, on a database of their own.
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

// Settings returns the store of the recorded settings and of the processes.
func (db *DB) Settings() *Settings { return db.settings }

// Retention returns the store of the record of the walk over all users.
func (db *DB) Retention() *Retention { return db.walk }

// Passes returns the store of the record of the pass over all edges.
func (db *DB) Passes() *Retention { return db.passes }

// Sweep returns the store of the record of the process that resumes stopped messages. Only its lease is used.
func (db *DB) Sweep() *Retention { return db.sweep }

// Identities returns the store of identities.
func (db *DB) Identities() *Identities { return db.identities }

// Topics returns the store of topics.
func (db *DB) Topics() *Topics { return db.topics }

// Flags returns the store of the flags of inboxes.
func (db *DB) Flags() *Flags { return db.flags }
