package retention

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// step is how many buckets are emptied at a time: a fraction of a second's work.
const step = 32

// EmptierOptions configures an Emptier. Rate and Queue are required.
type EmptierOptions struct {
	// Rate is how many buckets are emptied in a second.
	Rate int
	// Queue is how many users may wait.
	Queue  int
	Logger zerolog.Logger
	// Metrics is where the metrics are registered; nil means nowhere.
	Metrics prometheus.Registerer
}

// Emptier empties the buckets of users whose purge point has risen. It does so for those who wait in its queue, and as the Keep of a
// Walker. A user who does not fit into the queue, or who waits when the process ends, is left to the walk. It is safe for concurrent use.
type Emptier struct {
	buckets bucket.Store
	users   userstate.Store
	opts    EmptierOptions
	limiter *rate.Limiter
	metrics emptierMetrics
	freed   atomic.Int64 // bytes
	panics  *panics.Recorder

	queue *queue
}

// NewEmptier returns an Emptier.
func NewEmptier(buckets bucket.Store, users userstate.Store, opts EmptierOptions) *Emptier {
	e := &Emptier{
		buckets: buckets, users: users, opts: opts, limiter: rate.NewLimiter(rate.Limit(opts.Rate), max(opts.Rate, step)),
		panics: panics.NewRecorder(opts.Logger, opts.Metrics, "empty"), queue: newQueue(opts.Queue),
	}
	e.metrics = newEmptierMetrics(opts.Metrics, e.queue.length)
	e.queue.full = e.metrics.full
	return e
}

// Queue lets the buckets of a user be emptied soon. It does not block. The user's purge point has risen before.
func (e *Emptier) Queue(user message.UserID) { e.queue.add(user) }

// Freed returns how many bytes were freed since the process began, before compression.
func (e *Emptier) Freed() int64 { return e.freed.Load() }

// Run empties the buckets of users in the queue until intake ends.
func (e *Emptier) Run(intake, _ context.Context) {
	e.queue.serve(intake, 1, 1, func(users []message.UserID) {
		user := users[0]
		err := e.emptyNow(intake, user)
		e.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return line.Str("user", string(user)) })
		if err != nil && intake.Err() == nil {
			e.opts.Logger.Warn().Err(err).Str("user", string(user)).Msg("the buckets of a user cannot be emptied: the walk over all users tries it again")
		}
	})
}

func (e *Emptier) emptyNow(ctx context.Context, user message.UserID) (err error) {
	defer panics.Catch(&err)
	state, err := userstate.Get(ctx, e.users, user)
	if err != nil {
		return err
	}
	return e.Empty(ctx, state)
}

// Empty empties all buckets of a user whose messages have expired. It blocks for as long as the rate demands. It is idempotent, may run at the
// same time for the same user, and returns what ctx says when ctx ends. The next call continues where it was.
func (e *Emptier) Empty(ctx context.Context, state userstate.State) error {
	if state.Purged.IsZero() {
		return nil
	}
	emptying := bucket.NewEmptying(e.buckets, state.User, state.Head, state.Purged)
	for more := true; more; {
		var freed bucket.Emptied
		var err error
		if freed, more, err = emptying.Step(ctx, step); err != nil {
			return err
		}
		e.metrics.buckets.Add(float64(freed.Buckets))
		e.metrics.entries.Add(float64(freed.Entries))
		e.metrics.bytes.Add(float64(freed.Bytes))
		e.freed.Add(freed.Bytes)
		if err := e.limiter.WaitN(ctx, freed.Buckets); err != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	return nil
}
