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

// checkFolder returns why the store in a folder cannot be used, or nil, also if there is none. It opens the store read-only, because Pebble
// rewrites files when it opens a store, and a folder that is refused must stay as it is.
func checkFolder(dir string, opts Options, lock *pebble.Lock) error {
	found, err := pebble.Peek(dir, opts.FS)
	if err != nil || !found.Exists {
		return err
	}
	if err := checkManifest(found.ManifestFilename, opts.FS); err != nil {
		return err
	}
	engine, err := pebble.Open(dir, &pebble.Options{FS: opts.FS, Lock: lock, ReadOnly: true, Logger: engineLogger{log: opts.Logger}})
	if err != nil {
		return err
	}
	return errors.Join(checkFormat(engine, opts), engine.Close())
}

// checkFormat compares the recorded format with the options. An empty database has none.
func checkFormat(engine *pebble.DB, opts Options) error {
	value, closer, err := engine.Get(formatKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return checkEmpty(engine)
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

func checkEmpty(engine *pebble.DB) (err error) {
	it, err := engine.NewIter(nil)
	if err != nil {
		return fmt.Errorf("read the format: %w", err)
	}
	defer closeIter(it, &err)
	if it.First() {
		return fmt.Errorf("%w: it is a Pebble database that Fanmail did not create", ErrForeign)
	}
	return nil
}

// recordFormat records the format, unless one is recorded.
func (db *DB) recordFormat(dir string, opts Options) error {
	_, closer, err := db.engine.Get(formatKey)
	if err == nil {
		return closer.Close()
	}
	if !errors.Is(err, pebble.ErrNotFound) {
		return fmt.Errorf("read the format: %w", err)
	}
	first := settings.First(opts.Settings, opts.Now())
	format := formatRecord{Partitions: opts.Partitions, Capacity: opts.BucketSize, Settings: settingRecords(first)}
	db.set(formatKey, encodeValue(format), pebble.Sync)
	// Pebble begins the first log in its oldest format, in which a replay ends silently at damage. A flush begins the next log.
	db.write(db.engine.Flush)
	opts.Logger.Info().Str("store", dir).Msg("created a new store: the data folder had none")
	return nil
}
