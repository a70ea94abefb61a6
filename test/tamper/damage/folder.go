package damage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Folder is the folder of an embedded store that nobody has open.
type Folder struct {
	Path  string
	Files vfs.FS
}

// The parts of an entry's record: version[1] flags[1] id[16] floor[16]? last[16]? content.
const (
	flagFloor = 2
	flagLast  = 4
	idAt      = 2
	idLen     = len(message.ID{})
	headerLen = idAt + idLen
	// placeLen is the length of the bucket and slot that end an entry's key.
	placeLen = 4 + 1
)

// Remove implements Store.
func (f Folder) Remove(_ context.Context, owner message.UserID, id message.ID) error {
	return f.open(func(db *pebble.DB) error {
		r, _, err := find(db, owner, id)
		if err != nil {
			return err
		}
		return db.Delete(r.key, pebble.Sync)
	})
}

// Double implements Store.
func (f Folder) Double(_ context.Context, owner message.UserID, id message.ID) error {
	return f.open(func(db *pebble.DB) error {
		r, last, err := find(db, owner, id)
		if err != nil {
			return err
		}
		return db.Set(last.next(), last.follow(r), pebble.Sync)
	})
}

// open opens the engine in the folder, and closes it when do is done.
func (f Folder) open(do func(*pebble.DB) error) (err error) {
	db, err := pebble.Open(f.Path, &pebble.Options{FS: f.Files, Logger: silent{}, ErrorIfNotExists: true})
	if err != nil {
		return fmt.Errorf("open the store in %s: %w", f.Path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return do(db)
}

// record is an entry as it is stored.
type record struct{ key, value []byte }

// find returns the record of an entry, and the last record of the inbox.
func find(db *pebble.DB, owner message.UserID, id message.ID) (found, last record, err error) {
	for p := range partition.MaxCount {
		prefix := binary.BigEndian.AppendUint16([]byte{'i'}, uint16(p))
		prefix = append(append(prefix, owner...), 0)
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: append(prefix[:len(prefix)-1:len(prefix)-1], 1)})
		if err != nil {
			return found, last, err
		}
		for ok := it.First(); ok; ok = it.Next() {
			last = record{bytes.Clone(it.Key()), bytes.Clone(it.Value())}
			if found.key == nil && bytes.Equal(last.value[idAt:headerLen], id[:]) {
				found = last
			}
		}
		if err := it.Close(); err != nil {
			return found, last, err
		}
	}
	if found.key == nil {
		return found, last, fmt.Errorf("%s in the inbox of %s: %w", id, owner, ErrNotFound)
	}
	return found, last, nil
}

// place returns the bucket and slot that end the record's key.
func (r record) place() (sequence uint32, slot byte) {
	place := r.key[len(r.key)-placeLen:]
	return binary.BigEndian.Uint32(place), place[placeLen-1]
}

// next returns the key that follows the record's in its inbox: in a new bucket, if this one is full.
func (r record) next() []byte {
	sequence, slot := r.place()
	if slot++; slot == bucket.Capacity {
		sequence, slot = sequence+1, 0
	}
	prefix := r.key[: len(r.key)-placeLen : len(r.key)-placeLen]
	return append(binary.BigEndian.AppendUint32(prefix, sequence), slot)
}

// last returns the greatest id of the inbox up to the record.
func (r record) last() []byte {
	at := headerLen
	if r.value[1]&flagLast == 0 {
		return r.value[idAt:headerLen]
	}
	if r.value[1]&flagFloor != 0 {
		at += idLen
	}
	return r.value[at : at+idLen]
}

// follow returns the value of another record, as it has to be behind this one.
func (r record) follow(other record) []byte {
	content := other.value[headerLen:]
	for _, flag := range []byte{flagFloor, flagLast} {
		if other.value[1]&flag != 0 {
			content = content[idLen:]
		}
	}
	flags := other.value[1]&^(flagFloor|flagLast) | flagLast
	bounds := r.last()
	if _, slot := r.place(); slot == bucket.Capacity-1 {
		flags |= flagFloor
		bounds = append(bytes.Clone(bounds), bounds...) // the floor of a new bucket is the last of the one before
	}
	value := append([]byte{other.value[0], flags}, other.value[idAt:headerLen]...)
	return append(append(value, bounds...), content...)
}

// silent is a logger for an engine that has nothing to say.
type silent struct{}

// Infof implements pebble.Logger.
func (silent) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (silent) Errorf(string, ...any) {}

// Fatalf implements pebble.Logger.
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
