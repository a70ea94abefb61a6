// Package embedded has the engines that can run inside a Fanmail process: the Pebble store and the NATS server. It is a package
// of its own, so that a program that uses MongoDB and NATS servers elsewhere does not link them.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/messagecache"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/settings"
)

// Engines opens the engines in the data folder of a configuration. It implements app.Embedded.
type Engines struct{}

// OpenStore opens the Pebble store.
func (Engines) OpenStore(ctx context.Context, cfg config.Config, current *settings.Current, opts app.Options) (*app.Store, error) {
	streams := filepath.Join(cfg.Data, "nats")
	if _, err := os.Stat(streams); cfg.NATS.URL != "" && err == nil { // a restore has made them, or a server without nats.url
		return nil, fmt.Errorf("with nats.url no server reads the logins and dead letters in %s: start once without it, redrive or drop all "+
			"dead letters (fanmail dlq), stop, and remove that folder", streams)
	}
	stamp := opts.Stamp
	if stamp == nil {
		stamp = newStampClock(opts.Now, opts.Elapsed, current.ClockTolerance).now
	}
	files, err := app.StoreFiles()
	if err != nil {
		return nil, err
	}
	messages := messagecache.New(cfg.Embedded.RememberedMessages * messagecache.MessageBytes)
	db, err := pebblestore.Open(ctx, filepath.Join(cfg.Data, "store"), pebblestore.Options{
		Partitions: cfg.Partitions, BucketSize: cfg.Inbox.BucketSize, Settings: cfg.Recorded().Texts(), Now: stamp, Logger: opts.Logger, Metrics: opts.Metrics,
		CacheBytes: int64(cfg.Embedded.Cache), MemTableBytes: int64(cfg.Embedded.Memtable),
		MaxOpenFiles: files, RememberedOwners: cfg.Embedded.RememberedOwners, TableEntries: cfg.Embedded.TableEntries, Messages: messages,
	})
	if err != nil {
		return nil, folderError(err)
	}
	err = current.Open(ctx, db.Settings())
	if err == nil {
		err = checkClock(ctx, db.Messages(), stamp(), current.ClockTolerance(), opts)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &app.Store{
		Parts: app.Parts{
			Messages: db.Messages(), Keys: db.Keys(), Inbox: db.Inbox(), Users: db.Users(), Edges: db.Edges(), Progress: db.Progress(),
			Walk: db.Retention(), Passes: db.Passes(), Identities: db.Identities(), Topics: db.Topics(), Flags: db.Flags(),
		},
		Available: db.Available,
		Messages:  messages,
		Clock:     func(context.Context) (time.Time, error) { return stamp(), nil },
		Epoch:     db.Epoch,
		Healthy:   db.Healthy,
		Close:     db.Close,
		Backup:    db,
	}, nil
}

// isFolderError reports whether another data folder can help.
func isFolderError(err error) bool {
	for _, target := range []error{pebblestore.ErrLocked, pebblestore.ErrForeign, natsserver.ErrLocked} {
		if errors.Is(err, target) {
			return true
		}
	}
	_, is := errors.AsType[*fs.PathError](err)
	return is
}

// folderError adds the flag of the data folder to an error of that folder.
func folderError(err error) error {
	if isFolderError(err) {
		return fmt.Errorf("%w; --data or FANMAIL_DATA names the data folder", err)
	}
	return err
}

// checkClock compares the clock with the newest stamp in the store. If the stamp is later by more than the tolerance, the clock was ahead
// when that message was stored, or is behind now. checkClock only logs and measures this.
func checkClock(ctx context.Context, messages *pebblestore.Messages, now time.Time, tolerance time.Duration, opts app.Options) error {
	newest, err := messages.NewestStamp(ctx)
	if err != nil {
		return fmt.Errorf("compare the clock with the store: %w", err)
	}
	behind := max(0, newest.Sub(now))
	if newest.IsZero() || behind <= tolerance {
		behind = 0
	}
	promauto.With(opts.Metrics).NewGauge(prometheus.GaugeOpts{
		Name: "fanmail_embedded_clock_behind_seconds",
		Help: "How far the newest stamp in the embedded store was ahead of the clock at the start, if that is more than clock_tolerance, or 0.",
	}).Set(behind.Seconds())
	if behind > 0 {
		opts.Logger.Error().Time("newest", newest).Time("now", now).Stringer("behind", behind.Round(time.Millisecond)).
			Msg("the newest message in the store is later than the clock: the clock was ahead, or is behind now")
	}
	return nil
}

// maxStreamBytes limits the sizes of all streams together. It is above the configured limits of all streams, also for a stream that was
// declared larger before.
const maxStreamBytes = 4 << 40

// StartServer starts the NATS server.
func (Engines) StartServer(ctx context.Context, cfg config.Config, logger zerolog.Logger) (app.Server, error) {
	server, err := natsserver.Start(ctx, natsserver.Options{
		Dir: filepath.Join(cfg.Data, "nats"), Addr: cfg.NATS.Listen, SyncAlways: cfg.NATS.SyncAlways,
		MaxStoreBytes: maxStreamBytes, Logger: logger,
	})
	if err != nil {
		switch {
		case isFolderError(err):
			err = folderError(err)
		case cfg.NATS.Listen != "" && natsserver.IsListenError(err):
			err = fmt.Errorf("%w; --nats-listen or FANMAIL_NATS_LISTEN names the address %s", err, cfg.NATS.Listen)
		}
		return nil, err // not the nil *natsserver.Server, which would be a Server that is not nil
	}
	return server, nil
}
