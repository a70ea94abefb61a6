package retention

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

const (
	// lease is for how long a process walks without recording its place.
	lease = time.Minute
	// page is how many users are read at a time.
	page = 256
	// idle is the longest time between two looks at the record. Several processes share it, so a look has to be cheap.
	idle = 30 * time.Second
	// recordsPerBucket is how many plans and messages, and how many edges, may be removed for each bucket that may be emptied. Each published
	// message takes two such removals, so this bounds how many messages may be published.
	recordsPerBucket = 10
)

// Stores are the stores of a Walker. A Walker of which only some methods are used needs only their stores.
type Stores struct {
	Rounds   Store
	Passes   Store // of the pass over all edges: After is the place where it goes on, and Began when the last one ended
	Users    userstate.Store
	Buckets  bucket.Store
	Messages message.Store
	Progress progress.Store
	Edges    follow.Store
}

// Options configures a Walker. The functions are required, but for Letters.
type Options struct {
	// Rules, Retention, Canonical and KeysUntil return what is recorded now: see settings.Current.
	Rules     func() userstate.Rules
	Retention func() userstate.Retention
	Canonical func() time.Duration
	KeysUntil func() time.Time
	// Letters, unless it is nil, removes dead letters up to the low-water mark, and returns how many it has removed, also with an error.
	Letters func(ctx context.Context, lowWater message.ID) (int, error)
	// Rate is how many buckets are emptied in a second; 0 means any number. Ten times as many plans and messages are removed, and as many edges.
	Rate int
	// Queue is how many users may wait, and Servers how many of them are trimmed and emptied at a time; 0 means 1.
	Queue, Servers int
	// Workers is how many users the walk keeps at a time; 0 means 1. UsersRate is at how many it looks in a second; 0 means any number.
	Workers, UsersRate int
	// Every is how long after the beginning of a round the next one begins. Hold is how long a reading of the store's clock has to stand before
	// messages expire by it.
	Every, Hold time.Duration
	// Clock returns what the store's clock shows, and whether that, the bus's and this host's agree.
	Clock func(ctx context.Context) (now time.Time, agree bool, err error)
	// Elapsed returns the time since a fixed moment, by a clock that cannot be set.
	Elapsed func() time.Duration
	// Partitions is the number of partitions of the store.
	Partitions int
	// Token names this process. Each process has another one.
	Token string
	// Alone is true if no other process can have the store open, so that a lease that is found is that of a process that has died.
	Alone  bool
	Now    func() time.Time
	Logger zerolog.Logger
	// Metrics is where the metrics are registered; nil means nowhere.
	Metrics prometheus.Registerer
	// WalkMetrics registers the metrics of the walk; nil in a process that does not walk.
	WalkMetrics prometheus.Registerer
}

// Walker lets messages expire: it walks over all users, serves those who wait, and removes what has ended after each round. It is safe for
// concurrent use, but each of Run, Serve, Collect and CollectEdges is for one goroutine.
type Walker struct {
	stores  Stores
	opts    Options
	purger  Purger
	metrics metrics
	panics  *panics.Recorder
	queue   queue

	keepUser               func(ctx context.Context, state userstate.State, round Round) (Kept, error) // Keep
	emptying               *rate.Limiter                                                               // of buckets
	removals, edgeRemovals *rate.Limiter                                                               // of plans and messages, and of edges
	users                  *rate.Limiter                                                               // of users
	ended, endedEdges      chan Round                                                                  // each holds at most one
	held                   held                                                                        // Walk uses it
	logged                 *lru.Cache[message.ID, struct{}]                                            // the damaged plans that were logged
}

// New returns a Walker. It asks for what is in gaps by the feeds of the rehydrator, which need not run.
func New(stores Stores, rehydrator *rehydrate.Service, opts Options) *Walker {
	opts.Workers, opts.Servers = max(opts.Workers, 1), max(opts.Servers, 1)
	logged, err := lru.New[message.ID, struct{}](damagedRemembered)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	w := &Walker{
		stores: stores, opts: opts, panics: panics.NewRecorder(opts.Logger, opts.Metrics, "walk"),
		purger:   Purger{Buckets: stores.Buckets, Users: stores.Users, Rehydrator: rehydrator, Rules: opts.Rules, Lazy: true},
		queue:    queue{users: make(chan message.UserID, opts.Queue), purged: make(map[message.UserID]bool)},
		emptying: limiter(opts.Rate, step), removals: limiter(opts.Rate*recordsPerBucket, plansTogether),
		users:        limiter(opts.UsersRate, opts.Workers),
		edgeRemovals: limiter(opts.Rate*recordsPerBucket, edgesPage),
		ended:        make(chan Round, 1), endedEdges: make(chan Round, 1), logged: logged,
	}
	w.metrics = newMetrics(opts.Metrics, opts.WalkMetrics, func() float64 { return float64(len(w.queue.users)) })
	w.keepUser = w.Keep
	return w
}

// limiter returns a limiter of so many events in a second, up to the given number at once.
func limiter(perSecond, atOnce int) *rate.Limiter {
	if perSecond == 0 {
		return rate.NewLimiter(rate.Inf, atOnce)
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(perSecond, atOnce))
}

// wait blocks for as long as a limiter demands.
func wait(ctx context.Context, by *rate.Limiter, events int) error {
	if err := by.WaitN(ctx, events); err != nil {
		return errors.Join(err, ctx.Err())
	}
	return nil
}

// Run walks whenever a round is due, until intake ends. The next process continues with the user who was being looked at then.
func (w *Walker) Run(intake, processing context.Context) {
	failing := false
	for intake.Err() == nil {
		err := w.Walk(intake, processing)
		w.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return line })
		if err != nil && processing.Err() == nil && !failing {
			w.opts.Logger.Warn().Err(err).Msg("the walk over all users cannot continue: it is tried again")
		}
		failing = err != nil
		startstop.Pause(intake, min(idle, w.opts.Every/4))
	}
}

// Walk does what is due: it takes the round, and walks until the round has ended, intake ends, or another process has taken the round. It
// returns an error if a store fails.
func (w *Walker) Walk(intake, processing context.Context) (err error) {
	defer panics.Catch(&err)
	found, err := w.stores.Rounds.Load(processing)
	if err != nil {
		return err
	}
	w.metrics.found(found)
	timed, ripe, err := w.asOf(processing, found)
	if err != nil {
		return err
	}
	every := w.opts.Every
	if !ripe { // a process that has watched the reading for longer may come first
		every += every / 4
	}
	rules, now := w.opts.Rules(), w.opts.Now()
	left := w.opts.Alone && !found.over()
	if !left && !found.due(now, every, rules.ClockTolerance) {
		if !ripe && !timed.Reading.Equal(found.Reading) {
			_, _, err = w.record(processing, found, timed)
		}
		return err
	}
	r, taken, err := w.record(processing, found, timed.taken(w.opts.Token, now, rules, w.opts.Retention()))
	if taken && found.over() && ripe {
		w.held = held{reading: r.Reading, since: w.opts.Elapsed()}
	}
	for err == nil && taken && intake.Err() == nil {
		if r.Partition >= w.opts.Partitions {
			return w.end(processing, r)
		}
		r, taken, err = w.next(intake, processing, r)
	}
	if taken { // the next process, or this one, need not wait for the end of the lease
		_, _, freeErr := w.record(processing, r, r.free())
		err = errors.Join(err, freeErr)
	}
	return err
}

// end ends a round that has come to its last user.
func (w *Walker) end(processing context.Context, r Round) error {
	ended, taken, err := w.record(processing, r, r.ended())
	if err != nil || !taken {
		return err
	}
	w.metrics.ended(ended, w.opts.Now())
	w.due(ended)
	return nil
}

// next keeps the next users, and records the place that it has reached. With an error, it returns that place without having recorded it.
func (w *Walker) next(intake, processing context.Context, r Round) (_ Round, taken bool, err error) {
	found, err := w.stores.Users.List(processing, r.Partition, r.After, page)
	if err != nil {
		return r, true, err
	}
	reached, rules := r, w.opts.Rules()
	for some := range slices.Chunk(found, w.opts.Workers) {
		if intake.Err() != nil {
			break
		}
		if err := wait(intake, w.users, len(some)); err != nil {
			break // intake has ended
		}
		kept, err := w.keepAll(intake, some, r)
		for i, k := range kept {
			reached = reached.with(some[i], k, rules, w.opts.Now()).at(r.Partition, some[i].State.User)
		}
		if err != nil {
			if intake.Err() != nil {
				break // the next walk begins with this user
			}
			return reached, true, err
		}
		if now := w.opts.Now(); r.Until.Sub(now) < lease/2 {
			if r, taken, err = w.record(processing, r, reached.renewed(now)); err != nil || !taken {
				return r, taken, err
			}
			reached = r
		}
	}
	if len(found) < page && intake.Err() == nil {
		reached = reached.at(r.Partition+1, "")
	}
	return w.record(processing, r, reached.renewed(w.opts.Now()))
}

// keepAll keeps users at the same time. It returns the results of the first of them, up to one for whom there was an error, and this error.
func (w *Walker) keepAll(ctx context.Context, users []userstate.Looked, round Round) ([]Kept, error) {
	kept, errs := make([]Kept, len(users)), make([]error, len(users))
	var group sync.WaitGroup
	for i, user := range users {
		group.Go(func() { kept[i], errs[i] = w.keep(ctx, user, round) })
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			return kept[:i], err
		}
	}
	return kept, nil
}

// keep keeps one user. Damage and a panic concern this user alone: they are logged and counted. They do not hold up the low-water mark, because what
// lies below it has expired by its age.
func (w *Walker) keep(ctx context.Context, user userstate.Looked, round Round) (kept Kept, err error) {
	if err = user.Err; err == nil {
		err = panics.Do(func() (err error) {
			kept, err = w.keepUser(ctx, user.State, round)
			return err
		})
	}
	w.metrics.users.Inc()
	w.metrics.expired.Add(float64(kept.Expired))
	switch {
	case panics.Is(err):
		w.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return line.Str("user", string(user.State.User)) })
	case errors.Is(err, message.ErrCorrupt):
		w.metrics.damaged.Inc()
		w.opts.Logger.Error().Err(err).Str("user", string(user.State.User)).
			Msg("records of a user are damaged: nothing of theirs is removed in this round")
	default:
		return kept, err
	}
	return Kept{Clear: message.MaxID, Expired: kept.Expired}, nil
}

// record replaces the record. It returns the round as it is stored now, and whether it is this process's.
func (w *Walker) record(ctx context.Context, from, to Round) (Round, bool, error) {
	return w.recordIn(ctx, w.stores.Rounds, from, to)
}

func (w *Walker) recordIn(ctx context.Context, store Store, from, to Round) (Round, bool, error) {
	switch err := store.Replace(ctx, from, to); {
	case errors.Is(err, ErrChanged):
		return from, false, nil // another process walks, or a reply was lost and the lease has to end
	case err != nil:
		return from, false, err
	}
	to.Revision = from.Revision + 1
	return to, true, nil
}
