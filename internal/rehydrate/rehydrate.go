package rehydrate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

var (
	// ErrUnfinished says that an inbox was still being rebuilt when the wait for it was over. Nothing is lost by
	// that: it goes on, and can be waited for again.
	ErrUnfinished = errors.New("inbox is still being rebuilt")
	// ErrLost says that somebody else has taken over a rehydration. Whoever gets it has nothing left to do.
	ErrLost = errors.New("rehydration was taken over by somebody else")
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

	// Limit is how many messages are appended; older ones are left to a gap. 0 means all.
	Limit int
	// Workers is how many rehydrations this process carries out at a time, Queue how many may wait here.
	Workers int
	Queue   int
	// Page is how many messages are read and appended at a time, which bounds the memory of a worker.
	Page int
	// Lease is how long a rehydration may make no progress before somebody else takes it over.
	Lease time.Duration
	// ReapEvery is how often rehydrations are looked for that nobody is at.
	ReapEvery time.Duration
	// Alone tells that no other process uses the store. Whatever is left over at the start is taken over at once then.
	Alone bool
	// Patience is how long a request waits for a rehydration that it cannot do without.
	Patience time.Duration

	// Emit tells whoever listens that a rehydration is finished; it may be nil.
	Emit func(event.Rehydrated)
	// Token returns a token that nobody else has.
	Token  func() string
	Now    func() time.Time
	Logger zerolog.Logger
	Tracer tracing.Tracer
}

// Service rehydrates users. It is safe for concurrent use. Logins wait for the workers of Run, in this process or in
// another. It is a prometheus.Collector of its own metrics.
type Service struct {
	stores  Stores
	opts    Options
	metrics metrics
	// self is what the tokens of this process begin with.
	self string

	mu      sync.Mutex
	flights map[message.UserID]*flight
	waiting chan *flight
	running int
}

// New returns a Service.
func New(stores Stores, opts Options) *Service {
	return &Service{
		stores: stores, opts: opts, metrics: newMetrics(), self: opts.Token(),
		flights: make(map[message.UserID]*flight), waiting: make(chan *flight, opts.Queue),
	}
}

// Was says what a user was before they looked.
type Was string

// What a user can have been.
const (
	WasActive  Was = "active"
	WasDormant Was = "dormant"
	WasNew     Was = "new"
)

// Result is what a login came to.
type Result struct {
	Was Was
	// Done tells that the inbox is complete; otherwise it was still being rebuilt when the wait was over.
	Done bool
	// Recovered counts the messages that the rehydration found: those in the inbox and those in a gap.
	Recovered int64
}

// Load is what a process has to do at a moment.
type Load struct {
	// Waiting and Running count rehydrations.
	Waiting, Running int
	// Oldest is since when the oldest of those that wait or run has been due; zero if there is none.
	Oldest time.Time
}

// Load tells what this process has to do at the moment.
func (s *Service) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	load := Load{Waiting: len(s.flights) - s.running, Running: s.running}
	for _, f := range s.flights {
		if load.Oldest.IsZero() || f.since.Before(load.Oldest) {
			load.Oldest = f.since
		}
	}
	return load
}

// state returns what is recorded of a user.
func (s *Service) state(ctx context.Context, user message.UserID) (userstate.State, error) {
	return userstate.Get(ctx, s.stores.Users, user)
}
