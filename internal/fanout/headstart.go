package fanout

import (
	"context"
	"maps"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// headStartsWaiting bounds the messages whose head starts wait in a router. Later ones get none.
	headStartsWaiting = 256
	// headStartNames bounds the recipients that these messages name together, and thereby their memory to a few MiB.
	headStartNames = 100_000
	// headStartRecipients is how many recipients one head start names at most. With the longest user ids it is below 512 KiB, half of the
	// smallest max_payload that NATS servers usually have.
	headStartRecipients = 500
	// headStartSources bounds the sources whose edges are read for a message. A message with more of them has no head start for viewers.
	headStartSources = 8
	// edgesPerRead is how many edges one call reads.
	edgesPerRead = 1000
)

// headStarter emits the head starts of messages that are routed. It works beside the router, so a message never waits for its head start:
// when the headStarter is busy, the message gets none.
type headStarter struct {
	edges   follow.Store
	bus     bus.Emitter
	opts    Options
	metrics headStartMetrics
	panics  *panics.Recorder

	names   *semaphore.Weighted // recipients that the messages in waiting name
	waiting chan headStart
	// searching holds messages of which it is not known which viewers have an edge to their sources. Reading them takes a while, so they do not
	// wait in front of others.
	searching chan headStart
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
	ref   message.Ref
	lane  event.Lane
	trace event.Trace
	// named are the recipients that the message names.
	named []message.UserID
	// sources are those whose followers and subscribers the scans find.
	sources []message.Source
	// open are the partitions whose scans are not done.
	open []int
}

// newHeadStart returns the head start of a message in a lane. Only a message to followers or subscribers that are scanned gets one: it has
// the zero lane otherwise.
func newHeadStart(m message.Message, lane event.Lane) headStart {
	if !m.Broadcast() || lane == event.Express {
		return headStart{}
	}
	return headStart{ref: m.Ref(), lane: lane, named: m.To, sources: m.Sources()}
}

func newHeadStarter(stores Stores, bus bus.Emitter, opts Options, recorder *panics.Recorder) *headStarter {
	followers, err := lru.New[message.Source, followingViewers](opts.ClassCache)
	if err != nil {
		panic(err) // NewRouter has checked the size
	}
	return &headStarter{
		edges: stores.Edges, bus: bus, opts: opts, metrics: newHeadStartMetrics(opts.Metrics, "route"), panics: recorder,
		names: semaphore.NewWeighted(headStartNames), waiting: make(chan headStart, headStartsWaiting),
		searching: make(chan headStart, headStartsWaiting), followers: followers,
	}
}

// add gives a message a head start, unless the headStarter is busy. It does not block.
func (h *headStarter) add(start headStart) {
	if !h.opts.HeadStarts || start.lane == "" || len(start.named) == 0 && !h.hasViewers(start) {
		return
	}
	weight := int64(min(len(start.named), headStartNames))
	if !h.names.TryAcquire(weight) {
		h.metrics.dropped[droppedBusy].Inc()
		return
	}
	select {
	case h.waiting <- start:
	default:
		h.names.Release(weight)
		h.metrics.dropped[droppedBusy].Inc()
	}
}

func (h *headStarter) hasViewers(start headStart) bool {
	return start.lane == event.Bulk && len(start.sources) <= headStartSources && h.opts.Viewers != nil
}

// run emits head starts until intake ends. It drops those that wait then.
func (h *headStarter) run(intake, _ context.Context) {
	for {
		select {
		case start := <-h.waiting:
			h.begin(intake, start)
		case <-intake.Done():
			return
		}
	}
}

// search emits the head starts of viewers until intake ends.
func (h *headStarter) search(intake, _ context.Context) {
	for {
		select {
		case start := <-h.searching:
			h.find(intake, start)
		case <-intake.Done():
			return
		}
	}
}

// emitWaiting emits all head starts that wait.
func (h *headStarter) emitWaiting(ctx context.Context) {
	for {
		select {
		case start := <-h.waiting:
			h.begin(ctx, start)
		case start := <-h.searching:
			h.find(ctx, start)
		default:
			return
		}
	}
}

// begin emits the head start of a message to the named recipients. Viewers get one, too, once it is known which of them have an edge to
// each source.
func (h *headStarter) begin(ctx context.Context, start headStart) {
	defer h.names.Release(int64(min(len(start.named), headStartNames)))
	h.try(start, func() error {
		recipients := slices.Clone(start.named)
		if h.hasViewers(start) {
			var unknown []message.Source
			for _, source := range start.sources {
				known, ok := h.known(source)
				recipients = append(recipients, known...)
				if !ok {
					unknown = append(unknown, source)
				}
			}
			if len(unknown) > 0 {
				h.searchLater(start, unknown)
			}
		}
		return h.emit(ctx, start, recipients)
	})
}

func (h *headStarter) searchLater(start headStart, sources []message.Source) {
	start.named, start.sources = nil, sources
	select {
	case h.searching <- start:
	default:
		h.metrics.dropped[droppedBusy].Inc()
	}
}

// find emits the head start of a message to the viewers who have an edge to one of its sources.
func (h *headStarter) find(ctx context.Context, start headStart) {
	h.try(start, func() error {
		var users []message.UserID
		for _, source := range start.sources {
			some, err := h.following(ctx, source)
			if err != nil {
				return err
			}
			users = append(users, some...)
		}
		return h.emit(ctx, start, users)
	})
}

// try drops the head start of a message if do fails or panics.
func (h *headStarter) try(start headStart, do func() error) {
	err := panics.Do(do)
	if err == nil {
		return
	}
	describe := func(line *zerolog.Event) *zerolog.Event {
		return line.Stringer("message_id", start.ref.ID).Str("from", string(start.ref.From))
	}
	h.panics.Record(err, describe)
	h.metrics.drop(err)
	describe(h.opts.Logger.Warn().Err(err)).Msg("a head start was dropped: its recipients wait for the scan")
}

// known returns the viewers who have an edge to a source, if they were read a short time ago.
func (h *headStarter) known(source message.Source) ([]message.UserID, bool) {
	found, ok := h.followers.Get(source)
	if !ok || h.opts.Now().Sub(found.at) >= h.opts.ClassTTL {
		return nil, false
	}
	return found.users, true
}

// following returns the viewers who have an edge to a source.
func (h *headStarter) following(ctx context.Context, source message.Source) ([]message.UserID, error) {
	if users, ok := h.known(source); ok {
		return users, nil
	}
	at := h.opts.Now()
	var following []message.UserID
	for some := range slices.Chunk(h.opts.Viewers(), edgesPerRead) {
		pairs := make([]follow.Pair, 0, len(some))
		for _, user := range some {
			if user.Source() != source {
				pairs = append(pairs, follow.Pair{Follower: user, Followee: source})
			}
		}
		edges, err := h.edges.Get(ctx, pairs)
		if err != nil {
			return nil, err
		}
		for i, edge := range edges {
			if edge.Open() {
				following = append(following, pairs[i].Follower)
			}
		}
	}
	slices.Sort(following)
	h.followers.Add(source, followingViewers{users: following, at: at})
	return following, nil
}

// emit emits the head start of a message to recipients, in any order.
func (h *headStarter) emit(ctx context.Context, start headStart, recipients []message.UserID) error {
	byPartition := make(map[int][]message.UserID)
	for _, user := range recipients {
		if p := partition.Of(user, h.opts.Partitions); slices.Contains(start.open, p) {
			byPartition[p] = append(byPartition[p], user)
		}
	}
	var starts []event.HeadStart
	for _, p := range slices.Sorted(maps.Keys(byPartition)) {
		users := byPartition[p]
		slices.Sort(users)
		for some := range slices.Chunk(slices.Compact(users), headStartRecipients) {
			starts = append(starts, event.HeadStart{
				Version: event.Version, ID: start.ref.ID, From: start.ref.From,
				Lane: start.lane, Partition: p, Recipients: some, Trace: start.trace,
			})
		}
	}
	if len(starts) == 0 {
		return nil
	}
	return h.bus.EmitHeadStarts(ctx, starts)
}
