package fanout

import (
	"context"
	"slices"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// headStartsWaiting bounds the messages whose head starts wait in a router, and thereby their memory to tens of MiB. Later ones get none.
	headStartsWaiting = 64
	// ownersTogether is how many inboxes one call appends to. It is so small that the embedded store does not make the call wait as a part of a
	// large fan-out.
	ownersTogether = 50
)

// headStarter delivers messages with a large audience at once to the recipients that they name, at most Options.DirectMax of each. It delivers
// what the scan would deliver, and nothing else. It writes no progress, counts nobody, and files no dead letter: the scan does that when it comes to
// the same recipients. So whatever fails is dropped.
//
// It works beside the router, so a message never waits for its head start: when the headStarter is busy, the message gets none.
type headStarter struct {
	stores  Stores
	bus     bus.Emitter
	opts    Options
	reach   *reach
	metrics headStartMetrics
	panics  *panics.Recorder
	waiting chan headStart
}

// headStart is a message that names users beside an audience that is scanned.
type headStart struct {
	message message.Message
	lane    event.Lane
	trace   event.Trace
}

func newHeadStarter(stores Stores, bus bus.Emitter, opts Options, reach *reach, recorder *panics.Recorder) *headStarter {
	return &headStarter{
		stores: stores, bus: bus, opts: opts, reach: reach, metrics: newHeadStartMetrics(opts.Metrics), panics: recorder,
		waiting: make(chan headStart, headStartsWaiting),
	}
}

// add gives a message a head start, unless the headStarter is busy. It does not block.
func (h *headStarter) add(start headStart) {
	if !h.opts.HeadStarts || !start.message.Broadcast() || len(start.message.To) == 0 {
		return
	}
	select {
	case h.waiting <- start:
	default:
		h.metrics.dropped[droppedBusy].Inc()
	}
}

// run delivers head starts until intake ends. It drops those that wait then.
func (h *headStarter) run(intake, processing context.Context) {
	for intake.Err() == nil {
		select {
		case start := <-h.waiting:
			h.try(processing, start)
		case <-intake.Done():
		}
	}
}

// next delivers one head start, and reports whether one was waiting.
func (h *headStarter) next(ctx context.Context) bool {
	select {
	case start := <-h.waiting:
		h.try(ctx, start)
		return true
	default:
		return false
	}
}

// try delivers a head start. It drops it if that fails or panics.
func (h *headStarter) try(ctx context.Context, start headStart) {
	ctx, span := h.opts.Tracer.Start(tracing.Within(ctx, start.trace), "head start")
	if span.IsRecording() {
		span.SetAttributes(tracing.MessageID.String(start.message.ID.String()))
	}
	err := panics.Do(func() error { return h.deliver(ctx, start) })
	span.Done(err)
	if err == nil || ctx.Err() != nil {
		return
	}
	describe := func(line *zerolog.Event) *zerolog.Event {
		return line.Stringer("message_id", start.message.ID).Str("from", string(start.message.From))
	}
	h.panics.Record(err, describe)
	h.metrics.drop(err)
	describe(h.opts.Logger.Warn().Err(err)).Msg("a head start was dropped: its recipients wait for the scan")
}

// deliver appends a message to the inboxes of the users that it names. They are recipients whatever their edges are.
func (h *headStarter) deliver(ctx context.Context, start headStart) error {
	users := start.message.To[:min(len(start.message.To), h.opts.DirectMax)]
	for owners := range slices.Chunk(users, ownersTogether) {
		p := &pass{stores: h.stores, bus: h.bus, opts: h.opts, reach: h.reach, metrics: h.metrics.lanes[start.lane]}
		j := new(job)
		j.set(start.message)
		if err := p.appendAll(ctx, []*stream{{jobs: []*job{j}, buffer: recipientsOf(owners), ended: true}}); err != nil {
			return err
		}
	}
	h.metrics.wait.Observe(h.opts.Now().Sub(start.message.Sent()).Seconds())
	return nil
}

// headStarted returns how many entries of an append a head start may have appended before: those of messages that name the owner beside an
// audience.
func headStarted(owner message.UserID, jobs []*job) (n int) {
	for _, j := range jobs {
		if j.task.Lane != "" && j.message.Broadcast() && j.message.Names(owner) {
			n++
		}
	}
	return n
}
