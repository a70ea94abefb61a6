package retention

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// What is removed, as logs and metrics name it.
const (
	plans    = "plans"
	letters  = "letters"
	messages = "messages"
	edges    = "edges"
)

const (
	// edgesEvery is how long after a process has gone through all edges it does so again, unless messages expire sooner: far more of them hold
	// than have ended.
	edgesEvery = 24 * time.Hour
	// edgesPage is how many edges are read at a time. So many of them count as a record that is removed.
	edgesPage, edgesPerRecord = 1000, 10
)

// CollectorStores are the stores from which a Collector removes. All are required.
type CollectorStores struct {
	Messages message.Store
	Progress progress.Store
	Edges    follow.Store
}

// CollectorOptions configures a Collector. Rules, Retention, Canonical, KeysUntil, Rate and Now are required.
type CollectorOptions struct {
	// Conclude ends the plans of messages that are delivered, and Letters removes dead letters up to the low-water mark. Each is optional, and
	// returns how many it has removed, also with an error.
	Conclude, Letters func(ctx context.Context, r Round) (int, error)
	// Rules, Retention, Canonical and KeysUntil return what is recorded now: see settings.Current.
	Rules     func() userstate.Rules
	Retention func() userstate.Retention
	Canonical func() time.Duration
	KeysUntil func() time.Time
	// Rate is how many messages or edges are removed in a second.
	Rate   int
	Now    func() time.Time
	Logger zerolog.Logger
	// Metrics is where the metrics are registered; nil means nowhere.
	Metrics prometheus.Registerer
}

// Collector removes what no process needs any more once a round through all users has ended: plans, dead letters, messages and edges. It is
// safe for concurrent use. Several processes may collect at the same time.
type Collector struct {
	stores  CollectorStores
	opts    CollectorOptions
	limiter *rate.Limiter
	metrics collectorMetrics
	panics  *panics.Recorder
	due     chan Round // at most one

	mu     sync.Mutex
	place  string    // where this process goes on with the edges
	walked time.Time // when it had gone through all of them
}

// NewCollector returns a Collector.
func NewCollector(stores CollectorStores, opts CollectorOptions) *Collector {
	return &Collector{
		stores: stores, opts: opts, limiter: rate.NewLimiter(rate.Limit(opts.Rate), max(opts.Rate, edgesPage)),
		metrics: newCollectorMetrics(opts.Metrics), panics: panics.NewRecorder(opts.Logger, opts.Metrics, "collect"),
		due: make(chan Round, 1),
	}
}

// Due lets a process collect soon after a round that it has ended. It does not block. Only one goroutine may call it.
func (c *Collector) Due(r Round) {
	select {
	case <-c.due: // a round that has not been collected after
	default:
	}
	c.due <- r
}

// Run collects after each round that Due is told, until intake ends. The next round does not wait for it.
func (c *Collector) Run(intake, _ context.Context) {
	for {
		select {
		case <-intake.Done():
			return
		case r := <-c.due:
			c.Collect(intake, r)
		}
	}
}

// Collect removes what can go after a round that has ended, until ctx ends. What cannot be removed is logged, and left to the next round.
func (c *Collector) Collect(ctx context.Context, r Round) {
	for _, part := range []struct {
		what    string
		collect func(context.Context, Round) (int, error)
	}{
		{plans, c.opts.Conclude}, {letters, c.opts.Letters}, {messages, c.collectMessages}, {edges, c.collectEdges},
	} {
		if part.collect == nil || ctx.Err() != nil {
			continue
		}
		removed, err := func() (n int, err error) {
			defer panics.Catch(&err)
			return part.collect(ctx, r)
		}()
		c.metrics.removed.WithLabelValues(part.what).Add(float64(removed))
		if err == nil || ctx.Err() != nil {
			continue
		}
		c.metrics.failures.WithLabelValues(part.what).Inc()
		c.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return line.Str("what", part.what) })
		c.opts.Logger.Warn().Err(err).Str("what", part.what).Msg("what has ended cannot be removed: it is tried again after the next round through all users")
	}
}

// collectMessages removes messages that have expired for all users, and for whose deliveries no process works any more.
//
// A message goes if it is at or below the low-water mark, if it is older than it must be kept, if its idempotency key has expired, and if its
// fan-out had ended before the round began that proved the mark: so no delivery came after that round had passed a user. A void message has no
// deliveries.
func (c *Collector) collectMessages(ctx context.Context, r Round) (removed int, err error) {
	for after := (message.ID{}); ; {
		upTo := c.removable(r)
		if !after.Less(upTo) {
			return removed, nil
		}
		old, err := c.stores.Messages.Oldest(ctx, after, upTo, page)
		if err != nil {
			return removed, err
		}
		n, err := c.removeMessages(ctx, old, r)
		if removed += n; err != nil || len(old) < page {
			return removed, err
		}
		after = old[len(old)-1].ID
	}
}

// removable returns up to where messages may go, by the settings that hold now: an operator may want to stop what has begun. An idempotency key may
// be reserved for publish_slack after the time in the id that it names.
func (c *Collector) removable(r Round) message.ID {
	now, rules := c.opts.Now(), c.opts.Rules()
	if c.opts.Retention() == (userstate.Retention{}) || now.Before(c.opts.KeysUntil()) {
		return message.ID{}
	}
	upTo := message.LastBefore(now.Add(-c.opts.Canonical() - rules.ClockTolerance - rules.PublishSlack))
	if r.LowWater.Less(upTo) {
		return r.LowWater
	}
	return upTo
}

// removeMessages removes those of some messages that may go.
func (c *Collector) removeMessages(ctx context.Context, old []message.Old, r Round) (int, error) {
	rules := c.opts.Rules()
	var refs []message.Ref
	var stamps []message.Stamp
	for _, m := range old {
		switch {
		case m.Err != nil:
			c.damaged(m.ID, m.Err)
		case !m.Unfinished:
			refs, stamps = append(refs, m.Ref), append(stamps, m.Stamp)
		}
	}
	fates, err := c.stores.Messages.Endings(ctx, refs)
	if err != nil {
		return 0, err
	}
	var ended []message.Ref
	for i, ref := range refs {
		if err := fates[i].Err; err != nil {
			c.damaged(ref.ID, err)
			continue
		}
		over := fates[i].Concluded && fates[i].Ending.Closed < r.Proven
		if !over && rules.Void(message.Stored{Message: message.Message{ID: ref.ID, From: ref.From}, Stamp: stamps[i]}) {
			if over, err = c.unplanned(ctx, ref.ID); err != nil {
				return 0, err
			}
		}
		if over {
			ended = append(ended, ref)
		}
	}
	if err := c.wait(ctx, len(ended)); err != nil {
		return 0, err
	}
	if err := c.stores.Messages.Remove(ctx, ended); err != nil {
		return 0, err
	}
	return len(ended), nil
}

func (c *Collector) damaged(id message.ID, err error) {
	c.opts.Logger.Error().Err(err).Stringer("message_id", id).Msg("a message is damaged: it is not removed")
}

// unplanned reports whether a message has no plan. A plan that is damaged is one.
func (c *Collector) unplanned(ctx context.Context, id message.ID) (bool, error) {
	_, err := c.stores.Progress.Get(ctx, id)
	switch {
	case errors.Is(err, progress.ErrNotFound):
		return true, nil
	case errors.Is(err, message.ErrCorrupt):
		return false, nil
	default:
		return false, err
	}
}

// collectEdges removes edges that had ended before all messages that have not expired for all users. They are needed for as long as messages do
// not expire by age, because an older message may then be looked for at any time.
//
// A process may carry out a change that it has begun for as long as the clock tolerance, so an edge has to have ended twice that long ago.
func (c *Collector) collectEdges(ctx context.Context, r Round) (removed int, err error) {
	for place, due := c.edgesDue(); due; due = place != "" {
		by := c.unneeded(r)
		if by.IsZero() {
			return removed, nil
		}
		ended, next, err := c.stores.Edges.Ended(ctx, place, by, edgesPage)
		if err == nil {
			err = c.wait(ctx, max(len(ended), edgesPage/edgesPerRecord))
		}
		if err == nil {
			err = c.stores.Edges.Remove(ctx, ended)
		}
		if err != nil {
			return removed, err
		}
		removed, place = removed+len(ended), next
		c.passedEdges(place)
	}
	return removed, nil
}

// unneeded returns the time by which an edge must have ended to go, by the settings that hold now, or the zero time if all edges stay.
func (c *Collector) unneeded(r Round) time.Time {
	if c.opts.Retention().MaxAge == 0 || r.LowWater.IsZero() {
		return time.Time{}
	}
	by := r.LowWater.Time()
	if latest := c.opts.Now().Add(-2 * c.opts.Rules().ClockTolerance); latest.Before(by) {
		return latest
	}
	return by
}

// edgesDue reports whether this process should go through the edges now, and from which place on.
func (c *Collector) edgesDue() (place string, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, every := c.opts.Now(), min(edgesEvery, c.opts.Retention().MaxAge)
	return c.place, c.place != "" || c.walked.IsZero() || !now.Before(c.walked.Add(every)) || now.Before(c.walked)
}

// passedEdges notes the place that this process has reached; "" is the end.
func (c *Collector) passedEdges(place string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place = place; place == "" {
		c.walked = c.opts.Now()
	}
}

// wait blocks for as long as the rate demands.
func (c *Collector) wait(ctx context.Context, removals int) error {
	if err := c.limiter.WaitN(ctx, removals); err != nil {
		return errors.Join(err, ctx.Err())
	}
	return nil
}
