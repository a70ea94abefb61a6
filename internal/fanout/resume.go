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
	// resumePage is how many messages Resume reads at a time.
	resumePage = 500
	// resumeRemembered is for how many messages without a plan a Resumer remembers when it last emitted them. Beyond
	// that, it emits some more often than needed.
	resumeRemembered = 100_000
	// resumePatience is how long a message waits behind older events and tasks since it last moved. A backlog this old may
	// never end, because its consumer may have stopped for good. Emitting the message again costs such a backlog one event an
	// hour for each message, and a task for each of its open scans.
	resumePatience = time.Hour
)

// Resumer finds messages whose fan-out has stopped: their publisher crashed before it emitted them, or the bus lost a
// task. It emits these messages again, and the router then emits the missing tasks. It is not safe for
// concurrent use.
type Resumer struct {
	stores Stores
	bus    bus.Emitter
	opts   Options
	// emitted is when messages without a plan were last emitted. A plan would record that time itself.
	emitted *lru.Cache[message.ID, time.Time]
	resumed prometheus.Counter
	overdue prometheus.Counter
	panics  *panics.Recorder
}

// NewResumer returns a Resumer.
func NewResumer(stores Stores, bus bus.Emitter, opts Options) *Resumer {
	emitted, err := lru.New[message.ID, time.Time](resumeRemembered)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Resumer{
		stores: stores, bus: bus, opts: opts, emitted: emitted, resumed: newResumed(opts.Metrics), overdue: newOverdue(opts.Metrics),
		panics: panics.NewRecorder(opts.Logger, opts.Metrics, "resume"),
	}
}

// Run calls Resume every Options.ResumeEvery until intake ends. A running Resume then continues under processing.
func (s *Resumer) Run(intake, processing context.Context) {
	ticker := time.NewTicker(s.opts.ResumeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-intake.Done():
			return
		case <-ticker.C:
		}
		n, err := s.Resume(processing)
		s.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return line })
		switch {
		case err != nil && processing.Err() == nil:
			s.opts.Logger.Error().Err(err).Msg("resuming stopped messages failed: it is tried again")
		case n > 0:
			s.opts.Logger.Warn().Int("messages", n).Stringer("resume_after", s.opts.ResumeAfter).Msg("messages had not moved: emitted them again")
		}
	}
}

// Resume inspects every unfinished message that is old enough. It returns how many messages it emitted again. It leaves out
// a message on which the code panics. Any other panic is an error.
func (s *Resumer) Resume(ctx context.Context) (emitted int, err error) {
	defer panics.Catch(&err)
	now := s.opts.Now()
	bound := message.MinID(now.Add(-s.opts.ResumeAfter))
	queues := &queueAges{queues: s.opts.Queues, slack: s.opts.Rules().PublishSlack, tasks: make(map[queue]time.Time)}
	var overdue []message.Ref
	defer func() { s.reportOverdue(overdue) }()
	for after := (message.ID{}); ; {
		refs, err := s.stores.Messages.Unfinished(ctx, after, resumePage)
		if err != nil {
			return emitted, fmt.Errorf("unfinished messages: %w", err)
		}
		var events []event.Published
		last := len(refs) < resumePage
		for _, ref := range refs {
			if after = ref.ID; !ref.ID.Less(bound) {
				last = true // this message and all that follow are too young
				break
			}
			switch found, err := s.inspect(ctx, ref, now, queues); {
			case panics.Is(err):
				s.panics.Record(err, func(line *zerolog.Event) *zerolog.Event {
					return line.Stringer("message_id", ref.ID).Str("from", string(ref.From))
				})
			case err != nil:
				return emitted, fmt.Errorf("message %s: %w", ref.ID, err)
			case found == stuckFanout, found == overdueFanout:
				if found == overdueFanout {
					overdue = append(overdue, ref)
				}
				s.opts.Logger.Debug().Stringer("message_id", ref.ID).Str("from", string(ref.From)).Msg("message has not moved: emitting it again")
				events = append(events, event.NewPublished(ref))
			}
		}
		if len(events) > 0 {
			if err := s.bus.EmitPublished(ctx, events, true); err != nil {
				return emitted, fmt.Errorf("emit: %w", err)
			}
			s.resumed.Add(float64(len(events)))
		}
		emitted += len(events)
		if last {
			return emitted, nil
		}
	}
}

// reportOverdue counts and logs messages that were emitted again after resumePatience.
func (s *Resumer) reportOverdue(overdue []message.Ref) {
	if len(overdue) == 0 {
		return
	}
	s.overdue.Add(float64(len(overdue)))
	s.opts.Logger.Warn().Int("messages", len(overdue)).Stringer("waited", resumePatience).
		Stringer("message_id", overdue[0].ID).Str("from", string(overdue[0].From)).
		Msg("messages have waited too long behind older events or tasks: emitted them again")
}

// queue names the tasks of a lane and partition.
type queue struct {
	lane      event.Lane
	partition int
}

// queueAges asks the bus how old its queues are, each once in a Resume, when a message may wait there.
type queueAges struct {
	queues    bus.Queues
	slack     time.Duration
	published *time.Time
	tasks     map[queue]time.Time
}

// mayHoldEvent reports whether an event that was emitted at the given time may still be on the bus.
func (q *queueAges) mayHoldEvent(ctx context.Context, emitted time.Time) (bool, error) {
	if q.queues == nil {
		return false, nil
	}
	if q.published == nil {
		oldest, err := q.queues.OldestPublished(ctx)
		if err != nil {
			return false, fmt.Errorf("read the age of the published events: %w", err)
		}
		q.published = &oldest
	}
	return q.mayHold(emitted, *q.published), nil
}

// mayHoldTask reports whether a task of a partition that was emitted at the given time may still be on the bus. The task may
// be in any lane, because the lane of an author can change.
func (q *queueAges) mayHoldTask(ctx context.Context, emitted time.Time, partition int) (bool, error) {
	if q.queues == nil {
		return false, nil
	}
	for _, lane := range event.Lanes() {
		place := queue{lane, partition}
		oldest, asked := q.tasks[place]
		if !asked {
			var err error
			if oldest, err = q.queues.OldestTask(ctx, lane, partition); err != nil {
				return false, fmt.Errorf("read the age of the %s tasks of partition %d: %w", lane, partition, err)
			}
			q.tasks[place] = oldest
		}
		if q.mayHold(emitted, oldest) {
			return true, nil
		}
	}
	return false, nil
}

func (q *queueAges) mayHold(emitted, oldest time.Time) bool {
	return !oldest.IsZero() && !oldest.After(emitted.Add(q.slack))
}

// finding is what Resume finds of the fan-out of a message.
type finding int

const (
	movingFanout  finding = iota
	stuckFanout           // it must be emitted again
	overdueFanout         // the same, although its event or task may still be on the bus
)

// inspect returns the state of a message's fan-out. A stuck message counts as emitted when inspect returns: no other Resume
// emits it for Options.ResumeAfter.
func (s *Resumer) inspect(ctx context.Context, ref message.Ref, now time.Time, queues *queueAges) (_ finding, err error) {
	defer panics.Catch(&err)
	fanout, err := s.stores.Progress.Get(ctx, ref.ID)
	if errors.Is(err, progress.ErrNotFound) {
		last, ok := s.emitted.Get(ref.ID)
		if !ok {
			last = ref.ID.Time()
		}
		if last.After(now.Add(-s.opts.ResumeAfter)) {
			return movingFanout, nil
		}
		queued, err := queues.mayHoldEvent(ctx, last)
		if err != nil || queued && !overdue(last, now) {
			return movingFanout, err
		}
		s.emitted.Add(ref.ID, now)
		return stuck(queued), nil
	}
	switch {
	case err != nil:
		return movingFanout, err
	case len(openScans(fanout)) == 0 && !fanout.Done(), // what is left is dead
		fanout.Moved.After(now.Add(-s.opts.ResumeAfter)):
		return movingFanout, nil
	}
	queued, err := s.mayBeQueued(ctx, fanout, queues)
	if err != nil || queued && !overdue(fanout.Moved, now) {
		return movingFanout, err
	}
	if touched, err := s.stores.Progress.Touch(ctx, ref.ID, now, s.opts.ResumeAfter); err != nil || !touched {
		return movingFanout, err
	}
	return stuck(queued), nil
}

// stuck returns the finding for a message that must be emitted again.
func stuck(queued bool) finding {
	if queued {
		return overdueFanout
	}
	return stuckFanout
}

// overdue reports whether a message that moved at the given time has waited for resumePatience.
func overdue(moved, now time.Time) bool { return !moved.After(now.Add(-resumePatience)) }

// mayBeQueued reports whether the event of a message, or a task for one of its open scans, may still be on the bus. It asks
// only for partitions that a worker takes tasks from.
func (s *Resumer) mayBeQueued(ctx context.Context, fanout progress.Fanout, queues *queueAges) (bool, error) {
	queued, err := queues.mayHoldEvent(ctx, fanout.Moved)
	for _, p := range openScans(fanout) {
		if err != nil || queued {
			break
		}
		if p < s.opts.Partitions {
			queued, err = queues.mayHoldTask(ctx, fanout.Moved, p)
		}
	}
	return queued, err
}

// openScans returns the partitions whose scans are open.
func openScans(f progress.Fanout) []int {
	var open []int
	for p, scan := range f.Scans {
		if scan.Open() {
			open = append(open, p)
		}
	}
	return open
}
