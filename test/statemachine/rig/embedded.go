package rig

import (
	"context"
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest"
)

// Embedded is the embedded store, on file systems in memory. A crash keeps all synced writes and a part of the others.
type Embedded struct {
	// TableEntries is the number of entries in one partition from which a push is written as tables; 0 means the default of the store,
	// which is more than a rig ever pushes.
	TableEntries int
}

var _ Backend = Embedded{}

// Create implements Backend.
func (e Embedded) Create(ctx context.Context, clock *Clock, size int) (*DB, error) {
	return e.open(ctx, clock, size, vfs.NewCrashableMem())
}

func (e Embedded) open(ctx context.Context, clock *Clock, size int, files *vfs.MemFS) (*DB, error) {
	db, err := pebblestore.Open(ctx, "store", pebblestore.Options{
		Partitions: Partitions, BucketSize: size, FS: files, Now: clock.Now, Settings: storetest.Proposed, Logger: zerolog.Nop(), CacheBytes: 1 << 20, MemTableBytes: 1 << 20,
		TableEntries: e.TableEntries,
	})
	if err != nil {
		return nil, err
	}
	return &DB{
		Messages: db.Messages(), Keys: db.Keys(), Progress: db.Progress(), Users: db.Users(), Edges: db.Edges(), Inbox: db.Inbox(),
		Walk: db.Retention(), Passes: db.Passes(), Topics: db.Topics(), Flags: db.Flags(), Epoch: db.Epoch,
		close: db.Close,
		crash: func(ctx context.Context, unsyncedPercent int, seed uint64) (*DB, error) {
			left := files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsyncedPercent, RNG: rand.New(rand.NewPCG(seed, 0))})
			if err := db.Close(); err != nil {
				return nil, err
			}
			return e.open(ctx, clock, size, left)
		},
	}, nil
}
