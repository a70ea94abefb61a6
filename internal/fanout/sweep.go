package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// sweepPage is how many messages a sweep reads at a time.
	sweepPage = 500
	// sweepRemembered is for how many messages without a plan a Sweeper remembers when it last emitted them. Beyond
	// that, it emits some more often than needed.
	sweepRemembered = 100_000
)

// Sweeper finds messages whose fan-out has stopped: their publisher crashed before it emitted them, or the bus lost a
// task. It emits these messages again, and the router then emits the missing tasks. It is not safe for
// concurrent use.
type Sweeper struct {
	stores Stores
	bus    bus.Emitter
	opts   Options
	// emitted is when messages without a plan were last emitted. A plan would record that time itself.
	emitted *lru.Cache[message.ID, time.Time]
	swept   prometheus.Counter
	panics  *panics.Recorder
}

// NewSweeper returns a Sweeper.
func NewSweeper(stores Stores, bus bus.Emitter, opts Options) *Sweeper {
	emitted, err := lru.New[message.ID, time.Time](sweepRemembered)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Sweeper{
		stores: stores, bus: bus, opts: opts, emitted: emitted, swept: newSwept(opts.Metrics),
		panics: panics.NewRecorder(opts.Logger, opts.Metrics, "sweep"),
	}
}

// Run sweeps every Options.SweepEvery until intake ends. A sweep that is under way then continues under processing.
func (s *Sweeper) Run(intake, processing context.Context) {
	ticker := time.NewTicker(s.opts.SweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-intake.Done():
			return
		case <-ticker.C:
		}
		n, err := s.Sweep(processing)
		s.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return line })
		switch {
		case err != nil && processing.Err() == nil:
			s.opts.Logger.Error().Err(err).Msg("sweep failed: it is tried again")
		case n > 0:
			s.opts.Logger.Warn().Int("messages", n).Dur("sweep_after", s.opts.SweepAfter).Msg("messages had not moved: emitted them again")
		}
	}
}

// Sweep inspects every unfinished message that is old enough. It returns how many messages it emitted again. It leaves out
// a message on which the code panics. Any other panic is an error.
func (s *Sweeper) Sweep(ctx context.Context) (emitted int, err error) {
	defer panics.Catch(&err)
	now := s.opts.Now()
	bound := message.MinID(now.Add(-s.opts.SweepAfter))
	queued, err := s.oldestQueued(ctx, s.opts.Rules().PublishSlack)
	if err != nil {
		return 0, err
	}
	for after := (message.ID{}); ; {
		refs, err := s.stores.Messages.Unfinished(ctx, after, sweepPage)
		if err != nil {
			return emitted, fmt.Errorf("unfinished messages: %w", err)
		}
		var events []event.Published
		var finished []message.Ref
		last := len(refs) < sweepPage
		for _, ref := range refs {
			if after = ref.ID; !ref.ID.Less(bound) {
				last = true // this message and all that follow are too young
				break
			}
			switch stuck, done, err := s.inspect(ctx, ref, now, queued); {
			case panics.Is(err):
				s.panics.Record(err, func(line *zerolog.Event) *zerolog.Event {
					return line.Stringer("message_id", ref.ID).Str("from", string(ref.From))
				})
			case err != nil:
				return emitted, fmt.Errorf("message %s: %w", ref.ID, err)
			case done:
				finished = append(finished, ref)
			case stuck:
				s.opts.Logger.Debug().Stringer("message_id", ref.ID).Str("from", string(ref.From)).Msg("message has not moved: emitting it again")
				events = append(events, event.NewPublished(ref))
			}
		}
		if err := s.emitAndFinish(ctx, events, finished); err != nil {
			return emitted, err
		}
		emitted += len(events)
		if last {
			return emitted, nil
		}
	}
}

// oldestQueued is since when the oldest event and the oldest task have been on the bus; the zero time if there is none.
type oldestQueued struct {
	event, task time.Time
	slack       time.Duration
}

func (s *Sweeper) oldestQueued(ctx context.Context, slack time.Duration) (oldestQueued, error) {
	if s.opts.Backlog == nil {
		return oldestQueued{}, nil
	}
	backlog, err := s.opts.Backlog(ctx)
	if err != nil {
		return oldestQueued{}, fmt.Errorf("read the backlog: %w", err)
	}
	return oldestQueued{event: backlog.Published.Oldest, task: backlog.OldestTask(), slack: slack}, nil
}

// mayHoldEvent reports whether an event that was emitted at the given time may still be on the bus.
func (q oldestQueued) mayHoldEvent(emitted time.Time) bool { return q.mayHold(emitted, q.event) }

// mayHoldAny reports whether an event or a task that was emitted at the given time may still be on the bus.
func (q oldestQueued) mayHoldAny(emitted time.Time) bool {
	return q.mayHold(emitted, q.event) || q.mayHold(emitted, q.task)
}

func (q oldestQueued) mayHold(emitted, oldest time.Time) bool {
	return !oldest.IsZero() && !oldest.After(emitted.Add(q.slack))
}

// inspect reports whether the fan-out of a message is stuck, or is done although the message is not marked as finished.
// A stuck message counts as emitted when inspect returns: no other sweep emits it for Options.SweepAfter.
func (s *Sweeper) inspect(ctx context.Context, ref message.Ref, now time.Time, queued oldestQueued) (stuck, done bool, err error) {
	defer panics.Catch(&err)
	fanout, err := s.stores.Progress.Get(ctx, ref.ID)
	if errors.Is(err, progress.ErrNotFound) {
		last, ok := s.emitted.Get(ref.ID)
		if !ok {
			last = ref.ID.Time()
		}
		if last.After(now.Add(-s.opts.SweepAfter)) || queued.mayHoldEvent(last) {
			return false, false, nil
		}
		s.emitted.Add(ref.ID, now)
		return true, false, nil
	}
	if err != nil || fanout.Done() || !unfinished(fanout) {
		return false, err == nil && fanout.Done(), err
	}
	if queued.mayHoldAny(fanout.Moved) {
		return false, false, nil
	}
	stuck, err = s.stores.Progress.Touch(ctx, ref.ID, now, s.opts.SweepAfter)
	return stuck, false, err
}

// unfinished reports whether a scan is neither done nor dead.
func unfinished(f progress.Fanout) bool {
	for _, scan := range f.Scans {
		if !scan.Done && !scan.Dead {
			return true
		}
	}
	return false
}

func (s *Sweeper) emitAndFinish(ctx context.Context, events []event.Published, finished []message.Ref) error {
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
