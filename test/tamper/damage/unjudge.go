package damage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/fxamacker/cbor/v2"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fanmail/fanmail/pkg/message"
)

// The parts of a message's record: version[1] judged time[8] CBOR. Among its author's it has no CBOR.
const (
	judgedAt = 1
	judgedTo = judgedAt + 8
	// storedAtField is the field of the CBOR that records with a verdict have.
	storedAtField = 7
)

// Unjudge implements Store.
func (f Folder) Unjudge(_ context.Context, m message.Ref, storedAt time.Time) error {
	judged := binary.BigEndian.AppendUint64(nil, uint64(storedAt.UnixMilli()))
	return f.open(func(db *pebble.DB) error {
		key := append([]byte{'m'}, m.ID[:]...)
		value, closer, err := db.Get(key)
		if err != nil {
			return fmt.Errorf("message %s: %w", m.ID, err)
		}
		value = bytes.Clone(value)
		if err := closer.Close(); err != nil {
			return err
		}
		var fields map[int]cbor.RawMessage
		if err := cbor.Unmarshal(value[judgedTo:], &fields); err != nil {
			return err
		}
		delete(fields, storedAtField)
		sorted, err := cbor.CoreDetEncOptions().EncMode()
		if err != nil {
			return err
		}
		rest, err := sorted.Marshal(fields)
		if err != nil {
			return err
		}
		head := append([]byte{value[0]}, judged...)
		if err := db.Set(key, append(bytes.Clone(head), rest...), pebble.Sync); err != nil {
			return err
		}
		author := append(append(append([]byte{'a'}, m.From...), 0), m.ID[:]...)
		_, closer, err = db.Get(author)
		if errors.Is(err, pebble.ErrNotFound) {
			return nil // it is to a list
		}
		if err != nil {
			return err
		}
		return errors.Join(closer.Close(), db.Set(author, head, pebble.Sync))
	})
}

// Unjudge implements Store.
func (d Database) Unjudge(ctx context.Context, m message.Ref, storedAt time.Time) error {
	return d.open(ctx, func(inbox *mongo.Collection) error {
		const uuid = 4 // the subtype of a binary
		filter := bson.D{{Key: "from", Value: m.From}, {Key: "_id", Value: bson.Binary{Subtype: uuid, Data: m.ID[:]}}}
		result, err := inbox.Database().Collection("messages").UpdateOne(ctx, filter, bson.D{
			{Key: "$set", Value: bson.D{{Key: "lag", Value: storedAt.UnixMilli() - m.ID.Time().UnixMilli()}}},
			{Key: "$unset", Value: bson.D{{Key: "stored_at", Value: ""}}},
		})
		if err == nil && result.MatchedCount == 0 {
			err = fmt.Errorf("message %s: %w", m.ID, ErrNotFound)
		}
		return err
	})
}

// Unrecord implements Store.
func (f Folder) Unrecord(context.Context) error {
	const level1, revision, settings = 2, 3, 4
	return f.open(func(db *pebble.DB) error {
		key := []byte{'!'}
		value, closer, err := db.Get(key)
		if err != nil {
			return fmt.Errorf("the format: %w", err)
		}
		value = bytes.Clone(value)
		if err := closer.Close(); err != nil {
			return err
		}
		var fields map[int]cbor.RawMessage
		if err := cbor.Unmarshal(value[1:], &fields); err != nil {
			return err
		}
		delete(fields, revision)
		delete(fields, settings)
		rest, err := cbor.Marshal(fields)
		if err != nil {
			return err
		}
		return db.Set(key, append([]byte{level1}, rest...), pebble.Sync)
	})
}

// Unrecord implements Store.
func (d Database) Unrecord(ctx context.Context) error {
	return d.open(ctx, func(inbox *mongo.Collection) error {
		result, err := inbox.Database().Collection("meta").UpdateOne(ctx, bson.D{{Key: "_id", Value: "format"}}, bson.D{
			{Key: "$set", Value: bson.D{{Key: "v", Value: int32(1)}}},
			{Key: "$unset", Value: bson.D{{Key: "settings", Value: ""}, {Key: "revision", Value: ""}}},
		})
		if err == nil && result.MatchedCount == 0 {
			err = fmt.Errorf("the format: %w", ErrNotFound)
		}
		return err
	})
}
