package app

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/settings"
)

// Embedded opens the engines that run inside this process. Package internal/app/embedded implements it.
type Embedded interface {
	// OpenStore opens the store in the data folder, and opens current on it.
	OpenStore(ctx context.Context, cfg config.Config, current *settings.Current, opts Options) (*Store, error)
	// StartServer starts the NATS server with its data in the data folder.
	StartServer(ctx context.Context, cfg config.Config, logger zerolog.Logger) (Server, error)
}

// Server is a NATS server inside this process.
type Server interface {
	// InProcessConn returns a new connection to the server.
	InProcessConn() (net.Conn, error)
	// Stop stops the server and returns when its files are closed. It is idempotent.
	Stop()
}

// ErrNotEmbedded means that the configuration names an embedded engine, but the program contains none.
var ErrNotEmbedded = errors.New("roles that run apart share a store and a bus")

// checkEngines returns an error that wraps ErrNotEmbedded if the configuration names an engine that this program does not
// contain.
func (a *App) checkEngines() error {
	switch cfg := a.config; {
	case a.opts.Embedded != nil:
		return nil
	case cfg.Store == config.StoreEmbedded:
		return fmt.Errorf("store is %q, which belongs to one process: run all roles in one process by 'fanmail serve', "+
			"or set store to %q: %w", cfg.Store, config.StoreMongoDB, ErrNotEmbedded)
	case cfg.NATS.URL == "":
		return fmt.Errorf("nats.url is empty, and the embedded NATS server belongs to one process: set nats.url to the URL of your NATS "+
			"servers, or run all roles in one process by 'fanmail serve': %w", ErrNotEmbedded)
	default:
		return nil
	}
}
