package pebblestore

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/settings"
)

var (
	// ErrPartitions means that the store was created with another number of partitions.
	ErrPartitions = errors.New("number of partitions differs")
	// ErrCapacity means that the store was created with another size of buckets.
	ErrCapacity = errors.New("size of buckets differs")
)

// formatRecord has the recorded settings, and the values that are fixed when a store is created.
type formatRecord struct {
	Partitions int             `cbor:"1,keyasint"`
	Capacity   int             `cbor:"2,keyasint"`
	Revision   int64           `cbor:"3,keyasint,omitempty"`
	Settings   []settingRecord `cbor:"4,keyasint,omitempty"`
	// Declared and LastDeclared are absent until the first attribute is declared.
	Declared     []declarationRecord `cbor:"5,keyasint,omitempty"`
	LastDeclared int                 `cbor:"6,keyasint,omitempty"`
}

var formatKey = []byte{byte(spaceFormat)}

func decodeFormat(value []byte) (r formatRecord, err error) {
	return r, decodeValue(spaceFormat, value, &r)
}

// checkFormat records the format in an empty database. In any other database it compares the recorded format with the options.
func checkFormat(engine *pebble.DB, opts Options) error {
	value, closer, err := engine.Get(formatKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return createFormat(engine, opts)
	}
	if err != nil {
		return fmt.Errorf("read the format: %w", err)
	}
	found, err := decodeFormat(value)
	err = errors.Join(err, closer.Close())
	switch {
	case err != nil:
		return err
	case len(found.Settings) == 0: // before format 1, there were databases without recorded settings
		return otherVersion(spaceFormat, "has no recorded settings")
	case found.Partitions != opts.Partitions:
		return fmt.Errorf("%w: the store was created with %d, %d are configured: configure %d, or choose another folder",
			ErrPartitions, found.Partitions, opts.Partitions, found.Partitions)
	case found.Capacity != opts.BucketSize:
		return fmt.Errorf("%w: the store was created with buckets of %d slots, inbox.bucket_size is %d: configure %d, or choose another folder",
			ErrCapacity, found.Capacity, opts.BucketSize, found.Capacity)
	}
	return nil
}

func createFormat(engine *pebble.DB, opts Options) (err error) {
	it, err := engine.NewIter(nil)
	if err != nil {
		return fmt.Errorf("read the format: %w", err)
	}
	defer closeIter(it, &err)
	if it.First() {
		return fmt.Errorf("%w: it is a Pebble database that Fanmail did not create", ErrForeign)
	}
	first := settings.First(opts.Settings, opts.Now())
	format := formatRecord{Partitions: opts.Partitions, Capacity: opts.BucketSize, Settings: settingRecords(first)}
	if err := engine.Set(formatKey, encodeValue(format), pebble.Sync); err != nil {
		return fmt.Errorf("write the format: %w", err)
	}
	return nil
}
