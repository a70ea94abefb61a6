package pebblestore

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// EngineOptions returns the options with which Pebble is opened, of their defaults where none are given.
func EngineOptions(opts Options) *pebble.Options {
	opts.CacheBytes, opts.MemTableBytes = 0, 0
	opts, err := opts.withDefaults()
	if err != nil {
		panic(err)
	}
	return engineOptions(opts, nil)
}

// EntryKey returns the key of an entry.
func EntryKey(partition int, owner message.UserID, sequence uint32, slot int) []byte {
	return appendPlace(appendOwner(nil, spaceInbox, partition, owner), sequence, slot)
}

// EncodeEntry returns the value of an entry that came in its turn.
func EncodeEntry(e bucket.Entry) []byte {
	return (&entryRecord{id: e.ID, last: e.ID, content: encodeContent(&e)}).appendTo(nil)
}
