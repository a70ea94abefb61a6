package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/messagecache"
	"github.com/fanmail/fanmail/internal/meter"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/settings"
)

var (
	// ErrLocked says that another process has the folder open.
	ErrLocked = errors.New("is in use by another process; stop that one, or choose another folder")
	// ErrForeign says that the folder holds something that is not a store of Fanmail.
	ErrForeign = errors.New("holds other files; choose an empty folder")
	// ErrClosed says that the store has been closed.
	ErrClosed = errors.New("store is closed")
)

const (
	// DefaultCacheBytes holds the index blocks of some ten million entries, and the inboxes that are being read.
	DefaultCacheBytes = 64 << 20
	// DefaultMemTableBytes lets a fan-out write some hundred thousand entries before they are sorted into a
	// file. Up to memTables of them exist at a time.
	DefaultMemTableBytes = 32 << 20
	// DefaultRememberedOwners takes about 50 MiB when it is used up.
	DefaultRememberedOwners = 500_000
	// memTables bounds memory while files are being written; writes wait beyond.
	memTables = 4
	// baseLevelBytes is many times Pebble's default, so that entries are rewritten less often on their way down.
	baseLevelBytes = 512 << 20
	// fileBytes is so small that what is written in the order of owners, as large fan-outs do, overlaps with few files of what is there,
	// and little has to be rewritten to merge it: with files eight times as large, that took twice the processor time.
	fileBytes = 2 << 20
	// engineFormat is pinned, so that an upgrade of Pebble does not by itself make data unreadable for the
	// release before.
	engineFormat = pebble.FormatTableFormatV6
	// stripesPerTable is so many that calls rarely meet by chance.
	stripesPerTable = 256
)

// Options says how a store is opened.
type Options struct {
	// Partitions is the number of partitions of all users, 1 to partition.MaxCount; 0 is partition.DefaultCount. It
	// is fixed when the store is created.
	Partitions int
	// Settings are the settings that are recorded when the store is created, by key.
	Settings map[string]string
	// FS is the file system; nil is the disk.
	FS vfs.FS
	// Now is the clock that stamps messages. It is required.
	Now func() time.Time
	// Logger gets what an operator has to know; at the debug level, what Pebble does.
	Logger zerolog.Logger
	// CacheBytes is how much memory holds blocks of files; 0 is DefaultCacheBytes.
	CacheBytes int64
	// MemTableBytes is how much is collected in memory before it is written to a file; 0 is
	// DefaultMemTableBytes.
	MemTableBytes int64
	// RememberedOwners is for how many owners the end of their inbox is kept in memory, at about 100 bytes each,
	// which makes appending to them several times as fast; 0 is DefaultRememberedOwners.
	RememberedOwners int
	// Messages holds the messages that were read last. The caller may share it with a decorator of Messages. nil holds none.
	Messages *messagecache.Cache
	// Metrics is where the metrics are registered; nil means nowhere.
	Metrics prometheus.Registerer

	// noCompactions leaves files as they are, for tests of what happens then.
	noCompactions bool
}

func (o Options) withDefaults() (Options, error) {
	if o.Now == nil {
		return o, errors.New("options: Now is required")
	}
	if o.Partitions == 0 {
		o.Partitions = partition.DefaultCount
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = DefaultMemTableBytes
	}
	if o.RememberedOwners == 0 {
		o.RememberedOwners = DefaultRememberedOwners
	}
	if o.CacheBytes < 0 || o.MemTableBytes < 0 || o.RememberedOwners < 0 {
		return o, errors.New("options: CacheBytes, MemTableBytes and RememberedOwners must not be negative")
	}
	return o, partition.ValidateCount(o.Partitions)
}

// DB is an open store. It is safe for concurrent use.
type DB struct {
	engine     *pebble.DB
	lock       *pebble.Lock
	stalls     *stalls
	partitions int
	now        func() time.Time

	calls  sync.RWMutex // held for reading by every call, for writing by Close
	closed bool         // guarded by calls

	// available tells how many bytes of the disk are free.
	available func() (uint64, error)

	messages *Messages
	keys     *Keys
	inbox    *Inbox
	users    *Users
	edges    *Edges
	progress *Progress
	settings *Settings
}

// Open opens the store in a folder, and creates both if need be. It returns an error that wraps ErrLocked,
// ErrForeign, ErrFormat, ErrPartitions or ErrCapacity where that is what stands in the way.
func Open(ctx context.Context, dir string, opts Options) (_ *DB, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if opts, err = opts.withDefaults(); err != nil {
		return nil, fmt.Errorf("open the store in %s: %w", dir, err)
	}
	if opts.FS == vfs.Default {
		// Locks within a process are known by path: one folder must not go by two names.
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, fmt.Errorf("open the store: %w", err)
		}
	}
	lock, err := lockFolder(dir, opts.FS)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	stalls := newStalls(opts.Logger)
	engine, err := pebble.Open(dir, engineOptions(opts, lock, stalls))
	if err != nil {
		return nil, fmt.Errorf("open the store in %s: %w", dir, err)
	}
	if err := checkFormat(engine, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("open the store in %s: %w", dir, err), engine.Close())
	}
	db := newDB(engine, lock, opts)
	db.stalls = stalls
	db.available = func() (uint64, error) {
		usage, err := opts.FS.GetDiskUsage(dir)
		return usage.AvailBytes, err
	}
	if opts.Metrics != nil {
		opts.Metrics.MustRegister(meter.Live(db.collect))
	}
	return db, nil
}

func newDB(engine *pebble.DB, lock *pebble.Lock, opts Options) *DB {
	db := &DB{engine: engine, lock: lock, partitions: opts.Partitions, now: opts.Now}
	db.messages = &Messages{db: db, locks: make(stripes, stripesPerTable), cache: opts.Messages}
	db.keys = &Keys{db: db, locks: make(stripes, stripesPerTable)}
	db.inbox = newInbox(db, opts.RememberedOwners)
	db.users = &Users{db: db, locks: make(stripes, stripesPerTable)}
	db.edges = &Edges{db: db, locks: make(stripes, stripesPerTable)}
	db.progress = &Progress{db: db, locks: make(stripes, stripesPerTable)}
	db.settings = &Settings{db: db, processes: make(map[string]settings.Process)}
	return db
}

// engineFile matches the names of the files that Pebble makes.
var engineFile = regexp.MustCompile(`^(LOCK|(MANIFEST|OPTIONS)-\d+|marker\..*|.*\.dbtmp|\d+(-\d+)?\.(log|sst|blob))$`)

// lockFolder makes the folder if need be, takes its lock, and makes sure that nothing else lives there.
func lockFolder(dir string, files vfs.FS) (*pebble.Lock, error) {
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the store: %w", err)
	}
	names, err := files.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list the folder of the store: %w", err)
	}
	if i := slices.IndexFunc(names, func(name string) bool { return !engineFile.MatchString(name) }); i >= 0 {
		return nil, fmt.Errorf("%s %w (%s is one)", dir, ErrForeign, names[i])
	}
	lock, err := pebble.LockDirectory(dir, files)
	if err == nil {
		return lock, nil
	}
	// A lock file that cannot be created is a path error. Any other error means that another process holds the lock.
	if pathErr := new(fs.PathError); errors.As(err, &pathErr) {
		return nil, fmt.Errorf("lock the folder of the store: %w", err)
	}
	return nil, fmt.Errorf("%s %w (%w)", dir, ErrLocked, err)
}

func engineOptions(opts Options, lock *pebble.Lock, stalls *stalls) *pebble.Options {
	o := &pebble.Options{
		FS:                 opts.FS,
		Lock:               lock,
		FormatMajorVersion: engineFormat,
		// Pebble takes memtables out of its cache: without room for all of them a busy store has no cache left, reads its
		// index blocks from the file for every key, and readers of the same block wait for each other.
		CacheSize:                   opts.CacheBytes + memTables*opts.MemTableBytes,
		MemTableSize:                uint64(opts.MemTableBytes), //nolint:gosec // it is not negative
		MemTableStopWritesThreshold: memTables,
		Logger:                      engineLogger{log: opts.Logger},
		EventListener:               events(opts.Logger, stalls),
	}
	o.LBaseMaxBytes = baseLevelBytes
	o.TargetFileSizes[0] = fileBytes
	o.L0StopWritesThreshold = overcrowded
	o.DisableAutomaticCompactions = opts.noCompactions
	return o
}

// Close waits for the calls in flight and closes the store; calls from then on return ErrClosed. Closing it
// again does nothing.
func (db *DB) Close() error {
	db.calls.Lock()
	defer db.calls.Unlock()
	if db.closed {
		return nil
	}
	db.closed = true
	if err := errors.Join(db.engine.Close(), db.lock.Close()); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}

// Available returns how many bytes of the disk are free for this process.
func (db *DB) Available() (bytes uint64, err error) {
	if bytes, err = db.available(); err != nil {
		return 0, fmt.Errorf("how full the disk is: %w", err)
	}
	return bytes, nil
}

// Messages returns the canonical store of messages.
func (db *DB) Messages() *Messages { return db.messages }

// Keys returns the store of idempotency keys.
func (db *DB) Keys() *Keys { return db.keys }

// Inbox returns the store of buckets.
func (db *DB) Inbox() *Inbox { return db.inbox }

// Users returns the store of user states.
func (db *DB) Users() *Users { return db.users }

// Edges returns the store of edges.
func (db *DB) Edges() *Edges { return db.edges }

// Progress returns the store of fan-outs.
func (db *DB) Progress() *Progress { return db.progress }

// Settings returns the store of the recorded settings and of the processes.
func (db *DB) Settings() *Settings { return db.settings }
