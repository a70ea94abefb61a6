package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/pebblestore"
)

// store is an open store of either kind.
type store struct {
	parts Parts // those that a store holds
	// room returns nil, or why nothing new is to be accepted; it is nil where the store is on somebody else's disk.
	room    func() error
	metrics []prometheus.Collector
	healthy func(context.Context) error
	close   func() error
}

func openStore(ctx context.Context, cfg config.Config, opts Options) (*store, error) {
	if cfg.Store == config.StoreMongoDB {
		return openMongoDB(ctx, cfg, opts)
	}
	return openEmbedded(ctx, cfg, opts)
}

func openEmbedded(ctx context.Context, cfg config.Config, opts Options) (*store, error) {
	stamp := opts.Stamp
	if stamp == nil {
		stamp = opts.Now
	}
	db, err := pebblestore.Open(ctx, filepath.Join(cfg.Data, "store"), pebblestore.Options{
		Partitions: cfg.Partitions, Now: stamp, Logger: opts.Logger,
		CacheBytes: int64(cfg.Embedded.Cache), MemTableBytes: int64(cfg.Embedded.Memtable),
		RememberedOwners: cfg.Embedded.RememberedOwners, RememberedMessages: cfg.Embedded.RememberedMessages,
	})
	if err != nil {
		return nil, err
	}
	disk := &room{available: db.Available, least: cfg.Embedded.MinFree, now: opts.Now, logger: opts.Logger}
	return &store{
		parts: Parts{
			Messages: db.Messages(), Keys: db.Keys(), Inbox: db.Inbox(), Users: db.Users(), Edges: db.Edges(), Progress: db.Progress(),
		},
		room:    disk.check,
		metrics: []prometheus.Collector{db, disk},
		healthy: func(context.Context) error { return nil }, // it is in this process: whatever is wrong with it ends that
		close:   db.Close,
	}, nil
}

func openMongoDB(ctx context.Context, cfg config.Config, opts Options) (*store, error) {
	options, err := mongoOptions(cfg, opts)
	if err != nil {
		return nil, err
	}
	db, err := mongostore.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	return &store{
		parts: Parts{
			Messages: db.Messages(), Keys: db.Keys(), Inbox: db.Inbox(), Users: db.Users(), Edges: db.Edges(), Progress: db.Progress(),
		},
		healthy: db.Healthy,
		close:   db.Close,
	}, nil
}

func mongoOptions(cfg config.Config, opts Options) (mongostore.Options, error) {
	m := cfg.MongoDB
	uri, err := mongoURI(m)
	return mongostore.Options{
		URI: uri, CAFile: m.CAFile, CertFile: m.CertFile, Database: m.Database, Partitions: cfg.Partitions, Timeout: m.Timeout,
		BulkOperations: m.BulkOperations, BulkBytes: int(m.BulkBytes), Concurrency: m.Concurrency,
		Now: opts.Now, Stamp: opts.Stamp, Logger: opts.Logger,
	}, err
}

// connect connects to the store on MongoDB, initialized or not.
func connect(ctx context.Context, cfg config.Config, logger zerolog.Logger) (*mongostore.DB, error) {
	options, err := mongoOptions(cfg, Options{Logger: logger, Now: now})
	if err != nil {
		return nil, err
	}
	return mongostore.Connect(ctx, options)
}

// ErrNothingToInit says that the embedded store makes what it needs by itself.
var ErrNothingToInit = errors.New("the embedded store needs no initialization: it is made when the server starts")

// Init makes what the store on MongoDB needs, or makes sure that it is there: see mongostore.DB.Init.
func Init(ctx context.Context, cfg config.Config, shard bool, logger zerolog.Logger) error {
	if cfg.Store != config.StoreMongoDB {
		return ErrNothingToInit
	}
	db, err := connect(ctx, cfg, logger)
	if err != nil {
		return err
	}
	if err := errors.Join(db.Init(ctx, shard), db.Close()); err != nil { //nolint:contextcheck // what is open is closed, whoever has stopped waiting
		return fmt.Errorf("admin init: %w", err)
	}
	return nil
}

// Drop removes the database of a store on MongoDB with everything in it: that of a benchmark, which nobody else uses.
func Drop(ctx context.Context, cfg config.Config, logger zerolog.Logger) error {
	db, err := connect(ctx, cfg, logger)
	if err != nil {
		return err
	}
	return errors.Join(db.Drop(ctx), db.Close()) //nolint:contextcheck // what is open is closed, whoever has stopped waiting
}
