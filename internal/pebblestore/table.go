package pebblestore

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// tableSuffix ends the names of tables that are not the engine's yet.
const tableSuffix = ".table"

// tableNumber makes the names of a process's tables unique.
var tableNumber atomic.Uint64

// tables writes sorted files for the engine to take over.
type tables struct {
	files   *files
	options sstable.WriterOptions

	paths       []string
	first, last []byte          // the least and the greatest key
	writer      *sstable.Writer // of the last path; nil if the next record begins a table
	value       []byte
}

// set adds a record. Keys ascend.
func (t *tables) set(key []byte, r *entryRecord) error {
	if t.writer == nil {
		if err := t.begin(); err != nil {
			return err
		}
	}
	if t.first == nil {
		t.first = bytes.Clone(key)
	}
	t.last = append(t.last[:0], key...)
	t.value = r.appendTo(t.value[:0])
	return t.writer.Set(key, t.value)
}

func (t *tables) begin() error {
	path := t.files.PathJoin(t.files.dir, fmt.Sprintf("%06d%s", tableNumber.Add(1), tableSuffix))
	file, err := t.files.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	t.paths = append(t.paths, path)
	t.writer = sstable.NewWriter(objstorageprovider.NewFileWritable(file), t.options)
	return nil
}

// end ends the table and syncs it. The next record begins another one. Without a record since, end does nothing.
func (t *tables) end() error {
	if t.writer == nil {
		return nil
	}
	writer := t.writer
	t.writer = nil
	return writer.Close()
}

// remove removes the tables that the engine has not taken over.
func (t *tables) remove() {
	for _, path := range t.paths {
		_ = t.files.Remove(path) // removeTables removes what is left
	}
}

// removeTables removes the tables that the engine had not taken over at a crash. The store has no use for them.
func (f *files) removeTables() error {
	names, err := f.List(f.dir)
	for _, name := range names {
		if strings.HasSuffix(name, tableSuffix) {
			err = errors.Join(err, f.Remove(f.PathJoin(f.dir, name)))
		}
	}
	return err
}
