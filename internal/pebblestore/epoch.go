package pebblestore

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/panics"
)

var epochKey = []byte{byte(spaceFormat), 'e'}

// epochRecord is the epoch of the store, and whether the store was closed in it. A store that was not may have lost entries that a page has
// shown, because fan-out appends lazily. Others then fill their slots. So it begins a new epoch when it is opened, and so does a restored
// checkpoint, which is one of an open store.
type epochRecord struct {
	Epoch  uint64 `cbor:"1,keyasint"`
	Closed bool   `cbor:"2,keyasint,omitempty"`
}

// Epoch returns a random number that tells whether a slot may have lost its entry since: see epochRecord.
func (db *DB) Epoch() uint64 { return db.epoch }

func (db *DB) beginEpoch() error {
	var r epochRecord
	if _, err := db.get(epochKey, func(value []byte) error { return decodeValue(spaceFormat, value, &r) }); err != nil {
		return err
	}
	if !r.Closed {
		var b [8]byte
		_, _ = rand.Read(b[:]) // it never fails
		r.Epoch = binary.BigEndian.Uint64(b[:])
	}
	db.epoch = r.Epoch
	db.set(epochKey, encodeValue(epochRecord{Epoch: r.Epoch}), pebble.Sync)
	return nil
}

// endEpoch records that the store is closed. Failure costs a new epoch.
func (db *DB) endEpoch() {
	_ = panics.Do(func() error {
		return db.engine.Set(epochKey, encodeValue(epochRecord{Epoch: db.epoch, Closed: true}), pebble.Sync)
	})
}
