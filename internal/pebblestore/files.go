package pebblestore

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// tablePause is the pause before the next table is created after a flush or compaction has failed. Pebble itself repeats them at once.
const tablePause = time.Second

// files is the file system of an open store. An error of the log ends the process: Pebble cannot continue after it, and panics in part with
// its locks in a wrong state.
type files struct {
	vfs.FS
	dir   string // of the store; a checkpoint writes to others
	fatal func(format string, args ...any)
	// open is true after Pebble has opened the store, and until it is closed: before and after, Pebble returns errors of the log.
	open atomic.Bool
	// failed is true if a flush or compaction has failed since the last table was created.
	failed atomic.Bool
	pause  func(time.Duration)
}

func newFiles(dir string, opts Options) *files {
	return &files{FS: opts.FS, dir: dir, fatal: opts.fatal, pause: func(d time.Duration) { <-time.After(d) }}
}

// Create implements vfs.FS. Pebble holds no lock while it creates a table.
func (f *files) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") && f.failed.Swap(false) {
		f.pause(tablePause)
	}
	file, err := f.FS.Create(name, category)
	return f.watch(name, file, err)
}

// ReuseForWrite implements vfs.FS.
func (f *files) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(old, name, category)
	return f.watch(name, file, err)
}

func (f *files) watch(name string, file vfs.File, err error) (vfs.File, error) {
	if !strings.HasSuffix(name, ".log") || f.PathDir(name) != f.dir {
		return file, err
	}
	if f.check(err) != nil {
		return nil, err
	}
	return logFile{File: file, files: f}, nil
}

// check ends the process if the log of an open store has failed with err. Otherwise it returns err.
func (f *files) check(err error) error {
	if err != nil && f.open.Load() {
		f.fatal("its log cannot be written: %v", err)
	}
	return err
}

// logFile is a file of the log.
type logFile struct {
	vfs.File
	files *files
}

// Write implements vfs.File.
func (l logFile) Write(p []byte) (int, error) {
	n, err := l.File.Write(p)
	return n, l.files.check(err)
}

// Sync implements vfs.File.
func (l logFile) Sync() error { return l.files.check(l.File.Sync()) }

// SyncData implements vfs.File.
func (l logFile) SyncData() error { return l.files.check(l.File.SyncData()) }

// SyncTo implements vfs.File.
func (l logFile) SyncTo(length int64) (bool, error) {
	full, err := l.File.SyncTo(length)
	return full, l.files.check(err)
}

// Close implements vfs.File.
func (l logFile) Close() error { return l.files.check(l.File.Close()) }
