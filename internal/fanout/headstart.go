package fanout

import (
	"context"
	"fmt"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// headStartsWaiting bounds the messages whose head starts wait in a router, and thereby their memory to tens of MiB. Later ones get none.
	headStartsWaiting = 64
	// headStartSources bounds the sources whose edges are read for a message. A message with more of them has no head start for viewers.
	headStartSources = 8
	// edgesPerRead is how many edges one call reads.
	edgesPerRead = 1000
	// ownersTogether is how many inboxes one call appends to. It is so small that the embedded store does not make the call wait as a part of a
	// large fan-out.
	ownersTogether = 50
)

// headStarter delivers messages with a large audience at once to some of their recipients: those that they name, and viewers, of each at most
// Options.DirectMax. It delivers what the scan would deliver, and nothing else. It writes no progress, counts nobody, and files no dead letter: the
// scan does that when it comes to the same recipients. So whatever fails is dropped.
//
// It works beside the router, so a message never waits for its head start: when the headStarter is busy, the message gets none.
type headStarter struct {
	stores  Stores
	bus     bus.Emitter
	opts    Options
	metrics headStartMetrics
	panics  *panics.Recorder

	// named holds messages for the recipients that they name, seeking those for viewers. It takes a while to find these, so they come second.
	named, seeking chan headStart
	// followers remembers for sources which viewers have edges to them.
	followers *lru.Cache[message.Source, followingViewers]
}

// followingViewers are the viewers that have an edge to a source, ascending, and when they were read.
type followingViewers struct {
	users []message.UserID
	at    time.Time
}

// headStart is a message to followers or subscribers that are scanned.
type headStart struct {
	message message.Message
	lane    event.Lane
	trace   event.Trace
}

func newHeadStarter(stores Stores, bus bus.Emitter, opts Options, recorder *panics.Recorder) *headStarter {
	followers, err := lru.New[message.Source, followingViewers](opts.ClassCache)
	if err != nil {
		panic(err) // NewRouter has checked the size
	}
	return &headStarter{
		stores: stores, bus: bus, opts: opts, metrics: newHeadStartMetrics(opts.Metrics), panics: recorder,
		named: make(chan headStart, headStartsWaiting), seeking: make(chan headStart, headStartsWaiting), followers: followers,
	}
}

// add gives a message a head start, unless the headStarter is busy. It does not block.
func (h *headStarter) add(start headStart) {
	if !h.opts.HeadStarts || !start.message.Broadcast() {
		return
	}
	if len(start.message.To) > 0 {
		h.offer(h.named, start)
	}
	if start.lane == event.Bulk && len(start.message.Sources()) <= headStartSources && h.opts.Viewers != nil {
		h.offer(h.seeking, start)
	}
}

func (h *headStarter) offer(to chan headStart, start headStart) {
	select {
	case to <- start:
	default:
		h.metrics.dropped[droppedBusy].Inc()
	}
}

// run delivers head starts until intake ends. It drops those that wait then.
func (h *headStarter) run(intake, processing context.Context) {
	for intake.Err() == nil {
		if h.next(processing) {
			continue
		}
		select {
		case start := <-h.named:
			h.toNamed(processing, start)
		case start := <-h.seeking:
			h.toViewers(processing, start)
		case <-intake.Done():
		}
	}
}

// next delivers one head start, those to named recipients first. It reports whether one was waiting.
func (h *headStarter) next(ctx context.Context) bool {
	select {
	case start := <-h.named:
		h.toNamed(ctx, start)
		return true
	default:
	}
	select {
	case start := <-h.seeking:
		h.toViewers(ctx, start)
		return true
	default:
		return false
	}
}

func (h *headStarter) toNamed(ctx context.Context, start headStart) {
	h.try(ctx, start, func(context.Context) ([]message.UserID, error) { return start.message.To, nil })
}

func (h *headStarter) toViewers(ctx context.Context, start headStart) {
	h.try(ctx, start, func(ctx context.Context) (users []message.UserID, err error) {
		for _, source := range start.message.Sources() {
			some, err := h.following(ctx, source)
			if err != nil {
				return nil, err
			}
			users = append(users, some...)
		}
		return users, nil
	})
}

// try delivers a message to the users that find returns. It drops the head start if that fails or panics.
func (h *headStarter) try(ctx context.Context, start headStart, find func(context.Context) ([]message.UserID, error)) {
	ctx, span := h.opts.Tracer.Start(tracing.Within(ctx, start.trace), "head start")
	if span.IsRecording() {
		span.SetAttributes(tracing.MessageID.String(start.message.ID.String()))
	}
	err := panics.Do(func() error {
		users, err := find(ctx)
		if err != nil {
			return err
		}
		return h.deliver(ctx, start, users)
	})
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

// following returns the viewers who have an edge to a source, as they were read a short time ago.
func (h *headStarter) following(ctx context.Context, source message.Source) ([]message.UserID, error) {
	at := h.opts.Now()
	if found, ok := h.followers.Get(source); ok && at.Sub(found.at) < h.opts.ClassTTL {
		return found.users, nil
	}
	var following []message.UserID
	for some := range slices.Chunk(h.opts.Viewers(), edgesPerRead) {
		pairs := make([]follow.Pair, 0, len(some))
		for _, user := range some {
			if user.Source() != source {
				pairs = append(pairs, follow.Pair{Follower: user, Followee: source})
			}
		}
		edges, err := h.stores.Edges.Get(ctx, pairs)
		if err != nil {
			return nil, fmt.Errorf("read edges: %w", err)
		}
		for i, edge := range edges {
			if edge.Open() {
				following = append(following, pairs[i].Follower)
			}
		}
	}
	h.followers.Add(source, followingViewers{users: following, at: at})
	return following, nil
}

// deliver appends a message to the inboxes of those of the users for whom it is.
func (h *headStarter) deliver(ctx context.Context, start headStart, users []message.UserID) error {
	users = slices.Compact(slices.Sorted(slices.Values(users)))
	users = users[:min(len(users), h.opts.DirectMax)]
	for owners := range slices.Chunk(users, ownersTogether) {
		// The edges and states are read after the message was stored, as in a batch.
		owners, err := h.addressed(ctx, start.message, owners)
		if err != nil {
			return err
		}
		p := &pass{stores: h.stores, bus: h.bus, opts: h.opts, metrics: h.metrics.lanes[start.lane]}
		j := &job{message: start.message, entry: bucket.EntryOf(start.message)}
		if err := p.appendAll(ctx, []*stream{{jobs: []*job{j}, buffer: recipientsOf(owners), ended: true}}); err != nil {
			return err
		}
	}
	h.metrics.wait.Observe(h.opts.Now().Sub(start.message.Sent()).Seconds())
	return nil
}

// addressed returns those of the users for whom a message is.
func (h *headStarter) addressed(ctx context.Context, m message.Message, users []message.UserID) ([]message.UserID, error) {
	var pairs []follow.Pair
	for _, user := range users {
		pairs = append(pairs, follow.Pairs(m, user)...)
	}
	edges := make(map[message.UserID][]follow.Edge)
	if len(pairs) > 0 {
		found, err := h.stores.Edges.Get(ctx, pairs)
		if err != nil {
			return nil, fmt.Errorf("read edges: %w", err)
		}
		for i, pair := range pairs {
			edges[pair.Follower] = append(edges[pair.Follower], found[i])
		}
	}
	return slices.DeleteFunc(users, func(user message.UserID) bool { return !follow.ForAny(m, user, edges[user]) }), nil
}

// headStarted returns how many entries of an append a head start may have appended before. These are the messages that name the owner
// beside an audience, and bulk messages if the owner is a viewer.
func (p *pass) headStarted(owner message.UserID, jobs []*job) (n int) {
	for _, j := range jobs {
		if j.task.Lane == "" || !j.message.Broadcast() {
			continue
		}
		if j.message.Names(owner) || j.task.Lane == event.Bulk && p.opts.isViewer(owner) {
			n++
		}
	}
	return n
}
