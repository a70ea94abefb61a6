package mongostore

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const codeNamespaceExists = 48

// Init makes what is missing of the database: collections, indexes, and last the record of what is fixed from then on. It
// may be repeated, and called by several hosts at once. With shard set, it also shards the collections, which needs the
// router of a sharded cluster, and is an error that wraps ErrNotSharded elsewhere. A database that was initialized with
// other values is refused, as by Check, and left as it is.
func (db *DB) Init(ctx context.Context, shard bool) error {
	if err := db.init(ctx, shard); err != nil {
		return fmt.Errorf("initialize the database %s: %w", db.database.Name(), err)
	}
	return nil
}

func (db *DB) init(ctx context.Context, shard bool) error {
	if shard && !db.server.sharded() {
		return fmt.Errorf("the server %w", ErrNotSharded)
	}
	if err := db.checkFormat(ctx); err != nil && !isNotInitialized(err) {
		return err
	}
	all := schemas()
	if err := db.each(ctx, len(all), func(ctx context.Context, i int) error { return db.create(ctx, all[i], shard) }); err != nil {
		return err
	}
	if shard {
		for _, command := range shardCommands(db.database.Name()) {
			if err := db.admin(ctx, command); err != nil {
				return err
			}
		}
	}
	if err := db.recordFormat(ctx); err != nil {
		return err
	}
	return db.checkFormat(ctx)
}

// create makes a collection and its indexes, unless they are there.
func (db *DB) create(ctx context.Context, s schema, shard bool) error {
	c := db.collection(s.name)
	err := c.call(ctx, "create collection", func(ctx context.Context) error {
		err := db.database.CreateCollection(ctx, s.name)
		if hasCode(err, codeNamespaceExists) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	var models []mongo.IndexModel
	for _, x := range s.indexes {
		models = append(models, x.model(db.opts))
	}
	if shard && len(s.key) == 1 { // a collection with documents is not sharded by a hash without an index of that
		models = append(models, index{keys: s.key}.model(db.opts))
	}
	if len(models) == 0 {
		return nil
	}
	return c.call(ctx, "create indexes", func(ctx context.Context) error {
		_, err := c.Indexes().CreateMany(ctx, models)
		return err
	})
}

// admin carries out a command of the server's administration.
func (db *DB) admin(ctx context.Context, command bson.D) error {
	return db.call(ctx, command[0].Key, func(ctx context.Context) error {
		return db.client.Database("admin").RunCommand(ctx, command).Err()
	})
}
