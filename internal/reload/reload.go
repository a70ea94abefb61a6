// Package reload keeps values that were read from files, such as keys and certificates. It reads the files again when they have
// changed, so an operator can replace them while a server runs.
//
// Get checks the files, so there is no watcher to stop. Get also notices replaced files, and mounted folders that are swapped as a
// whole.
package reload

import (
	"crypto/sha256"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// Every is the shortest time between two checks of the files.
const Every = 5 * time.Second

// Options configures a Value.
type Options struct {
	// Name describes the value in the log, such as "tokens".
	Name string
	// Paths are the files that contain the value.
	Paths []string
	// Now returns the current time. Required.
	Now    func() time.Time
	Logger zerolog.Logger
}

// Value holds the content that was read last. It is safe for concurrent use.
type Value[T any] struct {
	opts    Options
	read    func() (T, error)
	current atomic.Pointer[T]
	checked atomic.Int64 // the time of the last check of the files, in Unix nanoseconds

	mu     sync.Mutex
	seen   []digest // of the files when the value was last read
	failed []digest // of the files when reading the value last failed, if it did
}

// New reads a value, or returns the error of reading it.
func New[T any](opts Options, read func() (T, error)) (*Value[T], error) {
	v := &Value[T]{opts: opts, read: read}
	v.checked.Store(opts.Now().UnixNano())
	v.seen = v.look()
	value, err := read()
	if err != nil {
		return nil, err
	}
	v.current.Store(&value)
	return v, nil
}

// Get returns the value. If the files have changed, Get reads them first. If that fails, Get logs the error and returns the previous
// value. Get checks the files at most once per Every.
func (v *Value[T]) Get() T {
	now := v.opts.Now().UnixNano()
	since := time.Duration(now - v.checked.Load())
	if since >= 0 && since < Every || !v.mu.TryLock() {
		return *v.current.Load()
	}
	defer v.mu.Unlock()
	v.checked.Store(now)
	v.refresh()
	return *v.current.Load()
}

func (v *Value[T]) refresh() {
	// look runs before read, so the next call notices a change that happens between the two. After a failure, seen stays as it was, so
	// the next call reads the files again. Otherwise a removed token could stay valid because the process had no file descriptor left
	// for a moment.
	seen := v.look()
	if slices.Equal(seen, v.seen) {
		return
	}
	value, err := v.read()
	if err != nil {
		if v.failed == nil || !slices.Equal(seen, v.failed) {
			v.opts.Logger.Error().Err(err).Str("what", v.opts.Name).Strs("files", v.opts.Paths).
				Msg("cannot read changed files: the previous content stays in force")
		}
		v.failed = seen
		return
	}
	v.seen, v.failed = seen, nil
	v.current.Store(&value)
	v.opts.Logger.Info().Str("what", v.opts.Name).Strs("files", v.opts.Paths).Msg("files were read again")
}

// digest is the digest of a file's content, or zero if the file cannot be read. Sizes and times would not do: two contents of the same
// size that were written in the same moment differ only in their digest.
type digest [sha256.Size]byte

func (v *Value[T]) look() []digest {
	seen := make([]digest, len(v.opts.Paths))
	for i, path := range v.opts.Paths {
		if content, err := os.ReadFile(path); err == nil { //nolint:gosec // the configuration names the files
			seen[i] = sha256.Sum256(content)
		}
	}
	return seen
}
