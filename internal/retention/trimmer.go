package retention

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// together is how many records are read together for the queue, at most.
const together = 64

// TrimmerOptions configures a Trimmer. Queue, Rules, Retention and Now are required.
type TrimmerOptions struct {
	// Queue is how many users may wait.
	Queue int
	// Workers is how many of them are trimmed at a time; 0 means 1.
	Workers int
	// Rules and Retention return what holds now, the latter for users without a setting of their own.
	Rules     func() userstate.Rules
	Retention func() userstate.Retention
	Now       func() time.Time
	// Trimmed, unless it is nil, is called with each user whose purge point TrimUser or Run has raised. It must not block.
	Trimmed func(message.UserID)
	Logger  zerolog.Logger
	// Metrics is where the metrics are registered; nil means nowhere.
	Metrics prometheus.Registerer
}

// Trimmer lets the oldest messages of inboxes expire, so that the newest remain. It does so for those who wait in its queue, and for a
// Keeper. A user who does not fit into the queue, or who waits when the process ends, is left to the walk. It is safe for concurrent use.
type Trimmer struct {
	buckets    bucket.Store
	users      userstate.Store
	purger     *Purger
	rehydrator *rehydrate.Service
	opts       TrimmerOptions
	metrics    trimmerMetrics
	panics     *panics.Recorder
	queue      *queue
}

// NewTrimmer returns a Trimmer. It asks for what is in gaps by the feeds of the rehydrator, which need not run.
func NewTrimmer(buckets bucket.Store, users userstate.Store, purger *Purger, rehydrator *rehydrate.Service, opts TrimmerOptions) *Trimmer {
	opts.Workers = max(opts.Workers, 1)
	t := &Trimmer{
		buckets: buckets, users: users, purger: purger, rehydrator: rehydrator, opts: opts,
		panics: panics.NewRecorder(opts.Logger, opts.Metrics, "trim"), queue: newQueue(opts.Queue),
	}
	t.metrics = newTrimmerMetrics(opts.Metrics, t.queue.length)
	t.queue.full = t.metrics.full
	return t
}

// Queue lets a user's inbox be trimmed soon. It does not block.
func (t *Trimmer) Queue(user message.UserID) { t.queue.add(user) }

// Run trims the users in the queue until intake ends.
func (t *Trimmer) Run(intake, _ context.Context) {
	var workers sync.WaitGroup
	for range t.opts.Workers {
		workers.Go(func() {
			t.queue.serve(intake, t.opts.Workers, together, func(users []message.UserID) { t.trimAll(intake, users) })
		})
	}
	workers.Wait()
}

// trimAll trims users. It reads their records together, because most of them may keep everything.
func (t *Trimmer) trimAll(ctx context.Context, users []message.UserID) {
	slices.Sort(users)
	found, err := t.users.Lookup(ctx, users)
	for i, user := range users {
		if err != nil {
			t.report(ctx, user, err)
			continue
		}
		t.report(ctx, user, panics.Do(func() error {
			if found[i].Err != nil {
				return found[i].Err
			}
			return t.trim(ctx, found[i].State)
		}))
	}
}

// report records how a trim ended.
func (t *Trimmer) report(ctx context.Context, user message.UserID, err error) {
	t.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return line.Str("user", string(user)) })
	if err != nil && ctx.Err() == nil {
		t.opts.Logger.Warn().Err(err).Str("user", string(user)).Msg("an inbox cannot be trimmed to its newest messages: the walk over all users tries it again")
	}
}

// TrimUser is Trim for a user whose state it reads.
func (t *Trimmer) TrimUser(ctx context.Context, user message.UserID) error {
	state, err := userstate.Get(ctx, t.users, user)
	if err != nil {
		return err
	}
	return t.trim(ctx, state)
}

func (t *Trimmer) trim(ctx context.Context, state userstate.State) error {
	trimmed, _, err := t.Trim(ctx, state)
	if err == nil && state.Purged.Less(trimmed.Purged) && t.opts.Trimmed != nil {
		t.opts.Trimmed(state.User)
	}
	return err
}

// Trim raises the user's purge point, so that the newest messages remain: as many as the user's retention says, and those that were sent in
// the same millisecond as the last of them. It returns the state afterwards, and how many messages have expired. It starts from a state that the caller
// has read. It is idempotent, and does not block.
//
// It reads those messages only if there are a quarter more, so that the work for one message does not depend on how many remain. It writes
// nothing if nothing expires. Messages that may not have settled remain: see userstate.Rules.Settled.
func (t *Trimmer) Trim(ctx context.Context, state userstate.State) (userstate.State, int64, error) {
	newest := state.Keep.Within(t.opts.Retention()).Newest
	if newest == 0 || !state.Known() {
		return state, 0, nil
	}
	if more, err := t.exceeds(ctx, state, newest); err != nil || !more {
		return state, 0, err
	}
	rules := t.opts.Rules()
	trim, err := bucket.ReadTrim(ctx, t.buckets, bucket.TrimRequest{
		Owner: state.User, Hint: state.Head, Purged: state.Purged, Gaps: state.Gaps, Oldest: state.Oldest, Newest: newest,
		OnRead: t.rehydrator.Feed(state.User, rules).Newest,
	})
	if err != nil {
		return state, 0, err
	}
	to := trim.UpTo
	if settled := rules.Settled(t.opts.Now()); settled.Less(to) {
		to = settled
	}
	if !state.Purged.Less(to) {
		return state, 0, nil
	}
	if first, err := earliest(ctx, t.buckets, state, to.Next()); err != nil || to.Less(first) {
		return state, 0, err
	}
	state, expired, err := t.purger.Raise(ctx, state, to)
	if err == nil {
		t.metrics.inboxes.Inc()
		t.metrics.expired.Add(float64(expired))
	}
	return state, expired, err
}

// exceeds reports whether a quarter more messages of a user may be left than the newest. It may count messages that have expired or are deleted,
// but leaves none out that Trim would find.
func (t *Trimmer) exceeds(ctx context.Context, state userstate.State, newest int64) (bool, error) {
	heads, err := t.buckets.Heads(ctx, []bucket.Ref{{Owner: state.User, Sequence: state.Head.Sequence}})
	if err != nil {
		return false, err
	}
	slots := heads[0].Position(heads[0].Slots())
	if total, _ := bucket.Counts(slots, bucket.Deletions{}, bucket.ReadMark{}, state.Gaps, bucket.Expired{}); total-newest <= newest/4 {
		return false, nil
	}
	deletions, err := bucket.ReadDeletions(ctx, t.buckets, state.User, state.Oldest)
	if err != nil {
		return false, err
	}
	expired, err := bucket.ReadExpired(ctx, t.buckets, state.User, heads[0], state.Purged, state.Oldest)
	if err != nil {
		return false, err
	}
	total, _ := bucket.Counts(slots, deletions, bucket.ReadMark{}, state.Gaps, expired)
	return total-newest > newest/4, nil
}
