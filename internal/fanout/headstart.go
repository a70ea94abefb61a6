package fanout

import (
	"context"
	"fmt"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// headStartsWaiting bounds the messages whose head starts wait in a router, and thereby their memory to tens of MiB. Later ones get none.
	headStartsWaiting = 64
	// headStartRecipients is how many recipients a message names, and how many viewers it reaches, that get it at once at most. So no head start
	// keeps others waiting for long.
	headStartRecipients = 1000
	// headStartSources bounds the sources whose edges are read for a message. A message with more of them has no head start for viewers.
	headStartSources = 8
	// edgesPerRead is how many edges one call reads.
	edgesPerRead = 1000
	// ownersTogether is how many inboxes one call appends to. It is so small that the embedded store does not make the call wait as a part of a
	// large fan-out.
	ownersTogether = 50
)

// headStarter delivers messages with a large audience at once to some of their recipients: those that they name, and viewers. It delivers what the
// scan would deliver, and nothing else. It writes no progress, counts nobody, and files no dead letter: the scan does that when it comes to the
// same recipients. So whatever fails is dropped.
//
// It works beside the router, so a message never waits for its head start: when the headStarter is busy, the message gets none.
type headStarter struct {
	stores  Stores
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

// headStart is a message that gets a head start.
type headStart struct {
	message message.Message
	lane    event.Lane // empty: there is none
	trace   event.Trace
	// open are the partitions whose scans are not done.
	open []int
}

// newHeadStart returns the head start of a message in a lane. Only a message to followers or subscribers that are scanned gets one.
func newHeadStart(m message.Message, lane event.Lane) headStart {
	if !m.Broadcast() || lane == event.Express {
		return headStart{}
	}
	return headStart{message: m, lane: lane}
}

func newHeadStarter(stores Stores, opts Options, recorder *panics.Recorder) *headStarter {
	followers, err := lru.New[message.Source, followingViewers](opts.ClassCache)
	if err != nil {
		panic(err) // NewRouter has checked the size
	}
	return &headStarter{
		stores: stores, opts: opts, metrics: newHeadStartMetrics(opts.Metrics), panics: recorder,
		named: make(chan headStart, headStartsWaiting), seeking: make(chan headStart, headStartsWaiting), followers: followers,
	}
}

// add gives a message a head start, unless the headStarter is busy. It does not block.
func (h *headStarter) add(start headStart) {
	if !h.opts.HeadStarts || start.lane == "" {
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

// deliver appends a message to the inboxes of users for whom it is, in partitions that the scan is not through with.
func (h *headStarter) deliver(ctx context.Context, start headStart, users []message.UserID) error {
	users = slices.Compact(slices.Sorted(slices.Values(users)))
	users = slices.DeleteFunc(users, func(user message.UserID) bool {
		return !slices.Contains(start.open, partition.Of(user, h.opts.Partitions))
	})
	users = users[:min(len(users), headStartRecipients)]
	for owners := range slices.Chunk(users, ownersTogether) {
		// The edges and states are read after the message was stored, as in a batch.
		owners, err := h.addressed(ctx, start.message, owners)
		if err == nil && len(owners) > 0 {
			err = h.append(ctx, start, owners)
		}
		if err != nil {
			return err
		}
	}
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

// append appends a message to the inboxes of owners, as the scan does. It leaves out owners whose records are damaged.
func (h *headStarter) append(ctx context.Context, start headStart, owners []message.UserID) error {
	looked, err := h.stores.Users.Lookup(ctx, owners)
	if err != nil {
		return fmt.Errorf("look up users: %w", err)
	}
	entries := []bucket.Entry{bucket.EntryOf(start.message)}
	var appends []bucket.Append
	for i, owner := range owners {
		if looked[i].Err == nil && looked[i].State.Deliver(start.message.Sent()) {
			appends = append(appends, bucket.Append{Owner: owner, Hint: looked[i].State.Head, Entries: entries})
		}
	}
	if len(appends) == 0 {
		return nil
	}
	// The scan repeats the append and makes it durable.
	results, err := h.stores.Appender.AppendLazily(ctx, appends)
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	waited := h.opts.Now().Sub(start.message.Sent()).Seconds()
	for i, result := range results {
		switch {
		case result.Err != nil && !isDamaged(result.Err):
			err = fmt.Errorf("inbox of %s: %w", appends[i].Owner, result.Err)
		case result.New > 0:
			h.metrics.deliveries[start.lane].Inc()
			h.metrics.wait.Observe(waited)
		}
	}
	return err
}

// headStarted returns how many entries of an append a head start may have appended before. These are the messages that name the owner
// beside an audience, and bulk messages if the owner is a viewer.
func (b *batch) headStarted(owner message.UserID, jobs []*job) (n int) {
	for _, j := range jobs {
		if j.task.Lane == event.Express || !j.message.Broadcast() {
			continue
		}
		if j.message.Names(owner) || j.task.Lane == event.Bulk && b.deliverer.opts.isViewer(owner) {
			n++
		}
	}
	return n
}
