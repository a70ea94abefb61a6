package pebblestore

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/bucket"
)

var (
	// ErrPartitions says that a store was created with another number of partitions.
	ErrPartitions = errors.New("number of partitions differs")
	// ErrCapacity says that a store was created by a release with buckets of another size.
	ErrCapacity = errors.New("size of buckets differs")
)

// formatRecord is what is fixed when a store is created. The version in front of it is that of the whole store.
type formatRecord struct {
	Partitions int `cbor:"1,keyasint"`
	Capacity   int `cbor:"2,keyasint"`
}

// checkFormat records the format in an empty database, and compares it with what is recorded in any other.
func checkFormat(engine *pebble.DB, partitions int) error {
	wanted := formatRecord{Partitions: partitions, Capacity: bucket.Capacity}
	value, closer, err := engine.Get([]byte{byte(spaceFormat)})
	if errors.Is(err, pebble.ErrNotFound) {
		return createFormat(engine, wanted)
	}
	if err != nil {
		return fmt.Errorf("read the format: %w", err)
	}
	var found formatRecord
	err = errors.Join(decodeValue(spaceFormat, value, &found), closer.Close())
	switch {
	case err != nil:
		return err
	case found.Partitions != wanted.Partitions:
		return fmt.Errorf("%w: the store was created with %d, %d are configured: configure %d, or choose another folder",
			ErrPartitions, found.Partitions, wanted.Partitions, found.Partitions)
	case found.Capacity != wanted.Capacity:
		return fmt.Errorf("%w: the store was created with %d slots, this release has %d: run the release that created it, or choose another folder",
			ErrCapacity, found.Capacity, wanted.Capacity)
	}
	return nil
}

func createFormat(engine *pebble.DB, format formatRecord) (err error) {
	it, err := engine.NewIter(nil)
	if err != nil {
		return fmt.Errorf("read the format: %w", err)
	}
	defer closeIter(it, &err)
	if it.First() {
		return fmt.Errorf("%w: it is a Pebble database that Fanmail did not create", ErrForeign)
	}
	if err := engine.Set([]byte{byte(spaceFormat)}, encodeValue(format), pebble.Sync); err != nil {
		return fmt.Errorf("write the format: %w", err)
	}
	return nil
}
