package damage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/message"
)

// Mend takes damage back.
type Mend func(ctx context.Context) error

// Spoil implements Store.
func (f Folder) Spoil(_ context.Context, user message.UserID) (Mend, error) {
	var whole record
	err := f.open(func(db *pebble.DB) error {
		for p := range partition.MaxCount {
			key := append(binary.BigEndian.AppendUint16([]byte{'u'}, uint16(p)), user...)
			value, closer, err := db.Get(key)
			if errors.Is(err, pebble.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			whole = record{key, bytes.Clone(value)}
			if err := closer.Close(); err != nil {
				return err
			}
			return db.Set(key, whole.value[:len(whole.value)/2], pebble.Sync)
		}
		return fmt.Errorf("user %s: %w", user, ErrNotFound)
	})
	return f.mend(whole), err
}

// Lose implements Store.
func (f Folder) Lose(_ context.Context, owner message.UserID, sequence uint32) (Mend, error) {
	var lost []record
	err := f.open(func(db *pebble.DB) error {
		for p := range partition.MaxCount {
			prefix := append(append(binary.BigEndian.AppendUint16([]byte{'i'}, uint16(p)), owner...), 0)
			low := binary.BigEndian.AppendUint32(bytes.Clone(prefix), sequence)
			it, err := db.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: binary.BigEndian.AppendUint32(prefix, sequence+1)})
			if err != nil {
				return err
			}
			for ok := it.First(); ok; ok = it.Next() {
				lost = append(lost, record{bytes.Clone(it.Key()), bytes.Clone(it.Value())})
			}
			if err := it.Close(); err != nil {
				return err
			}
		}
		for _, r := range lost {
			if err := db.Delete(r.key, pebble.Sync); err != nil {
				return err
			}
		}
		if len(lost) == 0 {
			return fmt.Errorf("bucket %d of %s: %w", sequence, owner, ErrNotFound)
		}
		return nil
	})
	return f.mend(lost...), err
}

// mend returns what puts records back.
func (f Folder) mend(records ...record) Mend {
	return func(context.Context) error {
		return f.open(func(db *pebble.DB) error {
			for _, r := range records {
				if err := db.Set(r.key, r.value, pebble.Sync); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// Spoil implements Store.
func (d Database) Spoil(ctx context.Context, user message.UserID) (Mend, error) {
	filter := bson.D{{Key: "_id", Value: user}}
	return d.replace(ctx, "users", filter, fmt.Sprintf("user %s", user), func(users *mongo.Collection) error {
		_, err := users.UpdateOne(ctx, filter, bson.D{{Key: "$set", Value: bson.D{{Key: "last_viewed", Value: "yesterday"}}}})
		return err
	})
}

// Lose implements Store.
func (d Database) Lose(ctx context.Context, owner message.UserID, sequence uint32) (Mend, error) {
	filter := bson.D{{Key: "owner", Value: owner}, {Key: "sequence", Value: int64(sequence)}}
	return d.replace(ctx, "inbox", filter, fmt.Sprintf("bucket %d of %s", sequence, owner), func(inbox *mongo.Collection) error {
		_, err := inbox.DeleteOne(ctx, filter)
		return err
	})
}

// replace damages a document, and returns what puts it back.
func (d Database) replace(
	ctx context.Context, collection string, filter bson.D, what string, do func(*mongo.Collection) error,
) (Mend, error) {
	var whole bson.Raw
	err := d.open(ctx, func(inbox *mongo.Collection) (err error) {
		c := inbox.Database().Collection(collection)
		if whole, err = c.FindOne(ctx, filter).Raw(); errors.Is(err, mongo.ErrNoDocuments) {
			return fmt.Errorf("%s: %w", what, ErrNotFound)
		}
		if err != nil {
			return err
		}
		return do(c)
	})
	return func(ctx context.Context) error {
		return d.open(ctx, func(inbox *mongo.Collection) error {
			c := inbox.Database().Collection(collection)
			id := bson.D{{Key: "_id", Value: whole.Lookup("_id")}}
			if _, err := c.DeleteOne(ctx, id); err != nil {
				return err
			}
			_, err := c.InsertOne(ctx, whole)
			return err
		})
	}, err
}
