package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/messagecache"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/settings"
)

// world has the store and the bus of an App. The App opens them, and closes them when the roles have stopped.
type world struct {
	store  *Store
	server Server
	bus    *natsbus.Bus
	// awaited is the dependency that the start waits for, as a string.
	awaited atomic.Value
}

// waiting returns the dependency that the start waits for.
func (w *world) waiting() string {
	what, _ := w.awaited.Load().(string)
	return what
}

// open opens the stores and connects to the bus. It waits for each of them until ctx ends. After an error it closes everything.
func (w *world) open(ctx context.Context, cfg config.Config, current *settings.Current, opts Options) (_ Parts, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	w.awaited.Store("the store")
	if w.store, err = openStore(ctx, cfg, current, opts); err != nil {
		return Parts{}, err
	}
	w.awaited.Store("the bus")
	if err := w.openBus(ctx, cfg, opts); err != nil {
		return Parts{}, err
	}
	parts := w.store.Parts
	parts.Messages = messagecache.Wrap(parts.Messages, w.store.Messages)
	if parts.Delivery != nil {
		parts.Delivery.Messages = messagecache.Wrap(parts.Delivery.Messages, w.store.Messages)
	}
	parts.Bus = w.bus
	return parts, nil
}

func (w *world) openBus(ctx context.Context, cfg config.Config, opts Options) (err error) {
	options := natsbus.Options{
		URL: string(cfg.NATS.URL), CredentialsFile: cfg.NATS.CredentialsFile, CAFile: cfg.NATS.CAFile,
		CertFile: cfg.NATS.CertFile, KeyFile: cfg.NATS.KeyFile, Replicas: cfg.NATS.Replicas,
		Partitions: cfg.Partitions, Lease: cfg.NATS.AckWait, Logger: opts.Logger, Metrics: opts.Metrics,
		PublishedBytes: int64(cfg.NATS.MaxPublished), FanoutBytes: int64(cfg.NATS.MaxFanout),
		LoginBytes: int64(cfg.NATS.MaxLogin), DeadLetterBytes: int64(cfg.NATS.MaxDLQ),
	}
	if options.URL == "" {
		if w.server, err = opts.Embedded.StartServer(ctx, cfg, opts.Logger); err != nil {
			return err
		}
		options.Server = w.server
	} else {
		options.Logger = opts.Logger.With().Stringer("nats_url", cfg.NATS.URL).Logger() // its String has no secrets
	}
	if w.bus, err = awaitBus(ctx, options); err != nil && options.URL != "" {
		err = fmt.Errorf("NATS at %s: %w", cfg.NATS.URL, err)
	}
	return err
}

// awaitBus connects to the bus. It tries again until the bus answers or ctx ends.
func awaitBus(ctx context.Context, options natsbus.Options) (*natsbus.Bus, error) {
	pause := backoff.NewExponentialBackOff()
	pause.MaxInterval = awaitAtMost
	return backoff.Retry(ctx, func() (*natsbus.Bus, error) {
		connected, err := natsbus.Connect(ctx, options)
		if err != nil && !errors.Is(err, bus.ErrUnavailable) {
			err = backoff.Permanent(err)
		}
		return connected, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, next time.Duration) {
		options.Logger.Warn().Err(err).Stringer("again_in", next.Round(time.Millisecond)).Msg("the bus does not answer: waiting for it")
	}))
}

// awaitAtMost is the longest pause between two attempts to connect to the bus.
const awaitAtMost = 5 * time.Second

// close closes everything that is open. It is idempotent.
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
