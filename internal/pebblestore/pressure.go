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

// giveWay waits until the store has caught up with what was written, as far as there is room for everybody else. When files come
// faster than they are merged, Pebble in the end stops all writes, for seconds: so the large fan-outs, which nobody waits for,
// stop before, and leave the rest to logins, publishers and direct messages.
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
