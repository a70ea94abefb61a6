package pebblestore

import (
	"context"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// replaceRevised replaces a value whose revision is the given one, without a sync. All callers for one key share mu. It returns the error
// changed if stored returns another revision.
func (db *DB) replaceRevised(
	ctx context.Context, op string, mu *sync.Mutex, key []byte, revision int64, stored func() (int64, error), value []byte, changed error,
) (err error) {
	call, err := db.begin(ctx, op)
	if err != nil {
		return err
	}
	defer call.end(ctx, &err)
	mu.Lock()
	defer mu.Unlock()
	switch found, err := stored(); {
	case err != nil:
		return err
	case found != revision:
		return changed
	}
	db.set(key, value, pebble.NoSync)
	return nil
}
