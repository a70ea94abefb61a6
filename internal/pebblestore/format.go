package pebblestore

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/pkg/bucket"
)

var (
	// ErrPartitions means that the store was created with another number of partitions.
	ErrPartitions = errors.New("number of partitions differs")
	// ErrCapacity means that the store was created by a release with another bucket size.
	ErrCapacity = errors.New("size of buckets differs")
)

// formatRecord has the recorded settings, and the values that are fixed when a store is created. The byte in front of it is that of
// level 1, which is version, plus one for each level above that. So a release refuses a store of a level that it does not know. At
// level 1 the record is the one that releases before the levels write.
type formatRecord struct {
	Partitions int             `cbor:"1,keyasint"`
	Capacity   int             `cbor:"2,keyasint"`
	Revision   int64           `cbor:"3,keyasint,omitempty"`
	Settings   []settingRecord `cbor:"4,keyasint,omitempty"`
	// Declared and LastDeclared are absent until the first attribute is declared.
	Declared     []declarationRecord `cbor:"5,keyasint,omitempty"`
	LastDeclared int                 `cbor:"6,keyasint,omitempty"`

	level int
}

var formatKey = []byte{byte(spaceFormat)}

func (r formatRecord) encode() []byte {
	return encode([]byte{byte(version + r.level - settings.Unrecorded)}, r) //nolint:gosec // a level is at most settings.Highest
}

func decodeFormat(value []byte) (r formatRecord, err error) {
	if len(value) == 0 {
		return r, corrupt(spaceFormat)
	}
	r.level = int(value[0]) - version + settings.Unrecorded
	switch {
	case r.level < settings.Unrecorded:
		_, err = payload(spaceFormat, value, 0)
		return r, err
	case r.level > settings.Highest:
		return r, fmt.Errorf("%w in %s: the store has format level %d, this release knows level %d: run the release that raised it, or a later one",
			ErrFormat, spaceFormat.name(), r.level, settings.Highest)
	}
	return r, decode(spaceFormat, value[1:], &r)
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
	case found.Partitions != opts.Partitions:
		return fmt.Errorf("%w: the store was created with %d, %d are configured: configure %d, or choose another folder",
			ErrPartitions, found.Partitions, opts.Partitions, found.Partitions)
	case found.Capacity != bucket.Capacity:
		return fmt.Errorf("%w: the store was created with %d slots, this release has %d: run the release that created it, or choose another folder",
			ErrCapacity, found.Capacity, bucket.Capacity)
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
	format := formatRecord{Partitions: opts.Partitions, Capacity: bucket.Capacity, Settings: settingRecords(first), level: first.Level}
	if err := engine.Set(formatKey, format.encode(), pebble.Sync); err != nil {
		return fmt.Errorf("write the format: %w", err)
	}
	return nil
}
