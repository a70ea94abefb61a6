package mongostore

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/internal/storemetrics"
	"github.com/fanmail/fanmail/pkg/message"
)

// ShardKeys returns the shard key of each collection that has one.
func ShardKeys() map[string]bson.D {
	keys := make(map[string]bson.D)
	for _, s := range schemas() {
		if s.key != nil {
			keys[s.name] = s.key
		}
	}
	return keys
}

// ShardCommands returns the commands that shard the collections of a database.
func ShardCommands(database string) []bson.D { return shardCommands(database) }

// Sharded reports whether the server is the router of a sharded cluster.
func (db *DB) Sharded() bool { return db.server.sharded() }

// Latest returns the time by the server's clock from which the server refuses an update that a caller decided by a clock.
func Latest(ctx context.Context, opts Options) (time.Time, error) {
	opts, err := opts.withDefaults()
	db := &DB{opts: opts}
	return timeOf(db.latest(ctx)), err
}

// Call runs an operation within a time as the stores do, without a server.
func Call(ctx context.Context, timeout time.Duration, operation func(context.Context) error) error {
	db := &DB{pool: NewPool(0), opts: Options{Timeout: timeout, Now: time.Now}, metrics: storemetrics.New(nil, time.Now)}
	return db.call(ctx, "work", operation)
}

// Permanent reports whether repeating what failed cannot help.
func Permanent(err error) bool { return permanent(err) }

// Replicated has the stores read as they do where the server is in a replica set.
func (db *DB) Replicated() {
	db.server.SetName = "set"
	db.open()
}

// Shared returns a function that shares runs of work among those who wait for it.
func Shared(work func(context.Context) (message.ID, error)) func(context.Context) (message.ID, error) {
	return (&shared{work: work}).do
}
