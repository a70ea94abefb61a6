package mongostore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fanmail/fanmail/internal/settings"
)

// formatID is the id of the single record with the recorded settings, and the values that are fixed when a
// database is initialized.
const formatID = "format"

type formatRecord struct {
	ID         string          `bson:"_id"`
	Version    int32           `bson:"v"`
	Partitions int32           `bson:"partitions"`
	Capacity   int32           `bson:"capacity"`
	Revision   int64           `bson:"revision,omitempty"`
	Settings   []settingRecord `bson:"settings,omitempty"`
	// Epoch is drawn when the database is initialized, and when it was restored. It tells whether a slot may have lost its entry since.
	Epoch int64 `bson:"epoch"`
	// Declared and LastDeclared are absent until the first attribute is declared.
	Declared     []declarationRecord `bson:"declared,omitempty"`
	LastDeclared int32               `bson:"last_declared,omitempty"`
}

// check returns an error unless this version of Fanmail reads the database.
func (r formatRecord) check() error {
	if err := checkVersion(metaName, r.Version); err != nil {
		return err
	}
	if len(r.Settings) == 0 { // before format 1, there were databases without recorded settings
		return otherVersion(metaName, "has no recorded settings")
	}
	return nil
}

// Check returns nil if the database was initialized with the configured values and has all its collections and indexes.
// Otherwise it returns an error that wraps ErrNotInitialized, ErrFormat, ErrPartitions or ErrCapacity.
func (db *DB) Check(ctx context.Context) error {
	if err := db.checkFormat(ctx); err != nil {
		return err
	}
	all := schemas()
	return db.each(ctx, len(all), func(ctx context.Context, i int) error { return db.checkIndexes(ctx, all[i]) })
}

// checkFormat compares the recorded settings with the configured ones.
func (db *DB) checkFormat(ctx context.Context) error {
	var found formatRecord
	c := db.collection(metaName)
	err := c.call(ctx, "read the format", func(ctx context.Context) error {
		return c.FindOne(ctx, bson.D{{Key: fieldID, Value: formatID}}).Decode(&found)
	})
	wanted := db.format()
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return fmt.Errorf("the database %s %w", db.database.Name(), ErrNotInitialized)
	case err != nil:
		return err
	case found.check() != nil:
		return found.check()
	case found.Partitions != wanted.Partitions:
		return fmt.Errorf("%w: the database was initialized with %d, %d are configured: configure %d, or choose another database",
			ErrPartitions, found.Partitions, wanted.Partitions, found.Partitions)
	case found.Capacity != wanted.Capacity:
		return fmt.Errorf("%w: the database was initialized with buckets of %d slots, inbox.bucket_size is %d: configure %d, or choose another database",
			ErrCapacity, found.Capacity, wanted.Capacity, found.Capacity)
	}
	db.epoch.Store(found.Epoch)
	return nil
}

// Epoch returns the epoch of the database as of the last Check: see formatRecord.
func (db *DB) Epoch() uint64 { return uint64(db.epoch.Load()) } //nolint:gosec // the conversion keeps the bits

// BeginEpoch draws another epoch, after the database was restored: what clients know of slots counts no more. All processes must be stopped.
func (db *DB) BeginEpoch(ctx context.Context) error {
	c := db.collection(metaName)
	return c.call(ctx, "begin an epoch", func(ctx context.Context) error {
		drawn := rand.Int64() //nolint:gosec // it is no secret
		_, err := c.UpdateOne(ctx, bson.D{{Key: fieldID, Value: formatID}}, operator("$set", bson.D{{Key: "epoch", Value: drawn}}))
		return err
	})
}

// format returns the record of a new database.
func (db *DB) format() formatRecord {
	first := settings.First(db.opts.Settings, db.opts.Now())
	return formatRecord{
		ID: formatID, Version: version, Partitions: int32(db.opts.Partitions), Capacity: int32(db.opts.BucketSize), //nolint:gosec // both are bounded
		Settings: settingRecords(first), Epoch: rand.Int64(), //nolint:gosec // it is no secret
	}
}

// recordFormat records the configured settings, unless a record exists.
func (db *DB) recordFormat(ctx context.Context) error {
	c := db.collection(metaName)
	return c.call(ctx, "record the format", func(ctx context.Context) error {
		_, err := c.InsertOne(ctx, db.format())
		if duplicate(err) { // another host recorded it at the same moment
			return nil
		}
		return err
	})
}

// checkIndexes returns an error unless a collection has its indexes.
func (db *DB) checkIndexes(ctx context.Context, s schema) error {
	c := db.collection(s.name)
	var specs []mongo.IndexSpecification
	err := c.call(ctx, "list indexes", func(ctx context.Context) (err error) {
		specs, err = c.Indexes().ListSpecifications(ctx)
		return err
	})
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(specs))
	for _, spec := range specs {
		there[spec.Name] = true
	}
	for _, x := range s.indexes {
		if !there[x.name()] {
			return fmt.Errorf("the index %s of the collection %s %w", x.name(), s.name, ErrNotInitialized)
		}
	}
	return nil
}
