package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/message"
)

// Keys is the store of idempotency keys.
type Keys struct {
	db    *DB
	locks stripes
}

var _ message.KeyStore = (*Keys)(nil)

// keyRecord is the value of an idempotency key. The key of the record has the hash of the sender and the key.
type keyRecord struct {
	ID      message.ID     `cbor:"1,keyasint"`
	Digest  message.Digest `cbor:"2,keyasint"`
	Expires int64          `cbor:"3,keyasint"`
}

func recordOf(k message.Key) keyRecord {
	return keyRecord{ID: k.ID, Digest: k.Digest, Expires: k.Expires.UnixMilli()}
}

// key returns the idempotency key of a record. k has its sender and text.
func (r keyRecord) key(k message.Key) message.Key {
	return message.Key{From: k.From, Key: k.Key, ID: r.ID, Digest: r.Digest, Expires: fromMillis(r.Expires)}
}

func (r keyRecord) expired(now time.Time) bool { return r.Expires <= now.UnixMilli() }

// expiry returns the record's key in the expiries space.
func (r keyRecord) expiry(h keyHash) []byte {
	return append(timePrefix(spaceExpiries, fromMillis(r.Expires)), h[:]...)
}

func (s *Keys) read(h keyHash) (r keyRecord, known bool, err error) {
	known, err = s.db.get(h.key(), func(value []byte) error { return decodeValue(spaceKeys, value, &r) })
	return r, known, err
}

func (s *Keys) write(batch *pebble.Batch, h keyHash, r keyRecord) error {
	return setAll(batch, pair{h.key(), encodeValue(r)}, pair{r.expiry(h), nil})
}

// change runs do under the lock of a key, and commits the batch.
func (s *Keys) change(ctx context.Context, op string, h keyHash, do func(*pebble.Batch) error) (err error) {
	c, err := beginChange(ctx, s.db, op, s.locks, []keyHash{h}, keyHash.stripe)
	if err != nil {
		return err
	}
	defer c.end(ctx, &err)
	if err := do(c.batch); err != nil {
		return err
	}
	return s.db.commit(c.batch, &c.locks)
}

func (h keyHash) stripe() uint64 { return binary.BigEndian.Uint64(h[:]) }

// Reserve implements message.KeyStore.
func (s *Keys) Reserve(ctx context.Context, k message.Key, now time.Time) (message.Key, error) {
	h := hashKey(k.From, k.Key)
	var holds message.Key
	err := s.change(ctx, "keys.reserve", h, func(batch *pebble.Batch) error {
		there, known, err := s.read(h)
		if err != nil {
			return err
		}
		if known && !there.expired(now) {
			holds = there.key(k)
			return nil
		}
		if known {
			if err := batch.Delete(there.expiry(h), nil); err != nil {
				return err
			}
		}
		r := recordOf(k)
		holds = r.key(k)
		return s.write(batch, h, r)
	})
	if err != nil {
		return message.Key{}, fmt.Errorf("reserve an idempotency key of %s: %w", k.From, err)
	}
	return holds, nil
}

// Find implements message.KeyStore.
func (s *Keys) Find(ctx context.Context, from message.UserID, key string, now time.Time) (_ message.Key, _ bool, err error) {
	call, err := s.db.begin(ctx, "keys.find")
	if err != nil {
		return message.Key{}, false, err
	}
	defer call.end(ctx, &err)
	there, known, err := s.read(hashKey(from, key))
	if err != nil || !known || there.expired(now) {
		return message.Key{}, false, err
	}
	return there.key(message.Key{From: from, Key: key}), true, nil
}

// Replace implements message.KeyStore.
func (s *Keys) Replace(ctx context.Context, old message.Key, id message.ID) error {
	h := hashKey(old.From, old.Key)
	err := s.change(ctx, "keys.replace", h, func(batch *pebble.Batch) error {
		there, known, err := s.read(h)
		if err != nil {
			return err
		}
		if !known || there != recordOf(old) {
			return message.ErrKeyChanged
		}
		there.ID = id
		return s.write(batch, h, there)
	})
	if err != nil {
		return fmt.Errorf("replace an idempotency key of %s: %w", old.From, err)
	}
	return nil
}

// Forget implements message.KeyStore. It finds expired keys in the expiries space and checks each again under its lock, because
// another call may have reserved the key again.
func (s *Keys) Forget(ctx context.Context, now time.Time, limit int) (_ int, err error) {
	call, err := s.db.begin(ctx, "keys.forget")
	if err != nil {
		return 0, err
	}
	defer call.end(ctx, &err)
	hashes, err := s.expired(now, limit)
	if err != nil {
		return 0, fmt.Errorf("forget idempotency keys: %w", err)
	}
	locks := lockAll(s.locks, hashes, keyHash.stripe)
	defer locks.unlock()
	batch := s.db.engine.NewBatch()
	forgotten := 0
	for _, h := range hashes {
		r, known, err := s.read(h)
		if err == nil && known && r.expired(now) {
			forgotten++
			err = deleteAll(batch, h.key(), r.expiry(h))
		}
		if err != nil {
			return 0, fmt.Errorf("forget idempotency keys: %w", err)
		}
	}
	return forgotten, s.db.commit(batch, &locks)
}

// expired returns the hashes of at most limit keys that expired at or before now, ordered by their expiry.
func (s *Keys) expired(now time.Time, limit int) (hashes []keyHash, err error) {
	prefix := []byte{byte(spaceExpiries)}
	end := timePrefix(spaceExpiries, now.Add(time.Millisecond)) // a key that expires at now has expired
	for key := range s.db.records(prefix, prefix, limit, &err) {
		if string(key) >= string(end) {
			break
		}
		hashes = append(hashes, keyHashOf(key))
	}
	return hashes, err
}

func deleteAll(batch *pebble.Batch, keys ...[]byte) error {
	for _, key := range keys {
		if err := batch.Delete(key, nil); err != nil {
			return err
		}
	}
	return nil
}
