package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
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
	// resumeRemembered is for how many messages a Resumer remembers when it last emitted them. Beyond that, it emits some more often than needed.
	resumeRemembered = 100_000
)

// Resumer finds messages whose fan-out has stopped: their publisher crashed before it emitted them, or the bus lost a
// task. It emits these messages again, and the router then emits the missing tasks. It is not safe for
// concurrent use.
type Resumer struct {
	stores Stores
	bus    resumerBus
	opts   Options
	// emitted is when this process last emitted messages.
	emitted *lru.Cache[message.ID, time.Time]
	// standing is since when messages have stood still that this process has logged.
	standing *lru.Cache[message.ID, time.Time]
	metrics  resumerMetrics
	panics   *panics.Recorder
	waiting  bool // the last Resume has left a message that may be on the bus
}

// resumerBus is what a Resumer needs of the bus.
type resumerBus interface {
	bus.Publisher
	bus.Queues
}

// NewResumer returns a Resumer.
func NewResumer(stores Stores, bus resumerBus, opts Options) *Resumer {
	emitted, err := lru.New[message.ID, time.Time](resumeRemembered)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	standing, err := lru.New[message.ID, time.Time](rememberedSlow)
	if err != nil {
		panic(err) // as above
	}
	opts.slow = slowLogger(opts.Logger)
	return &Resumer{
		stores: stores, bus: bus, opts: opts, emitted: emitted, standing: standing, metrics: newResumerMetrics(opts.Metrics),
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
		if err != nil && processing.Err() == nil {
			s.opts.Logger.Error().Err(err).Msg("resuming stopped messages failed: it is tried again")
		}
		if n > 0 {
			s.opts.Logger.Warn().Int("messages", n).Stringer("resume_after", s.opts.ResumeAfter).Msg("messages had not moved: emitted them again")
		}
	}
}

// Resume inspects every unfinished message that is old enough, unless another process is elected to. It returns how many messages it emitted again.
// It leaves out a message on which the code panics, and one whose plan is damaged, which it returns as an error. Any other error ends it.
func (s *Resumer) Resume(ctx context.Context) (emitted int, err error) {
	defer panics.Catch(&err)
	r := &resumption{Resumer: s, now: s.opts.Now(), queues: make(map[queue]queued)}
	if s.opts.Elected != nil {
		elected, err := s.opts.Elected(ctx)
		if err == nil && !elected {
			return 0, nil
		}
		r.failed = err // two processes that resume do no harm, so this one goes on
	}
	err = errors.Join(r.resume(ctx), r.failed)
	s.metrics.look(err, len(r.waiting))
	if len(r.waiting) > 0 && !s.waiting {
		s.opts.Logger.Warn().Int("messages", len(r.waiting)).Stringer("message_id", r.waiting[0].ID).Str("from", string(r.waiting[0].From)).
			Msg("messages have not moved, and are not emitted again: their events or tasks are on the bus")
	}
	s.waiting = len(r.waiting) > 0
	return r.emitted, err
}

// resumption is one Resume.
type resumption struct {
	*Resumer
	now     time.Time
	queues  map[queue]queued
	waiting []message.Ref // may be on the bus
	failed  error         // of what does not end it
	emitted int
}

func (r *resumption) resume(ctx context.Context) error {
	old := message.MinID(r.now.Add(-r.opts.ResumeAfter))
	before := old
	if r.opts.SlowAfter > 0 { // younger ones are only logged
		before = message.MinID(r.now.Add(-min(r.opts.SlowAfter, r.opts.ResumeAfter)))
	}
	for after := (message.ID{}); ; {
		refs, err := r.stores.Messages.Unfinished(ctx, after, before, resumePage)
		if err != nil {
			return fmt.Errorf("unfinished messages: %w", err)
		}
		plans, err := r.plans(ctx, refs)
		if err != nil {
			return err
		}
		var events []event.Published
		for i, ref := range refs {
			stuck, err := false, plans[i].Err
			if err == nil {
				r.logStanding(ctx, ref, plans[i].Fanout)
			}
			if err == nil && ref.ID.Less(old) {
				stuck, err = r.inspect(ctx, ref, plans[i].Fanout)
			}
			switch {
			case !ref.ID.Less(old):
			case panics.Is(err):
				r.panics.Record(err, func(line *zerolog.Event) *zerolog.Event {
					return line.Stringer("message_id", ref.ID).Str("from", string(ref.From))
				})
			case errors.Is(err, message.ErrCorrupt):
				r.failed = errors.Join(r.failed, fmt.Errorf("message %s: %w", ref.ID, err))
			case err != nil:
				return fmt.Errorf("message %s: %w", ref.ID, err)
			case stuck:
				line := r.opts.Logger.Debug()
				if !r.Resumer.emitted.Contains(ref.ID) { // once for each message
					line = r.opts.slow.Info()
				}
				r.describe(line, ref, plans[i].Fanout).Msg("message has not moved: emitting it again")
				events = append(events, event.NewPublished(ref))
			}
		}
		if err := r.emit(ctx, events); err != nil || len(refs) < resumePage || !refs[resumePage-1].ID.Less(old) {
			return err
		}
		after = refs[resumePage-1].ID
	}
}

func (r *resumption) emit(ctx context.Context, events []event.Published) error {
	if len(events) == 0 {
		return nil
	}
	if err := r.bus.EmitPublished(ctx, events, true); err != nil {
		return fmt.Errorf("emit: %w", err)
	}
	for _, e := range events {
		r.Resumer.emitted.Add(e.ID, r.now)
	}
	r.metrics.resumed.Add(float64(len(events)))
	r.emitted += len(events)
	return nil
}

// plans reads the plans of messages; one without a plan has no id. If a record is damaged, or the code panics, it reads them one by one.
func (r *resumption) plans(ctx context.Context, refs []message.Ref) ([]progress.Found, error) {
	plans, ids := make([]progress.Found, len(refs)), make([]message.ID, len(refs))
	for i, ref := range refs {
		ids[i] = ref.ID
	}
	err := panics.Do(func() error {
		fanouts, planned, err := r.stores.Progress.GetMany(ctx, ids)
		for i := range fanouts {
			if planned[i] {
				plans[i].Fanout = fanouts[i]
			}
		}
		return err
	})
	switch {
	case err == nil:
		return plans, nil
	case !errors.Is(err, message.ErrCorrupt) && !panics.Is(err):
		return nil, fmt.Errorf("read the plans of %d messages: %w", len(ids), err)
	}
	for i, id := range ids {
		plans[i].Err = panics.Do(func() (err error) {
			plans[i].Fanout, err = r.stores.Progress.Get(ctx, id)
			return err
		})
		if errors.Is(plans[i].Err, progress.ErrNotFound) {
			plans[i] = progress.Found{}
		}
	}
	return plans, nil
}

// inspect reports whether a message must be emitted again: nothing of it has moved for Options.ResumeAfter, and nothing of it is on the bus.
func (r *resumption) inspect(ctx context.Context, ref message.Ref, plan progress.Fanout) (_ bool, err error) {
	defer panics.Catch(&err)
	moved, waits := movedAt(ref, plan), []queue{{lane: event.Direct}}
	if !plan.ID.IsZero() {
		open := openScans(plan)
		if len(open) == 0 && !plan.Done() { // what is left is dead
			return false, nil
		}
		for _, p := range open {
			if p >= r.opts.Partitions { // no worker takes its tasks
				continue
			}
			for _, lane := range event.Lanes() { // the lane of an author can change
				waits = append(waits, queue{lane, p})
			}
		}
	}
	if last, ok := r.Resumer.emitted.Get(ref.ID); ok && last.After(moved) {
		moved = last
	}
	if moved.After(r.now.Add(-r.opts.ResumeAfter)) {
		return false, nil
	}
	for _, q := range waits {
		switch there, err := r.mayHold(ctx, q, ref.ID, moved); {
		case err != nil:
			return false, err
		case there:
			r.waiting = append(r.waiting, ref)
			return false, nil
		}
	}
	return true, nil
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
