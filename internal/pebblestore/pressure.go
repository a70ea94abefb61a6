package pebblestore

import (
	"context"
	"time"
)

const (
	// bulkPushes is the number of inboxes from which a push counts as a part of a large fan-out.
	bulkPushes = 64
	// crowded is the number of unmerged layers of files at which large fan-outs wait. Every read of an inbox searches each layer.
	crowded = 14
	// overcrowded is the number of unmerged layers at which all writes wait.
	overcrowded = 60
	// crowdedPoll is the interval at which a waiting fan-out checks the layers again.
	crowdedPoll = 25 * time.Millisecond
)

// awaitMerges waits until fewer than crowded unmerged layers are left, or until ctx ends. If files arrive faster than Pebble merges
// them, Pebble stops all writes for seconds. Large fan-outs wait earlier, because no user waits for them. So logins, publishers and
// direct messages can still write.
func (db *DB) awaitMerges(ctx context.Context) error {
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
