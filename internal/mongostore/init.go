package mongostore

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const codeNamespaceExists = 48

// Init creates the missing parts of the database: collections, indexes, and last the record of the fixed settings. It is
// idempotent, and several hosts may call it at once. With shard set, it also shards the collections. That needs the router of a
// sharded cluster; elsewhere Init returns an error that wraps ErrNotSharded. If the database was initialized with other values,
// Init returns the error that Check would return and changes nothing.
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
	if err := db.checkFormat(ctx); err != nil && !errors.Is(err, ErrNotInitialized) {
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

// create creates a collection and its indexes, unless they exist.
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
	if shard && s.key != nil && !s.keyIndexed() { // sharding a non-empty collection requires an index by the key
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

// admin runs an administrative command.
func (db *DB) admin(ctx context.Context, command bson.D) error {
	return db.call(ctx, command[0].Key, func(ctx context.Context) error {
		return db.client.Database("admin").RunCommand(ctx, command).Err()
	})
}
