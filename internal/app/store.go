package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/backup"
	"github.com/fanmail/fanmail/internal/messagecache"
	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/settings"
)

// Store is an open store.
type Store struct {
	// Parts has the stores only, no bus.
	Parts Parts
	// Available returns the free space, in bytes, of the store's disk. It is nil for the store on MongoDB, whose disk belongs to a
	// server.
	Available func() (uint64, error)
	// Clock returns what the clock shows that stamps messages, at some moment of the call.
	Clock func(context.Context) (time.Time, error)
	// Epoch returns that of the store: see inbox.Position.
	Epoch func() uint64
	// Healthy returns nil if the store answers.
	Healthy func(context.Context) error
	Close   func() error
	// Backup saves the store. It is nil for the store on MongoDB.
	Backup backup.Store

	// Messages caches recently read messages.
	Messages *messagecache.Cache

	room *room // nil if Available is nil
}

// openStore opens the configured store, and the recorded settings in it. The caller has checked that this program contains the
// store.
func openStore(ctx context.Context, cfg config.Config, current *settings.Current, opts Options) (*Store, error) {
	if cfg.Store == config.StoreMongoDB {
		return openMongoDB(ctx, cfg, current, opts)
	}
	s, err := opts.Embedded.OpenStore(ctx, cfg, current, opts)
	if err != nil {
		return nil, err
	}
	if s.Available != nil {
		s.room = &room{available: s.Available, least: cfg.Embedded.MinFree, now: opts.Now, logger: opts.Logger}
		s.room.measure(opts.Metrics)
	}
	return s, nil
}

// messageBytes is the size of the message cache for MongoDB.
const messageBytes = 40 << 20

func openMongoDB(ctx context.Context, cfg config.Config, current *settings.Current, opts Options) (*Store, error) {
	options, err := mongoOptions(cfg, opts)
	options.ClockTolerance, options.Metrics = current.ClockTolerance, opts.Metrics
	if err != nil {
		return nil, err
	}
	db, err := mongostore.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := db.Await(ctx, func(ctx context.Context) error { return current.Open(ctx, db.Settings()) }); err != nil {
		return nil, errors.Join(err, db.Close()) //nolint:contextcheck // the database is closed also after ctx has ended
	}
	apart, err := db.Apart()
	if err != nil {
		return nil, errors.Join(err, db.Close()) //nolint:contextcheck // as above
	}
	parts := partsOf(db)
	parts.Delivery = partsOf(apart)
	return &Store{
		Parts:    *parts,
		Messages: messagecache.New(messageBytes),
		Clock:    db.Clock,
		Epoch:    db.Epoch,
		Healthy:  db.Healthy,
		Close:    db.Close,
	}, nil
}

func partsOf(db *mongostore.DB) *Parts {
	all := func(db *mongostore.DB) *Parts {
		return &Parts{
			Messages: db.Messages(), Keys: db.Keys(), Inbox: db.Inbox(), Users: db.Users(), Edges: db.Edges(), Progress: db.Progress(),
			Walk: db.Retention(), Passes: db.Passes(), Sweep: db.Sweep(), Identities: db.Identities(), Topics: db.Topics(), Flags: db.Flags(),
			Index: db.Inbox(),
		}
	}
	parts := all(db)
	parts.Shown = all(db.Plain())
	return parts
}

func mongoOptions(cfg config.Config, opts Options) (mongostore.Options, error) {
	m := cfg.MongoDB
	uri, err := mongoURI(m)
	return mongostore.Options{
		URI: uri, CAFile: m.CAFile, CertFile: m.CertFile, Database: m.Database, Partitions: cfg.Partitions, BucketSize: cfg.Inbox.BucketSize, Timeout: m.Timeout,
		Settings: cfg.Recorded().Texts(), BulkOperations: m.BulkOperations, BulkBytes: int(m.BulkBytes), Concurrency: m.Concurrency,
		Now: opts.Now, Stamp: opts.Stamp, Logger: opts.Logger, Monitor: mongostore.Each(opts.Command),
	}, err
}

// connect connects to the store on MongoDB, even if it is not initialized.
func connect(ctx context.Context, cfg config.Config, logger zerolog.Logger) (*mongostore.DB, error) {
	options, err := mongoOptions(cfg, Options{Logger: logger, Now: now})
	if err != nil {
		return nil, err
	}
	return mongostore.Connect(ctx, options)
}

// ErrNothingToInit says that the embedded store needs no Init.
var ErrNothingToInit = errors.New("the embedded store needs no initialization: it is made when the server starts")

// Restored begins a new epoch, after the database of the store on MongoDB was restored: see mongostore.DB.BeginEpoch.
func Restored(ctx context.Context, cfg config.Config, logger zerolog.Logger) error {
	db, err := connect(ctx, cfg, logger)
	if err != nil {
		return err
	}
	return errors.Join(db.BeginEpoch(ctx), db.Close()) //nolint:contextcheck // the database is closed also after ctx has ended
}

// Init prepares the database of the store on MongoDB. It is idempotent: see mongostore.DB.Init.
func Init(ctx context.Context, cfg config.Config, shard bool, logger zerolog.Logger) error {
	if cfg.Store != config.StoreMongoDB {
		return ErrNothingToInit
	}
	db, err := connect(ctx, cfg, logger)
	if err != nil {
		return err
	}
	if err := errors.Join(db.Init(ctx, shard), db.Close()); err != nil { //nolint:contextcheck // the database is closed also after ctx has ended
		return fmt.Errorf("admin init: %w", err)
	}
	return nil
}

// Drop removes the database of a store on MongoDB. Only benchmarks call it, for databases that they have created.
func Drop(ctx context.Context, cfg config.Config, logger zerolog.Logger) error {
	db, err := connect(ctx, cfg, logger)
	if err != nil {
		return err
	}
	return errors.Join(db.Drop(ctx), db.Close()) //nolint:contextcheck // the database is closed also after ctx has ended
}
