package app

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/config"
)

// Role is a part of Fanmail that can run in a process of its own.
type Role string

// The roles. A process without any has all of them.
const (
	// Publisher accepts messages and edges.
	Publisher Role = "publisher"
	// FanoutWorker copies messages into inboxes.
	FanoutWorker Role = "fanout-worker"
	// Rehydrator serves inboxes, and rebuilds those of whoever comes back.
	Rehydrator Role = "rehydrator"
)

// has tells whether this process has a role.
func (a *App) has(role Role) bool {
	return len(a.opts.Roles) == 0 || slices.Contains(a.opts.Roles, role)
}

// ErrShared says that a process with some of the roles cannot have for itself what it has to share with the others.
var ErrShared = errors.New("roles that run apart share a store and a bus")

// CheckApart returns an error that wraps ErrShared unless the configuration is one that several processes can share.
func CheckApart(cfg config.Config) error {
	switch {
	case cfg.Store == config.StoreEmbedded:
		return fmt.Errorf("store is %q, which belongs to one process: run all roles in one process by 'fanmail serve', "+
			"or set store to %q: %w", cfg.Store, config.StoreMongoDB, ErrShared)
	case cfg.NATS.URL == "":
		return fmt.Errorf("nats.url is empty, and the embedded NATS server belongs to one process: set nats.url to where the NATS "+
			"servers are, or run all roles in one process by 'fanmail serve': %w", ErrShared)
	}
	return nil
}
