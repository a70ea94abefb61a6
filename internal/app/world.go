package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/progress"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Bus is what the roles need of a bus.
type Bus interface {
	publish.Emitter
	fanout.Bus
}

// Parts is what the roles are built on.
type Parts struct {
	Messages message.Store
	Keys     message.KeyStore
	Inbox    bucket.Store
	Users    userstate.Store
	Edges    follow.Store
	Progress progress.Store

	Bus Bus
	// Fetch returns published events, at least one and at most limit, or the error of a ctx that has ended.
	Fetch func(ctx context.Context, limit int) ([]fanout.Received, error)
	// FetchLogins returns login events, at least one and at most limit, or the error of a ctx that has ended.
	FetchLogins func(ctx context.Context, limit int) ([]rehydrate.Received, error)
	// EmitRehydrated tells whoever listens that a user is rehydrated.
	EmitRehydrated func(event.Rehydrated)
	// Take returns a task of a lane and partition as soon as there is one that nobody holds.
	Take func(ctx context.Context, lane event.Lane, partition int) (fanout.Held, error)
	// Waiting tells since when the oldest published event and the oldest task have been on the bus.
	Waiting func(ctx context.Context) (events, tasks time.Time, err error)
}

// maxStreamBytes bounds the sizes of all streams together. Each has a limit of its own in the configuration, so this one
// only has to be out of their way, also where a stream was declared larger than it is configured now.
const maxStreamBytes = 4 << 40

// world is what an App opens, and closes when nobody uses it any more.
type world struct {
	store  *pebblestore.DB
	server *natsbus.Server
	bus    *natsbus.Bus
}

// open opens the data folder and connects to the bus in it. After an error nothing is left open.
func (w *world) open(ctx context.Context, cfg config.Config, opts Options) (_ Parts, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	w.store, err = pebblestore.Open(ctx, filepath.Join(cfg.Data, "store"), pebblestore.Options{
		Partitions: cfg.Partitions, Now: opts.Now, Logger: opts.Logger,
		CacheBytes: int64(cfg.Store.Cache), MemTableBytes: int64(cfg.Store.Memtable),
		RememberedOwners: cfg.Store.RememberedOwners, RememberedMessages: cfg.Store.RememberedMessages,
	})
	if err != nil {
		return Parts{}, err
	}
	w.server, err = natsbus.StartEmbedded(ctx, natsbus.EmbeddedOptions{
		Dir: filepath.Join(cfg.Data, "nats"), Addr: cfg.NATS.Listen, SyncAlways: cfg.NATS.SyncAlways,
		MaxStoreBytes: maxStreamBytes, Logger: opts.Logger,
	})
	if err != nil {
		return Parts{}, err
	}
	w.bus, err = natsbus.Connect(ctx, natsbus.Options{
		Server: w.server, Partitions: cfg.Partitions, Lease: cfg.NATS.AckWait, Logger: opts.Logger,
		PublishedBytes: int64(cfg.NATS.MaxPublished), FanoutBytes: int64(cfg.NATS.MaxFanout),
		LoginBytes: int64(cfg.NATS.MaxLogin), DeadLetterBytes: int64(cfg.NATS.MaxDLQ),
	})
	if err != nil {
		return Parts{}, err
	}
	return Parts{
		Messages: w.store.Messages(), Keys: w.store.Keys(), Inbox: w.store.Inbox(),
		Users: w.store.Users(), Edges: w.store.Edges(), Progress: w.store.Progress(),
		Bus: w.bus, Fetch: w.fetch, FetchLogins: w.fetchLogins, EmitRehydrated: w.bus.EmitRehydrated,
		Take: w.take, Waiting: w.bus.Waiting,
	}, nil
}

// fetch is natsbus.Bus.FetchPublished, in the words of package fanout.
func (w *world) fetch(ctx context.Context, limit int) ([]fanout.Received, error) {
	events, err := w.bus.FetchPublished(ctx, limit)
	received := make([]fanout.Received, len(events))
	for i, e := range events {
		received[i] = e
	}
	return received, err
}

// fetchLogins is natsbus.Bus.FetchLogins, in the words of package rehydrate.
func (w *world) fetchLogins(ctx context.Context, limit int) ([]rehydrate.Received, error) {
	events, err := w.bus.FetchLogins(ctx, limit)
	received := make([]rehydrate.Received, len(events))
	for i, e := range events {
		received[i] = e
	}
	return received, err
}

// take is natsbus.Bus.Take, in the words of package fanout.
func (w *world) take(ctx context.Context, lane event.Lane, partition int) (fanout.Held, error) {
	held, err := w.bus.Take(ctx, lane, partition)
	if err != nil {
		return nil, err
	}
	return held, nil
}

// readyTimeout is how long the bus may take to answer before this process counts as not ready.
const readyTimeout = 2 * time.Second

// ready returns why requests cannot be served now, or nil.
func (w *world) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := w.bus.Healthy(ctx); err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	return nil
}

// close closes what is open. It may be called more than once.
func (w *world) close() error {
	var err error
	if w.bus != nil {
		w.bus.Close()
	}
	if w.server != nil {
		w.server.Stop()
	}
	if w.store != nil {
		err = w.store.Close()
	}
	w.bus, w.server, w.store = nil, nil, nil
	return err
}
