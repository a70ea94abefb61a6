package rig

import (
	"context"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Backend holds the databases of rigs.
type Backend interface {
	// Create opens an empty database, with buckets of a size, that no other rig uses.
	Create(ctx context.Context, clock *Clock, size int) (*DB, error)
}

// DB is an open database: every store, without a seam.
type DB struct {
	Messages message.Store
	Keys     message.KeyStore
	Progress progress.Store
	Users    userstate.Store
	Edges    follow.Store
	Inbox    bucket.Store
	Walk     retention.Store
	Passes   retention.Store
	Topics   topic.Store
	Flags    flag.Store
	// Lossless tells that a crash loses nothing that a store has returned from: what may be lazy is not.
	Lossless bool
	// Epoch is that of the store; nil if a crash loses nothing.
	Epoch func() uint64

	// close closes the database permanently.
	close func() error
	// crash ends the process that has the database open, and opens the remaining data for the next process.
	crash func(ctx context.Context, unsyncedPercent int, seed uint64) (*DB, error)
}
