package mongostore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/message"
)

// Keys is the store of idempotency keys.
type Keys struct{ c collection }

var _ message.KeyStore = (*Keys)(nil)

// keyRecord is the stored form of an idempotency key. Its id is a hash of the sender and the key, because the originals may be
// long.
type keyRecord struct {
	Version int32         `bson:"v"`
	Message bson.Binary   `bson:"message_id"`
	Digest  bson.Binary   `bson:"digest"`
	Expires bson.DateTime `bson:"expires"`
}

func recordOfKey(k message.Key) keyRecord {
	return keyRecord{
		Version: version, Message: uuid(k.ID),
		Digest: bson.Binary{Data: k.Digest[:]}, Expires: date(k.Expires),
	}
}

// key returns the record as a message.Key, with the sender and the text of k.
func (r keyRecord) key(k message.Key) (message.Key, error) {
	id, err := idOf(keysName, r.Message)
	if err != nil {
		return message.Key{}, err
	}
	if len(r.Digest.Data) != len(k.Digest) {
		return message.Key{}, corrupt(keysName, fmt.Errorf("a digest has %d bytes", len(r.Digest.Data)))
	}
	return message.Key{From: k.From, Key: k.Key, ID: id, Digest: message.Digest(r.Digest.Data), Expires: timeOf(r.Expires)}, nil
}

// hashKey returns the id under which a key is stored. The id of a sender has no zero byte, so two different keys never hash the
// same bytes.
func hashKey(k message.Key) bson.Binary {
	sum := sha256.Sum256([]byte(string(k.From) + "\x00" + k.Key))
	return bson.Binary{Data: sum[:]}
}

// Reserve implements message.KeyStore by one upsert. It matches a key that has expired. If the key still holds, the upsert
// fails on its id.
func (s *Keys) Reserve(ctx context.Context, k message.Key, now time.Time) (holds message.Key, err error) {
	id := bson.E{Key: fieldID, Value: hashKey(k)}
	expired := bson.D{id, {Key: fieldExpires, Value: operator("$lte", date(now))}}
	take := operator("$set", recordOfKey(k))
	err = s.c.call(ctx, "reserve a key", func(ctx context.Context) error {
		_, err := s.c.UpdateOne(ctx, expired, take, options.UpdateOne().SetUpsert(true))
		if err != nil && !duplicate(err) {
			return err
		}
		r, err := one[keyRecord](s.c, s.c.FindOne(ctx, bson.D{id}))
		if errors.Is(err, mongo.ErrNoDocuments) {
			return errVanished
		}
		if err != nil {
			return err
		}
		holds, err = r.key(k)
		return err
	})
	return holds, err
}

// Find implements message.KeyStore.
func (s *Keys) Find(ctx context.Context, from message.UserID, key string, now time.Time) (found message.Key, ok bool, err error) {
	k := message.Key{From: from, Key: key}
	err = s.c.call(ctx, "find a key", func(ctx context.Context) error {
		found, ok = message.Key{}, false
		r, err := one[keyRecord](s.c, s.c.FindOne(ctx, bson.D{{Key: fieldID, Value: hashKey(k)}}))
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		if err != nil || !now.Before(timeOf(r.Expires)) {
			return err
		}
		found, err = r.key(k)
		ok = err == nil
		return err
	})
	return found, ok, err
}

// errVanished says that a document was removed between two operations. Both are repeated.
var errVanished = errors.New("a document was removed meanwhile")

// Replace implements message.KeyStore. No other key has the new id. If it is already stored, an earlier attempt of this call
// stored it and its reply was lost.
func (s *Keys) Replace(ctx context.Context, old message.Key, id message.ID) error {
	r := recordOfKey(old)
	reserved := bson.D{
		{Key: fieldID, Value: hashKey(old)},
		{Key: fieldMessage, Value: r.Message},
		{Key: fieldDigest, Value: r.Digest},
		{Key: fieldExpires, Value: r.Expires},
	}
	replace := operator("$set", bson.D{{Key: fieldMessage, Value: uuid(id)}})
	return s.c.call(ctx, "replace a key", func(ctx context.Context) error {
		result, err := s.c.UpdateOne(ctx, reserved, replace)
		if err != nil || result.MatchedCount > 0 {
			return err
		}
		there, err := one[keyRecord](s.c, s.c.FindOne(ctx, reserved[:1]))
		if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
			return err
		}
		if replaced, err := there.key(old); err != nil || replaced.ID != id {
			return message.ErrKeyChanged
		}
		return nil
	})
}

// Forget implements message.KeyStore. It asks every shard. It keeps a key that is reserved again between the two operations.
func (s *Keys) Forget(ctx context.Context, now time.Time, limit int) (int, error) {
	expired := bson.E{Key: fieldExpires, Value: operator("$lte", date(now))}
	if limit <= 0 {
		return 0, nil
	}
	found, err := all[idRecord](ctx, s.c, "find expired keys", bson.D{expired}, options.Find().SetProjection(fields(fieldID)).SetLimit(int64(limit)))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	ids := make([]bson.Binary, len(found))
	for i, r := range found {
		ids[i] = r.ID
	}
	forgotten, repeated := 0, false
	err = s.c.call(ctx, "forget keys", func(ctx context.Context) error {
		result, err := s.c.DeleteMany(ctx, bson.D{{Key: fieldID, Value: in(ids)}, expired})
		switch {
		case err != nil:
			repeated = true
		case repeated: // the first reply is lost: count all of them, because few were reserved again
			forgotten = len(ids)
		default:
			forgotten = int(result.DeletedCount)
		}
		return err
	})
	return forgotten, err
}

type idRecord struct {
	Version int32       `bson:"v"`
	ID      bson.Binary `bson:"_id"`
}
