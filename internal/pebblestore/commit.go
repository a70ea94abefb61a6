package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/panics"
)

// call is a call of the store that has begun. It is measured as the operation op.
type call struct {
	db    *DB
	op    string
	began time.Time
}

// begin starts a call of the store. It returns an error if ctx has ended or the store is closed. Otherwise the caller must call
// end with the result.
func (db *DB) begin(ctx context.Context, op string) (_ call, err error) {
	c := call{db: db, op: op, began: db.now()}
	if err = ctx.Err(); err == nil {
		err = db.enter()
	}
	if err != nil {
		db.metrics.Done(ctx, c.op, c.began, err)
	}
	return c, err
}

func (c *call) end(ctx context.Context, err *error) {
	c.db.leave()
	c.db.metrics.Done(ctx, c.op, c.began, *err)
}

// calling returns what do returns, as one call of the store.
func calling[T any](ctx context.Context, db *DB, op string, do func() (T, error)) (result T, err error) {
	call, err := db.begin(ctx, op)
	if err != nil {
		return result, err
	}
	defer call.end(ctx, &err)
	return do()
}

// each returns what look returns for each of some keys, as one call of the store. The first error ends the call.
func each[K, V any](ctx context.Context, db *DB, op string, keys []K, look func(K) (V, error)) ([]V, error) {
	return calling(ctx, db, op, func() (_ []V, err error) {
		found := make([]V, len(keys))
		for i, key := range keys {
			if found[i], err = look(key); err != nil {
				return nil, err
			}
		}
		return found, nil
	})
}

// change is a call of the store that puts its writes into a batch under locks.
type change struct {
	call
	locks heldLocks
	batch *pebble.Batch
}

// beginChange starts a change under the locks of some keys. After it the rules of begin apply.
func beginChange[K any](ctx context.Context, db *DB, op string, locks stripes, keys []K, hash func(K) uint64) (c change, err error) {
	if c.call, err = db.begin(ctx, op); err == nil {
		c.locks, c.batch = lockAll(locks, keys, hash), db.engine.NewBatch()
	}
	return c, err
}

func (c *change) end(ctx context.Context, err *error) {
	c.locks.unlock()
	c.call.end(ctx, err)
}

// enter keeps the store open until leave.
func (db *DB) enter() error {
	db.calls.RLock()
	if db.closed {
		db.calls.RUnlock()
		return ErrClosed
	}
	return nil
}

func (db *DB) leave() { db.calls.RUnlock() }

// commit applies a batch, releases the locks under which it was made, and waits until it is synced. A batch is empty if the
// store already holds its content. commit then waits for a sync all the same, because the earlier writer may still be waiting
// for one, or may not have asked for one.
func (db *DB) commit(batch *pebble.Batch, locks *heldLocks) error {
	if batch.Empty() {
		locks.unlock()
		db.sync()
		return batch.Close()
	}
	db.write(func() error { return db.engine.ApplyNoSyncWait(batch, pebble.Sync) })
	locks.unlock()
	db.write(batch.SyncWait)
	return batch.Close()
}

// apply applies a batch without waiting for a sync.
func (db *DB) apply(batch *pebble.Batch) error {
	if !batch.Empty() {
		db.write(func() error { return db.engine.Apply(batch, pebble.NoSync) })
	}
	return batch.Close()
}

// set sets one key.
func (db *DB) set(key, value []byte, sync *pebble.WriteOptions) {
	db.write(func() error { return db.engine.Set(key, value, sync) })
}

// sync waits until all writes that were applied before are synced.
func (db *DB) sync() {
	db.write(func() error { return db.engine.LogData(nil, pebble.Sync) })
}

// write makes a call of the engine that writes: no other code does. If the call fails or panics, its batch stays queued, or a lock of the engine
// stays held, and all later writes would wait permanently. So write then ends the process.
func (db *DB) write(call func() error) {
	if err := panics.Do(call); err != nil {
		db.fatal("a write has failed: %v", err)
	}
}

// get calls use with the value of a key, and reports whether the key exists. The value is valid only during the call.
func (db *DB) get(key []byte, use func(value []byte) error) (found bool, err error) {
	value, closer, err := db.engine.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read from the store: %w", err)
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	return true, use(value)
}

// iterate returns an iterator over the keys with a prefix. The caller must close it with closeIter.
func (db *DB) iterate(prefix []byte) (*pebble.Iterator, error) {
	it, err := db.engine.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return nil, fmt.Errorf("read from the store: %w", err)
	}
	return it, nil
}

// closeIter closes an iterator. It stores the iterator's error in err, unless err already has one.
func closeIter(it *pebble.Iterator, err *error) {
	if closing := it.Close(); closing != nil && *err == nil {
		*err = fmt.Errorf("read from the store: %w", closing)
	}
}

// records iterates over the keys with a prefix and their values, from a key on, and ends after limit of them. Both are valid until the next
// ones. An error ends it. It is stored in err, unless err already has one.
func (db *DB) records(prefix, from []byte, limit int, err *error) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		it, failed := db.iterate(prefix)
		if failed != nil {
			*err = failed
			return
		}
		defer closeIter(it, err)
		found := it.SeekGE(from)
		for n := 0; found && n < limit; n++ {
			value, failed := it.ValueAndErr()
			if failed != nil || !yield(it.Key(), value) {
				return // closeIter finds what has failed
			}
			found = it.Next()
		}
	}
}

// above returns the least key that has a prefix and whose rest is above the given one.
func above(prefix, rest []byte) []byte { return slices.Concat(prefix, rest, []byte{0}) }
