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
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/singleflight"

	"github.com/fanmail/fanmail/internal/messagecache"
	"github.com/fanmail/fanmail/internal/meter"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/storemetrics"
	"github.com/fanmail/fanmail/pkg/bucket"
)

var (
	// ErrLocked means that another process has the folder open.
	ErrLocked = errors.New("is in use by another process; stop that one, or choose another folder")
	// ErrForeign means that the folder has files that do not belong to a store of Fanmail.
	ErrForeign = errors.New("holds other files; choose an empty folder")
	// ErrClosed means that the store is closed.
	ErrClosed = errors.New("store is closed")
)

const (
	// DefaultCacheBytes is enough for the index blocks of about ten million entries, and for the inboxes that are being read.
	DefaultCacheBytes = 64 << 20
	// DefaultMemTableBytes lets a fan-out write several hundred thousand entries before Pebble sorts them into a file. Up to
	// memTables memtables exist at a time.
	DefaultMemTableBytes = 32 << 20
	// DefaultRememberedOwners uses at most about 80 MiB: with the default number of partitions it nearly fills the tables, which double.
	DefaultRememberedOwners = 1_500_000
	// DefaultTableEntries is about twice the number for which the syncs of a table cost as much as the log.
	DefaultTableEntries = 2_000
	// memTables is the maximum number of memtables. If all are full, writes wait until Pebble has written one to a file.
	memTables = 4
	// baseLevelBytes is many times Pebble's default, so that Pebble rewrites an entry less often.
	baseLevelBytes = 512 << 20
	// fileBytes is small, so that new files overlap with few existing ones. Large fan-outs write in the order of owners, so a
	// compaction then rewrites little. Files of eight times this size took twice the processor time.
	fileBytes = 2 << 20
	// blockBytes is several times Pebble's default. The entries of one message in the inboxes of neighbors repeat its body, and compression finds
	// that only within a block. docs/adr/0086 has what it gains.
	blockBytes = 32 << 10
	// mergedLayers is at how many unmerged layers Pebble begins to merge, twice its default, so that it rewrites an entry half as often.
	mergedLayers = 4
	// compactions is how many run at once. After a large fan-out, one alone would leave a processor idle, and reads more layers to search.
	compactions = 2
	// engineFormat is fixed, so that an upgrade of Pebble alone does not make data unreadable for the previous release.
	engineFormat = pebble.FormatTableFormatV6
	// stripesPerTable is large, so that calls rarely share a lock by chance.
	stripesPerTable = 256
)

// Options configures a store.
type Options struct {
	// Partitions is the number of partitions of all users, 1 to partition.MaxCount; 0 means partition.DefaultCount. It is fixed
	// when the store is created.
	Partitions int
	// BucketSize is the number of slots of a bucket, 1 to bucket.MaxCapacity; 0 means bucket.Capacity. It is fixed when the store is
	// created.
	BucketSize int
	// Settings are the settings, by key, that are recorded when the store is created.
	Settings map[string]string
	// FS is the file system; nil means the disk.
	FS vfs.FS
	// Now is the clock that stamps messages. It is required.
	Now func() time.Time
	// Logger receives the events that an operator must know, and Pebble's own log at level debug.
	Logger zerolog.Logger
	// CacheBytes is the memory for blocks of files; 0 means DefaultCacheBytes.
	CacheBytes int64
	// MemTableBytes is the size of a memtable, which Pebble writes to a file when it is full; 0 means DefaultMemTableBytes.
	MemTableBytes int64
	// MaxOpenFiles is the number of tables that are held open; 0 means that of the engine.
	MaxOpenFiles int
	// RememberedOwners is the number of owners whose inbox's end is kept in memory, at 50 to 110 bytes each. This makes appending
	// to them several times as fast. 0 means DefaultRememberedOwners.
	RememberedOwners int
	// TableEntries is the number of entries in one partition from which a push is written as tables instead of to the log; 0 means
	// DefaultTableEntries.
	TableEntries int
	// Messages caches recently read messages. The caller may share it with a decorator of Messages. nil means no cache.
	Messages *messagecache.Cache
	// Metrics is the registry of the metrics; nil registers none.
	Metrics prometheus.Registerer

	// noCompactions turns compactions off, for tests of the behavior with many files.
	noCompactions bool
	// fatal ends the process, and does not return.
	fatal func(format string, args ...any)
}

func (o Options) withDefaults() (Options, error) {
	if o.Now == nil {
		return o, errors.New("options: Now is required")
	}
	if o.Partitions == 0 {
		o.Partitions = partition.DefaultCount
	}
	if o.BucketSize == 0 {
		o.BucketSize = bucket.Capacity
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
	if o.TableEntries == 0 {
		o.TableEntries = DefaultTableEntries
	}
	if o.fatal == nil {
		o.fatal = engineLogger{log: o.Logger}.Fatalf
	}
	if o.CacheBytes < 0 || o.MemTableBytes < 0 || o.RememberedOwners < 0 || o.TableEntries < 0 {
		return o, errors.New("options: CacheBytes, MemTableBytes, RememberedOwners and TableEntries must not be negative")
	}
	return o, partition.ValidateCount(o.Partitions)
}

// DB is an open store. It is safe for concurrent use.
type DB struct {
	engine     *pebble.DB
	lock       *pebble.Lock
	files      *files
	stalls     *stalls
	fatal      func(format string, args ...any) // ends the process
	partitions int
	epoch      uint64
	now        func() time.Time
	metrics    *storemetrics.Metrics

	// tableOptions are those of tables that are written beside the engine.
	tableOptions sstable.WriterOptions
	// ingesting is held for reading by pushes that write tables, for writing by Checkpoint.
	ingesting sync.RWMutex
	intake    intake

	calls  sync.RWMutex // held for reading by every call, for writing by Close
	closed bool         // guarded by calls

	healthy singleflight.Group
	synced  time.Time // by the last call in healthy, which also guards it

	// available returns the free bytes of the disk.
	available func() (uint64, error)

	messages *Messages
	keys     *Keys
	inbox    *Inbox
	users    *Users
	edges    *Edges
	progress *Progress
	settings *Settings
	walk     *Retention
	passes   *Retention
	topics   *Topics
	flags    *Flags

	identities *Identities
}

// Open opens the store in a folder. It creates the folder and the store if they do not exist. The error wraps ErrLocked,
// ErrForeign, ErrFormat, ErrPartitions or ErrCapacity in these cases.
func Open(ctx context.Context, dir string, opts Options) (_ *DB, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if opts, err = opts.withDefaults(); err != nil {
		return nil, fmt.Errorf("open the store in %s: %w", dir, err)
	}
	if opts.FS == vfs.Default {
		// Locks within a process are known by path, so a folder must have only one name.
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
	if err := checkFolder(dir, opts, lock); err != nil {
		if pebble.IsCorruptionError(err) {
			err = fmt.Errorf("a file is damaged: check the disk, and restore a backup (fanmail restore): %w", err)
		}
		return nil, fmt.Errorf("open the store in %s: %w", dir, err)
	}
	stalls, files := newStalls(opts.Logger), newFiles(dir, opts)
	if err := files.removeTables(); err != nil {
		return nil, fmt.Errorf("open the store in %s: %w", dir, err)
	}
	settings := engineOptions(opts, files, lock, stalls)
	engine, err := pebble.Open(dir, settings)
	if err != nil {
		return nil, fmt.Errorf("open the store in %s: %w", dir, err)
	}
	files.open.Store(true)
	db := newDB(engine, lock, opts)
	db.stalls, db.files = stalls, files
	db.tableOptions = settings.MakeWriterOptions(len(settings.Levels)-1, engineFormat.MaxTableFormat())
	if err = db.recordFormat(dir, opts); err == nil {
		err = db.beginEpoch()
	}
	if err == nil {
		err = db.inbox.findRemoved()
	}
	if err != nil {
		files.open.Store(false)
		return nil, errors.Join(fmt.Errorf("open the store in %s: %w", dir, err), engine.Close())
	}
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
	db := &DB{
		engine: engine, lock: lock, fatal: opts.fatal, partitions: opts.Partitions, now: opts.Now,
		metrics: storemetrics.New(opts.Metrics, opts.Now),
	}
	db.intake = intake{engine: engine, write: db.write}
	db.messages = &Messages{db: db, locks: make(stripes, stripesPerTable), cache: opts.Messages}
	db.keys = &Keys{db: db, locks: make(stripes, stripesPerTable)}
	db.inbox = newInbox(db, opts)
	db.users = &Users{db: db, locks: make(stripes, stripesPerTable)}
	db.edges = &Edges{db: db, locks: make(stripes, stripesPerTable)}
	db.progress = &Progress{db: db, locks: make(stripes, stripesPerTable)}
	db.walk, db.passes = &Retention{db: db, key: roundKey}, &Retention{db: db, key: passKey}
	db.identities = &Identities{db: db, locks: make(stripes, stripesPerTable), users: make(stripes, stripesPerTable)}
	db.topics = &Topics{db: db, locks: make(stripes, stripesPerTable)}
	db.flags = &Flags{db: db, locks: make(stripes, stripesPerTable)}
	db.settings = &Settings{db: db}
	return db
}

// engineFile matches the names of Pebble's files, and of tables that are to become such.
var engineFile = regexp.MustCompile(`^(LOCK|(MANIFEST|OPTIONS)-\d+|marker\..*|.*\.dbtmp|\d+(-\d+)?\.(log|sst|blob)|\d+\.table)$`)

// lockFolder creates the folder if necessary, locks it, and returns ErrForeign if it has other files.
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

func engineOptions(opts Options, files *files, lock *pebble.Lock, stalls *stalls) *pebble.Options {
	o := &pebble.Options{
		FS:                 files,
		Lock:               lock,
		FormatMajorVersion: engineFormat,
		// Pebble takes the memory of memtables from its cache. Without space for all of them, a busy store has no cache left. It
		// then reads its index blocks from the file for every key, and concurrent readers of a block wait for one another.
		CacheSize:                   opts.CacheBytes + memTables*opts.MemTableBytes,
		MaxOpenFiles:                opts.MaxOpenFiles,
		MemTableSize:                uint64(opts.MemTableBytes), //nolint:gosec // the size is never negative
		MemTableStopWritesThreshold: memTables,
		Logger:                      engineLogger{log: opts.Logger},
		EventListener:               events(opts.Logger, files, stalls),
	}
	o.LBaseMaxBytes = baseLevelBytes
	o.TargetFileSizes[0] = fileBytes
	o.Levels[0].BlockSize = blockBytes
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	o.L0CompactionThreshold = 2 * mergedLayers // Pebble counts each layer twice
	o.L0StopWritesThreshold = overcrowded
	o.CompactionConcurrencyRange = func() (int, int) { return compactions, compactions }
	o.BlockPropertyCollectors = []func() pebble.BlockPropertyCollector{func() pebble.BlockPropertyCollector { return markTable{} }}
	o.DisableAutomaticCompactions = opts.noCompactions
	o.EnsureDefaults() // which gives all levels the blocks of the first: the tables that we write are made by these options, too
	return o
}

// Close waits for the calls in flight and closes the store. Later calls return ErrClosed. Close is idempotent.
func (db *DB) Close() error {
	db.calls.Lock()
	defer db.calls.Unlock()
	if db.closed {
		return nil
	}
	db.closed = true
	db.endEpoch()
	db.files.open.Store(false)
	if err := errors.Join(db.engine.Close(), db.lock.Close()); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}

// Available returns the bytes of the disk that are free for this process.
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

// Retention returns the store of the record of the walk over all users.
func (db *DB) Retention() *Retention { return db.walk }

// Passes returns the store of the record of the pass over all edges.
func (db *DB) Passes() *Retention { return db.passes }

// Identities returns the store of identities.
func (db *DB) Identities() *Identities { return db.identities }

// Topics returns the store of topics.
func (db *DB) Topics() *Topics { return db.topics }

// Flags returns the store of the flags of inboxes.
func (db *DB) Flags() *Flags { return db.flags }
