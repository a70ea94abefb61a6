package rehydrate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

var (
	// ErrUnfinished says that an inbox was still being rebuilt at the end of the wait. The rebuild continues, and the caller can
	// wait for it again.
	ErrUnfinished = errors.New("inbox is still being rebuilt")
	// ErrLost says that another worker has taken over a rehydration. The worker that gets this error has nothing left to do.
	ErrLost = errors.New("another worker has taken over the rehydration")
)

// Stores are the stores that rehydration reads and writes.
type Stores struct {
	Messages message.Store
	Users    userstate.Store
	Edges    follow.Store
	Appender *bucket.Appender
}

// Options configures a Service.
type Options struct {
	// Rules returns the rules that hold now.
	Rules func() userstate.Rules

	// Retention, unless it is nil, returns what holds now for users without a setting of their own.
	Retention func() userstate.Retention
	// Expired returns up to where messages of a user with a retention have expired by age, or of one whose first look begins now: see retention.Expired.
	// It may be nil.
	Expired func(ctx context.Context, keep userstate.Retention, first bool) (message.ID, error)

	// Limit is how many missed messages are copied into the inbox; older ones are left to a gap. 0 means no limit. A user whose inbox keeps
	// fewer gets as many copies as it keeps.
	Limit int
	// Workers is how many rehydrations this process runs at a time, Queue how many may wait in it.
	Workers int
	Queue   int
	// Page is how many messages are read and appended at a time, which bounds the memory of a worker.
	Page int
	// Reserve, unless it is nil, waits for that memory.
	Reserve func(ctx context.Context, bytes int64) (release func(), err error)
	// Lease is how long a rehydration may make no progress before another worker takes it over.
	Lease time.Duration
	// ReapEvery is how often this process looks for abandoned rehydrations.
	ReapEvery time.Duration
	// Alone says that no other process uses the store. Then unfinished rehydrations are taken over at the start, without waiting for
	// their leases.
	Alone bool
	// Elsewhere says that this process has no workers, because nothing calls Run. A rehydration that begins here has a dead lease, so the
	// reaper of another process takes it over.
	Elsewhere bool
	// MaxAttempts is how often the bus may hand out a login event on which the code panics. Then the event is a dead letter.
	MaxAttempts int
	// Patience is how long a request waits for a rehydration that it needs.
	Patience time.Duration

	// Gapped, unless it is nil, is called with each user who has got a gap, when the rehydration is finished. It must not block.
	Gapped func(message.UserID)
	// Emit publishes that a rehydration is finished; it may be nil.
	Emit func(event.Rehydrated)
	// Token returns a unique token.
	Token  func() string
	Now    func() time.Time
	Logger zerolog.Logger
	Tracer tracing.Tracer
	// Metrics is where the metrics are registered; nil means nowhere.
	Metrics prometheus.Registerer
	// Tally counts returns and what was rebuilt; nil counts nothing.
	Tally *tally.Tally
}

// Service rehydrates users. It is safe for concurrent use. Logins wait for the workers of Run, in this process or in
// another.
type Service struct {
	stores  Stores
	opts    Options
	metrics metrics
	panics  *panics.Recorder
	// self is the prefix of this process's tokens.
	self string
	// damaged counts the due users whose record was damaged at the last reading of the reaper.
	damaged atomic.Int64

	mu      sync.Mutex
	jobs    map[message.UserID]*job
	waiting chan *job
	running int
	// late holds the leases that end late and that the last call of Reap has found, at most as many as it reads.
	late map[message.UserID]watched
}

// New returns a Service.
func New(stores Stores, opts Options) *Service {
	s := &Service{
		stores: stores, opts: opts, self: opts.Token(),
		jobs: make(map[message.UserID]*job), waiting: make(chan *job, opts.Queue),
		panics: panics.NewRecorder(opts.Logger, opts.Metrics, "rehydrate"),
	}
	if opts.Retention == nil {
		s.opts.Retention = func() userstate.Retention { return userstate.Retention{} }
	}
	if opts.Expired == nil {
		s.opts.Expired = func(context.Context, userstate.Retention, bool) (message.ID, error) { return message.ID{}, nil }
	}
	s.metrics = newMetrics(opts.Metrics, s)
	return s
}

// Was is the kind of user before the view.
type Was string

// The kinds of users.
const (
	WasActive  Was = "active"
	WasDormant Was = "dormant"
	WasNew     Was = "new"
)

// Result is the result of a login.
type Result struct {
	Was Was
	// Done reports whether the inbox is complete. Otherwise it was still being rebuilt at the end of the wait.
	Done bool
	// Recovered counts the messages that the rehydration found: those in the inbox and those in a gap.
	Recovered int64
}

// Load is the work of a process at one moment.
type Load struct {
	// Waiting and Running count rehydrations.
	Waiting, Running int
	// Oldest is the time since which the oldest of them has been due; zero if there is none.
	Oldest time.Time
}

// Load returns the current work of this process.
func (s *Service) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	load := Load{Waiting: len(s.jobs) - s.running, Running: s.running}
	for _, j := range s.jobs {
		if load.Oldest.IsZero() || j.since.Before(load.Oldest) {
			load.Oldest = j.since
		}
	}
	return load
}

// recordPanic records the panic that an error wraps, with the user whose rehydration panicked.
func (s *Service) recordPanic(err error, user message.UserID) {
	s.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return line.Str("user", string(user)) })
}

// state reads a user's state.
func (s *Service) state(ctx context.Context, user message.UserID) (userstate.State, error) {
	return userstate.Get(ctx, s.stores.Users, user)
}
