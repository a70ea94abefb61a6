// Package embedded has the engines that can run inside a Fanmail process: the Pebble store and the NATS server. It is a package
// of its own, so that a program that uses MongoDB and NATS servers elsewhere does not link them.
package embedded

import (
	"context"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/messagecache"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/internal/pebblestore"
)

// Engines opens the engines in the data folder of a configuration. It implements app.Embedded.
type Engines struct{}

// OpenStore opens the Pebble store.
func (Engines) OpenStore(ctx context.Context, cfg config.Config, opts app.Options) (*app.Store, error) {
	stamp := opts.Stamp
	if stamp == nil {
		stamp = opts.Now
	}
	messages := messagecache.New(cfg.Embedded.RememberedMessages * messagecache.MessageBytes)
	db, err := pebblestore.Open(ctx, filepath.Join(cfg.Data, "store"), pebblestore.Options{
		Partitions: cfg.Partitions, Now: stamp, Logger: opts.Logger, Metrics: opts.Metrics,
		CacheBytes: int64(cfg.Embedded.Cache), MemTableBytes: int64(cfg.Embedded.Memtable),
		RememberedOwners: cfg.Embedded.RememberedOwners, Messages: messages,
	})
	if err != nil {
		return nil, err
	}
	return &app.Store{
		Parts: app.Parts{
			Messages: db.Messages(), Keys: db.Keys(), Inbox: db.Inbox(), Users: db.Users(), Edges: db.Edges(), Progress: db.Progress(),
		},
		Available: db.Available,
		Messages:  messages,
		Healthy:   func(context.Context) error { return nil }, // a failure of the store ends the process
		Close:     db.Close,
	}, nil
}

// maxStreamBytes limits the sizes of all streams together. It is out of the way of the limits that the configuration has for
// each stream, also of a stream that was declared larger than it is configured now.
const maxStreamBytes = 4 << 40

// StartServer starts the NATS server.
func (Engines) StartServer(ctx context.Context, cfg config.Config, logger zerolog.Logger) (app.Server, error) {
	server, err := natsserver.Start(ctx, natsserver.Options{
		Dir: filepath.Join(cfg.Data, "nats"), Addr: cfg.NATS.Listen, SyncAlways: cfg.NATS.SyncAlways,
		MaxStoreBytes: maxStreamBytes, Logger: logger,
	})
	if err != nil {
		return nil, err // not the nil *natsserver.Server, which would be a Server that is not nil
	}
	return server, nil
}
