package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// sweepPage is how many messages are looked at together.
	sweepPage = 500
	// sweepRemembered is of how many messages without a plan a Sweeper remembers when it last emitted them. Beyond that
	// some are emitted more often than they need to be.
	sweepRemembered = 100_000
)

// Sweeper finds messages whose fan-out was forgotten: their publisher went down before it emitted them, or a task was
// lost by the bus. It emits them again; the router then emits what tasks are missing. It is a prometheus.Collector of its own metrics, and
// otherwise not safe for concurrent use.
type Sweeper struct {
	stores Stores
	bus    bus.Emitter
	opts   Options
	// emitted is when messages that have no plan, which could keep it, were last emitted.
	emitted *lru.Cache[message.ID, time.Time]
	swept   prometheus.Counter
}

// NewSweeper returns a Sweeper.
func NewSweeper(stores Stores, bus bus.Emitter, opts Options) *Sweeper {
	emitted, err := lru.New[message.ID, time.Time](sweepRemembered)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Sweeper{stores: stores, bus: bus, opts: opts, emitted: emitted, swept: newSwept()}
}

// Run sweeps every Options.SweepEvery until intake ends.
func (s *Sweeper) Run(intake, work context.Context) {
	ticker := time.NewTicker(s.opts.SweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-intake.Done():
			return
		case <-ticker.C:
		}
		n, err := s.Sweep(work)
		switch {
		case err != nil && work.Err() == nil:
			s.opts.Logger.Error().Err(err).Msg("sweep failed: it is tried again")
		case n > 0:
			s.opts.Logger.Warn().Int("messages", n).Dur("sweep_after", s.opts.SweepAfter).Msg("messages had not moved: emitted them again")
		}
	}
}

// Sweep looks at every unfinished message once, and returns how many it emitted again.
func (s *Sweeper) Sweep(ctx context.Context) (int, error) {
	now := s.opts.Now()
	bound := message.MinID(now.Add(-s.opts.SweepAfter))
	queues, err := s.queues(ctx, s.opts.Rules().PublishSlack)
	if err != nil {
		return 0, err
	}
	emitted := 0
	for after := (message.ID{}); ; {
		refs, err := s.stores.Messages.Unfinished(ctx, after, sweepPage)
		if err != nil {
			return emitted, fmt.Errorf("unfinished messages: %w", err)
		}
		var events []event.Published
		var finished []message.Ref
		young := len(refs) < sweepPage
		for _, ref := range refs {
			if after = ref.ID; !ref.ID.Less(bound) {
				young = true
				break
			}
			switch stuck, done, err := s.inspect(ctx, ref, now, queues); {
			case err != nil:
				return emitted, fmt.Errorf("message %s: %w", ref.ID, err)
			case done:
				finished = append(finished, ref)
			case stuck:
				s.opts.Logger.Debug().Stringer("message_id", ref.ID).Str("from", string(ref.From)).Msg("message has not moved: emitting it again")
				events = append(events, event.NewPublished(ref))
			}
		}
		if err := s.settle(ctx, events, finished); err != nil {
			return emitted, err
		}
		emitted += len(events)
		if young {
			return emitted, nil
		}
	}
}

// queues are the times since when the oldest event and the oldest task have been waiting.
type queues struct {
	events, tasks time.Time
	slack         time.Duration
}

func (s *Sweeper) queues(ctx context.Context, slack time.Duration) (queues, error) {
	if s.opts.Backlog == nil {
		return queues{}, nil
	}
	backlog, err := s.opts.Backlog(ctx)
	if err != nil {
		return queues{}, fmt.Errorf("ask what is waiting: %w", err)
	}
	return queues{events: backlog.Published.Oldest, tasks: backlog.OldestTask(), slack: slack}, nil
}

// behindEvents reports whether an event that was emitted about then may still be waiting.
func (q queues) behindEvents(then time.Time) bool { return q.behind(q.events, then) }

// behindAny reports whether an event or a task that was emitted about then may still be waiting.
func (q queues) behindAny(then time.Time) bool {
	return q.behind(q.events, then) || q.behind(q.tasks, then)
}

func (q queues) behind(oldest, then time.Time) bool {
	return !oldest.IsZero() && !oldest.After(then.Add(q.slack))
}

// inspect tells whether a message has not moved for too long, or is done and only nobody has taken note.
func (s *Sweeper) inspect(ctx context.Context, ref message.Ref, now time.Time, q queues) (stuck, done bool, err error) {
	before := now.Add(-s.opts.SweepAfter)
	fanout, err := s.stores.Progress.Get(ctx, ref.ID)
	if errors.Is(err, progress.ErrNotFound) {
		last, ok := s.emitted.Get(ref.ID)
		if !ok {
			last = ref.ID.Time()
		}
		if last.After(before) || q.behindEvents(last) {
			return false, false, nil
		}
		s.emitted.Add(ref.ID, now)
		return true, false, nil
	}
	if err != nil || fanout.Done() || !stranded(fanout) {
		return false, err == nil && fanout.Done(), err
	}
	if q.behindAny(fanout.Moved) {
		return false, false, nil
	}
	stuck, err = s.stores.Progress.Touch(ctx, ref.ID, before, now)
	return stuck, false, err
}

// stranded tells whether some scan is neither done nor among the dead letters.
func stranded(f progress.Fanout) bool {
	for _, scan := range f.Scans {
		if !scan.Done && !scan.Dead {
			return true
		}
	}
	return false
}

func (s *Sweeper) settle(ctx context.Context, events []event.Published, finished []message.Ref) error {
	if len(events) > 0 {
		if err := s.bus.EmitPublished(ctx, events, true); err != nil {
			return fmt.Errorf("emit: %w", err)
		}
		s.swept.Add(float64(len(events)))
	}
	if len(finished) > 0 {
		if err := s.stores.Messages.Finish(ctx, finished); err != nil {
			return fmt.Errorf("finish: %w", err)
		}
	}
	return nil
}
