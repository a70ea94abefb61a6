// Package reload keeps values that were read from files, such as keys and certificates. It reads the files again when they have
// changed, so an operator can replace them while a server runs.
//
// Get checks the files, so there is no watcher to stop. A process that is not busy has to call it all the same: a changed file takes
// effect at the second check. Get also notices replaced files, and mounted folders that are swapped as a whole.
package reload

import (
	"crypto/sha256"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// Every is the shortest time between two checks of the files. A program that writes a file takes less.
const Every = 4 * time.Second

// Options configures a Value.
type Options struct {
	// Name describes the value in the log, such as "tokens".
	Name string
	// Paths are the files that contain the value.
	Paths []string
	// Grace is how long the previous content stays in force while a file cannot be read. Then Get returns the zero value until the file
	// is back. 0 means without limit.
	Grace time.Duration
	// Now returns the current time. Required.
	Now    func() time.Time
	Logger zerolog.Logger
}

// Value holds the content that was read last. It is safe for concurrent use.
type Value[T any] struct {
	opts    Options
	parse   func(contents [][]byte) (T, error)
	began   time.Time
	current atomic.Pointer[T]
	looked  atomic.Int64 // when Get last looked at the files, in nanoseconds since began
	stale   atomic.Bool

	mu      sync.Mutex
	inForce digest    // of the content that current is from; zero after the grace
	seen    digest    // of the content that the last check found; zero if a file could not be read
	missing time.Time // when a file could first not be read; zero if all could be read
	failure string    // the last logged error, until the files are in force
}

// New reads a value from the contents of the files, in their order, or returns the error of reading it.
func New[T any](opts Options, parse func(contents [][]byte) (T, error)) (*Value[T], error) {
	v := &Value[T]{opts: opts, parse: parse, began: opts.Now()}
	contents, seen, err := v.look()
	if err != nil {
		return nil, err
	}
	value, err := parse(contents)
	if err != nil {
		return nil, err
	}
	v.inForce = seen
	v.current.Store(&value)
	return v, nil
}

// Get returns the value. Get checks the files at most once per Every. It takes a new content that two checks in sequence have found, because
// the first check may find a file that is only partly written. If the content is refused, Get logs the error and returns the previous value.
func (v *Value[T]) Get() T {
	now := v.opts.Now()
	elapsed := now.Sub(v.began) // setting the clock does not change it
	since := elapsed - time.Duration(v.looked.Load())
	if since >= 0 && since < Every || !v.mu.TryLock() {
		return *v.current.Load()
	}
	defer v.mu.Unlock()
	v.looked.Store(int64(elapsed))
	v.stale.Store(!v.refresh(now))
	return *v.current.Load()
}

// Stale checks the files as Get does, and reports whether a file is missing or refused.
func (v *Value[T]) Stale() bool {
	v.Get()
	return v.stale.Load()
}

// refresh takes the content of changed files. It returns false if it cannot.
func (v *Value[T]) refresh(now time.Time) bool {
	contents, seen, err := v.look()
	if err != nil {
		v.seen = digest{}
		v.fail(err)
		v.outlive(now)
		return false
	}
	v.missing = time.Time{}
	before := v.seen
	if v.seen = seen; seen != v.inForce {
		if seen != before {
			return !v.stale.Load() // not known yet
		}
		value, err := v.parse(contents)
		if err != nil {
			v.fail(err)
			return false
		}
		v.inForce = seen
		v.current.Store(&value)
		v.opts.Logger.Info().Str("what", v.opts.Name).Strs("files", v.opts.Paths).Msg("files were read again")
	}
	v.failure = ""
	return true
}

// fail logs an error once.
func (v *Value[T]) fail(err error) {
	if err.Error() != v.failure {
		v.failure = err.Error()
		v.opts.Logger.Error().Err(err).Str("what", v.opts.Name).Strs("files", v.opts.Paths).
			Msg("cannot read changed files: the previous content stays in force")
	}
}

// outlive ends the force of a content whose files have been missing for longer than the grace. Otherwise removing a file would revoke
// nothing.
func (v *Value[T]) outlive(now time.Time) {
	if v.missing.IsZero() {
		v.missing = now
	}
	if v.opts.Grace > 0 && now.Sub(v.missing) >= v.opts.Grace && v.inForce != (digest{}) {
		v.inForce = digest{}
		v.current.Store(new(T))
		v.opts.Logger.Error().Str("what", v.opts.Name).Strs("files", v.opts.Paths).Stringer("for", v.opts.Grace).
			Msg("files are missing for too long: their content is no longer in force")
	}
}

// digest is the digest of the contents of files. Sizes and times would not do: two contents of the same size that were written in the
// same moment differ only in their digest.
type digest [sha256.Size]byte

func (v *Value[T]) look() (contents [][]byte, seen digest, err error) {
	hash := sha256.New()
	for _, path := range v.opts.Paths {
		content, err := os.ReadFile(path) //nolint:gosec // the configuration names the files
		if err != nil {
			return nil, seen, err
		}
		contents = append(contents, content)
		part := sha256.Sum256(content)
		hash.Write(part[:])
	}
	return contents, digest(hash.Sum(nil)), nil
}
