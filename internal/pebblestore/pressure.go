package pebblestore

import (
	"context"
	"time"
)

const (
	// bulkPushes is from how many inboxes on a push is one of a large fan-out.
	bulkPushes = 64
	// crowded is at how many layers of files that have not been merged yet large fan-outs wait. Each layer is looked at by every
	// read of an inbox.
	crowded = 10
	// overcrowded is at how many of them everything waits that writes.
	overcrowded = 60
	// crowdedPoll is how often a fan-out that waits looks again.
	crowdedPoll = 25 * time.Millisecond
)

// giveWay waits until the store has merged enough files to have room for other writers. If files arrive faster than Pebble
// merges them, Pebble stops all writes for seconds. So large fan-outs, for which no user waits, stop earlier. They leave the
// remaining room to logins, publishers and direct messages.
func (db *DB) giveWay(ctx context.Context) error {
	if !db.crowded() {
		return nil
	}
	poll := time.NewTicker(crowdedPoll)
	defer poll.Stop()
	for db.crowded() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
	return nil
}

func (db *DB) crowded() bool { return db.engine.Metrics().Levels[0].Sublevels >= crowded }
