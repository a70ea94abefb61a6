package pebblestore

import (
	"context"
	"time"
)

// syncedFor is how long a sync says that the store is healthy.
const syncedFor = 5 * time.Second

// Healthy writes an empty record and waits until it is synced, or until ctx ends. It does nothing if the last call did so within syncedFor.
// Calls at the same time share one record.
func (db *DB) Healthy(ctx context.Context) error {
	synced := db.healthy.DoChan("", func() (any, error) {
		if err := db.enter(); err != nil {
			return nil, err
		}
		defer db.leave()
		if now := time.Now; now().Sub(db.synced) > syncedFor { //nolint:forbidigo // what is measured is time
			db.sync()
			db.synced = now()
		}
		return nil, nil
	})
	select {
	case result := <-synced:
		return result.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}
