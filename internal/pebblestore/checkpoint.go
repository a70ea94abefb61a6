package pebblestore

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// probeEvery is the pause between two of the writes by which Checkpoint measures pauses.
const probeEvery = time.Millisecond

// Checkpoint saves the store, as it is at one moment during the call, to a new folder on disk, while the store goes on. Open opens the
// folder. The folder must not exist, but its parent must. Files of the store do not change, so on the same disk the checkpoint has hard links
// to them, and costs little; on another disk Checkpoint copies them. Everything that was committed before the call is in it. After an
// error the folder may have a part of the files.
//
// Checkpoint writes an empty record again and again meanwhile, and returns how long the slowest of these writes took until it was synced.
// The store's Close waits for the call.
func (db *DB) Checkpoint(ctx context.Context, dir string) (longestPause time.Duration, err error) {
	call, err := db.begin(ctx, "store.checkpoint")
	if err != nil {
		return 0, err
	}
	defer call.end(ctx, &err)
	db.ingesting.Lock()
	defer db.ingesting.Unlock()
	if err := ctx.Err(); err != nil { // it may have waited for large pushes
		return 0, err
	}
	ended := make(chan struct{})
	var probing sync.WaitGroup
	probing.Go(func() { longestPause = db.probe(ended) })
	db.sync()
	err = db.engine.Checkpoint(dir)
	close(ended)
	probing.Wait()
	if err != nil {
		return 0, fmt.Errorf("save the store to %s: %w", dir, err)
	}
	return longestPause, nil
}

// probe syncs the store every probeEvery, once at least, until ended is closed. It returns how long the slowest sync took.
func (db *DB) probe(ended <-chan struct{}) (longest time.Duration) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		began := time.Now() //nolint:forbidigo // what is measured is time
		db.sync()
		longest = max(longest, time.Since(began))
		select {
		case <-ended:
			return longest
		case <-tick.C:
		}
	}
}
