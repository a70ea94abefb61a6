package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// beside stores the nth message, to its author's followers and to named users.
func (w *world) beside(t *testing.T, n int, named ...message.UserID) message.Message {
	t.Helper()
	return w.insert(t, message.Message{ID: id(n), From: "author", To: named, Audience: message.AudienceFollowers, Body: fmt.Sprintf("message %d", n)})
}

// routeFirst routes everything that is published, and emits the head starts.
func (w *world) routeFirst(t *testing.T, messages ...message.Message) {
	t.Helper()
	w.publish(t, messages...)
	router := w.router()
	for {
		received, err := w.Bus.TryFetch(t.Context(), 10)
		require.NoError(t, err)
		if len(received) == 0 {
			break
		}
		require.NoError(t, router.Route(t.Context(), received))
	}
	router.EmitHeadStarts(t.Context())
}

// A head start does not wait for the tasks of its message: it is emitted even if these are not.
func TestHeadStartsDoNotWaitForTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	named := w.bulk(t)[0]
	m := w.beside(t, 1, named)
	w.publish(t, m)
	router := fanout.NewRouter(w.Stores(), withoutTasks{w.Bus}, w.opts)
	received, err := w.Bus.TryFetch(t.Context(), 10)
	require.NoError(t, err)
	require.Error(t, router.Route(t.Context(), received))
	router.EmitHeadStarts(t.Context())
	require.Equal(t, 1, w.first(t, w.deliverer()))
	require.Equal(t, []message.ID{m.ID}, w.inbox(t, named))
}

// withoutTasks is a bus that takes no tasks.
type withoutTasks struct{ *rig.Bus }

func (withoutTasks) EmitTasks(context.Context, []event.Task) error { return errors.New("no tasks") }

// first delivers all head starts, and returns how many there were.
func (w *world) first(t *testing.T, d *fanout.Deliverer) (n int) {
	t.Helper()
	for {
		received, err := w.Bus.TryFetchHeadStarts(t.Context(), 64)
		require.NoError(t, err)
		if len(received) == 0 {
			return n
		}
		n += len(received)
		d.DeliverFirst(t.Context(), received)
	}
}

// bulk makes so many followers that the author's messages are in the bulk lane. The first of them are active.
func (w *world) bulk(t *testing.T) []message.UserID {
	t.Helper()
	users := append(usersOf(0, rig.MediumMax+2), usersOf(1, 2)...)
	w.see(t, users...)
	w.follow(t, "author", users...)
	return users
}

func viewers(users ...message.UserID) func() []message.UserID {
	slices.Sort(users)
	return func() []message.UserID { return users }
}

// A message with a large audience gets head starts to the recipients that it names, and to the viewers who follow its author: by their
// partitions, each recipient once.
func TestHeadStartsOfARoutedMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	followers := w.bulk(t)
	strangers := []message.UserID{"stranger-1", "stranger-2", "stranger-3"}
	w.opts.Viewers = viewers(followers[0], followers[1], strangers[0], "author")
	m := w.beside(t, 1, followers[0], strangers[1])
	w.routeFirst(t, m)
	got := make(map[message.UserID]bool)
	for _, start := range w.Bus.HeadStarts() {
		require.Equal(t, m.Ref(), start.Ref())
		require.Equal(t, event.Bulk, start.Lane)
		for _, user := range start.Recipients {
			require.Equal(t, partition.Of(user, rig.Partitions), start.Partition)
			got[user] = true
		}
	}
	require.Equal(t, map[message.UserID]bool{followers[0]: true, followers[1]: true, strangers[1]: true}, got)
}

// Messages whose recipients do not wait for a scan get no head start, nor do those of a process in which they are switched off.
func TestNoHeadStart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		off       bool
		followers int
		m         message.Message
	}{
		"a few named":             {m: message.Message{To: usersOf(0, 2)}},
		"many named":              {m: message.Message{To: usersOf(0, rig.MediumMax+2)}},
		"few followers and named": {followers: 1, m: message.Message{To: usersOf(1, 1), Audience: message.AudienceFollowers}},
		"many followers":          {followers: 3, m: message.Message{Audience: message.AudienceFollowers}},
		"switched off":            {off: true, followers: 8, m: message.Message{To: usersOf(1, 1), Audience: message.AudienceFollowers}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.opts.HeadStarts = !test.off
			w.opts.Viewers = viewers(usersOf(0, rig.MediumMax+2)...)
			if test.followers > 0 {
				w.follow(t, "author", usersOf(0, test.followers)...)
			}
			test.m.ID, test.m.From, test.m.Body = id(1), "author", "x"
			w.routeFirst(t, w.insert(t, test.m))
			require.Empty(t, w.Bus.HeadStarts())
		})
	}
}

// A message whose scans are done in a partition gets no head start there again.
func TestNoHeadStartBehindTheScan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bulk(t)
	m := w.beside(t, 1, "stranger")
	w.routeFirst(t, m)
	require.Len(t, w.Bus.HeadStarts(), 1)
	w.drain(t)
	w.routeFirst(t, m)
	require.Len(t, w.Bus.HeadStarts(), 1)
}

// A message that is routed again gets no head start in partitions in which its scan is done.
func TestNoHeadStartInADonePartition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bulk(t)
	m := w.beside(t, 1, usersOf(0, 1)[0], usersOf(1, 1)[0])
	_, err := w.Progress.Plan(t.Context(), m.ID, []int{0, 1}, w.Clock.Now())
	require.NoError(t, err)
	w.put(t, m, 0, progress.Scan{Joined: true, Done: true})
	w.routeFirst(t, m)
	require.Len(t, w.Bus.HeadStarts(), 1)
	require.Equal(t, 1, w.Bus.HeadStarts()[0].Partition)
}

// A head start of more recipients than fit into one event is several events.
func TestHeadStartsAreSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bulk(t)
	named := make([]message.UserID, 3000)
	for i := range named {
		named[i] = message.UserID(fmt.Sprintf("named-%04d", i))
	}
	m := w.beside(t, 1, named...)
	w.routeFirst(t, m)
	var all []message.UserID
	for _, start := range w.Bus.HeadStarts() {
		require.LessOrEqual(t, len(start.Recipients), 500)
		all = append(all, start.Recipients...)
	}
	require.ElementsMatch(t, named, all)
}

// A head start arrives before the scan, at the recipients whom it names. The scan counts each of them once.
func TestHeadStartArrivesBeforeTheScan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	followers := w.bulk(t)
	w.see(t, "named")
	w.opts.Viewers = viewers(followers[1], followers[9])
	m := w.beside(t, 1, "named", followers[0])
	w.routeFirst(t, m)
	measured := w.measure()
	d := w.deliverer()
	require.Positive(t, w.first(t, d))
	early := []message.UserID{"named", followers[0], followers[1], followers[9]}
	w.requireDelivered(t, early, m)
	for _, user := range followers {
		if !slices.Contains(early, user) {
			w.requireDelivered(t, []message.UserID{user})
		}
	}
	for p := range rig.Partitions {
		for held := w.take(t, event.Bulk, p); held != nil; held = w.take(t, event.Bulk, p) {
			require.NoError(t, d.Deliver(t.Context(), held))
		}
	}
	all := slices.Concat(followers, []message.UserID{"named"})
	w.requireDelivered(t, all, m)
	w.requireDone(t, m, len(all), 0)
	require.InDelta(t, len(all), counter(t, measured, "fanmail_deliveries_total", "bulk"), 0)
	require.InDelta(t, len(early), counter(t, measured, "fanmail_head_start_deliveries_total", "bulk"), 0)
	require.Zero(t, counter(t, measured, "fanmail_duplicate_deliveries_total", "bulk"), "what a head start delivered is no duplicate")
	require.Equal(t, uint64(len(early)), observed(t, measured, "fanmail_head_start_wait_seconds"))
}

// A head start delivers what the scan would, and nothing else, whenever it comes.
func TestHeadStartDeliversWhatTheScanWould(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		unfollowed time.Time // zero: never
		viewed     time.Duration
		want       bool
	}{
		"to a follower":             {want: true},
		"to a former follower":      {unfollowed: id(2).Time(), want: true},
		"not after they unfollowed": {unfollowed: id(1).Time()},
		"not to a dormant user":     {viewed: -2 * rig.DormantAfter},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			user := usersOf(0, 1)[0]
			require.NoError(t, storetest.See(t.Context(), w.Users, w.Clock.Now().Add(test.viewed), user))
			w.follow(t, "author", user)
			m := w.store(t, 1, "author")
			w.plan(t, event.Bulk, []int{0}, m)
			if !test.unfollowed.IsZero() {
				require.NoError(t, w.Edges.Unfollow(t.Context(), follow.Pair{Follower: user, Followee: "author"}, test.unfollowed))
			}
			w.headStart(t, m, 0, user, "nobody")
			require.Equal(t, 1, w.first(t, w.deliverer()))
			var want []message.Message
			if test.want {
				want = append(want, m)
			}
			w.requireDelivered(t, []message.UserID{user}, want...)
			w.requireDelivered(t, []message.UserID{"nobody"})
			require.Empty(t, w.scan(t, m, 0), "a head start writes no progress")
			w.drain(t)
			w.requireDelivered(t, []message.UserID{user}, want...)
			require.Empty(t, w.letters(t))
		})
	}
}

// headStart emits a head start of a message.
func (w *world) headStart(t *testing.T, m message.Message, p int, users ...message.UserID) {
	t.Helper()
	users = slices.Sorted(slices.Values(users))
	require.NoError(t, w.Bus.EmitHeadStarts(t.Context(), []event.HeadStart{
		{Version: event.Version, ID: m.ID, From: m.From, Lane: event.Bulk, Partition: p, Recipients: users},
	}))
}

// A head start continues the trace of its message. Several that are delivered together link to theirs.
func TestHeadStartsAreTraced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spans := tracetest.NewInMemoryExporter()
	w.opts.Tracer = tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	user := usersOf(0, 1)[0]
	w.see(t, user)
	w.follow(t, "author", user)
	routed := func(n int) (message.Message, trace.SpanContext) {
		ctx, span := w.opts.Tracer.Start(t.Context(), "route")
		defer span.Done(nil)
		m := w.store(t, n, "author")
		w.plan(t, event.Bulk, []int{0}, m)
		require.NoError(t, w.Bus.EmitHeadStarts(t.Context(), []event.HeadStart{{
			Version: event.Version, ID: m.ID, From: m.From, Lane: event.Bulk, Recipients: []message.UserID{user}, Trace: tracing.Of(ctx),
		}}))
		return m, span.SpanContext()
	}
	deliver := func(want int) tracetest.SpanStub {
		spans.Reset()
		var received []bus.Received
		for len(received) < want {
			more, err := w.Bus.TryFetchHeadStarts(t.Context(), 8)
			require.NoError(t, err)
			received = append(received, more...)
		}
		w.deliverer().DeliverFirst(t.Context(), received)
		require.Len(t, spans.GetSpans(), 1)
		require.Equal(t, "head start", spans.GetSpans()[0].Name)
		return spans.GetSpans()[0]
	}

	first, route := routed(1)
	alone := deliver(1)
	require.Equal(t, route.TraceID(), alone.SpanContext.TraceID())
	require.Equal(t, route.SpanID(), alone.Parent.SpanID())
	require.Contains(t, alone.Attributes, attribute.StringSlice("fanmail.message_ids", []string{first.ID.String()}))
	require.Contains(t, alone.Attributes, attribute.Int("fanmail.messages", 1))

	_, route = routed(2)
	_, other := routed(3)
	together := deliver(2)
	require.False(t, together.Parent.IsValid())
	var links []trace.SpanID
	for _, link := range together.Links {
		links = append(links, link.SpanContext.SpanID())
	}
	require.Equal(t, []trace.SpanID{route.SpanID(), other.SpanID()}, links)
	require.Contains(t, together.Attributes, attribute.Int("fanmail.messages", 2))
}

// A head start that comes again, too late, or after the user has deleted the message changes nothing.
func TestHeadStartsThatComeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	followers := w.bulk(t)
	m := w.beside(t, 1, followers[0], followers[1])
	w.routeFirst(t, m)
	starts := w.Bus.HeadStarts()
	for range 3 {
		require.NoError(t, w.Bus.EmitHeadStarts(t.Context(), starts))
	}
	d := w.deliverer()
	require.Equal(t, 4*len(starts), w.first(t, d))
	require.NoError(t, w.Inboxes(0).Delete(t.Context(), followers[1], m.ID))
	require.NoError(t, w.Bus.EmitHeadStarts(t.Context(), starts))
	w.first(t, d)
	w.drain(t)
	require.NoError(t, w.Bus.EmitHeadStarts(t.Context(), starts))
	w.first(t, d)
	w.requireDelivered(t, slices.Delete(slices.Clone(followers), 1, 2), m)
	shown, _ := w.ReadInbox(t.Context(), t, followers[1], 10)
	require.Empty(t, shown)
	w.requireDone(t, m, len(followers), 0)
	require.Empty(t, w.tasks(t))
}

// A head start that cannot succeed is dropped. Those beside it are delivered, and no dead letter is filed.
func TestDamagedHeadStartsAreDropped(t *testing.T) { //nolint:tparallel // one case after the other, on one bus
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 2)
	w.see(t, users...)
	w.follow(t, "author", users...)
	good, bad := w.store(t, 1, "author"), w.store(t, 2, "author")
	missing := message.Message{ID: id(3), From: "author"}
	for name, test := range map[string]struct { //nolint:paralleltest // as above
		stores  func(fanout.Stores) fanout.Stores
		put     func()
		dropped string
	}{
		"not an event":      {put: func() { require.NoError(t, w.Bus.PutHeadStart(t.Context(), []byte("{"))) }, dropped: "damaged"},
		"a newer program":   {put: func() { require.NoError(t, w.Bus.PutHeadStart(t.Context(), []byte(`{"v":2}`))) }, dropped: "damaged"},
		"a missing message": {put: func() { w.headStart(t, missing, 0, users...) }},
		"a panic": {
			stores: func(s fanout.Stores) fanout.Stores { s.Messages = poisoned{s.Messages, bad.ID}; return s },
			put:    func() { w.headStart(t, bad, 0, users...) }, dropped: "panic",
		},
	} {
		t.Run(name, func(t *testing.T) {
			measured := w.measure()
			stores := w.Stores()
			if test.stores != nil {
				stores = test.stores(stores)
			}
			d := fanout.NewDeliverer(stores, w.Bus, w.opts)
			w.headStart(t, good, 0, users...)
			test.put()
			require.Equal(t, 2, w.first(t, d))
			w.requireDelivered(t, users, good)
			require.Empty(t, w.letters(t))
			for _, reason := range []string{"damaged", "panic", "error"} {
				want := 0.0
				if reason == test.dropped {
					want = 1
				}
				require.InDelta(t, want, counter(t, measured, "fanmail_head_starts_dropped_total", reason), 0, reason)
			}
		})
	}
}

// A panic or a failure at any operation of a head start ends only that head start. The scan delivers to everybody and counts each recipient
// once.
func TestFaultsOfHeadStarts(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.PanicBefore, rig.PanicAfter, rig.FailBefore, rig.FailAfter, rig.DieBefore, rig.DieAfter} {
		t.Run(fmt.Sprintf("fault %d", fault), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			followers := w.bulk(t)
			w.opts.Viewers = viewers(followers[1], followers[2])
			var sent []message.Message
			for after, befallen := 0, true; befallen; after++ {
				m := w.beside(t, after, followers[0])
				sent = append(sent, m)
				w.routeFirst(t, m)
				d := w.deliverer()
				received, err := w.Bus.TryFetchHeadStarts(t.Context(), 8)
				require.NoError(t, err)
				require.NotEmpty(t, received)
				actor := rig.Start(t.Context(), fault, after, func(ctx context.Context) error {
					d.DeliverFirst(ctx, received)
					return nil
				})
				befallen = !actor.Unhurt()
				require.False(t, panics.Is(actor.Err()))
				w.drain(t)
				w.requireDelivered(t, followers, sent...)
				w.requireDone(t, m, len(followers), 0)
				require.Empty(t, w.letters(t))
			}
			require.Greater(t, len(sent), 3)
		})
	}
}

// A panic while a head start is emitted drops that head start, and the router goes on.
func TestPanicWhileAHeadStartIsEmitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	followers := w.bulk(t)
	measured := w.measure()
	w.opts.Viewers = func() []message.UserID { panic(rig.Panicking) }
	m := w.beside(t, 1, followers[0])
	w.routeFirst(t, m)
	require.InDelta(t, 1, counter(t, measured, "fanmail_head_starts_dropped_total", "panic"), 0)
	require.InDelta(t, 1, counter(t, measured, "fanmail_panics_total", ""), 0)
	require.Len(t, w.Bus.HeadStarts(), 1, "that of the named recipient")
	w.opts.Metrics, w.opts.Viewers = nil, nil
	w.drain(t)
	w.requireDone(t, m, len(followers), 0)
}

// A router whose head starts are not emitted drops the later ones, and routes on.
func TestHeadStartsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bulk(t)
	measured := w.measure()
	router := w.router()
	for n := range 300 {
		w.publish(t, w.beside(t, n, "named"))
	}
	for routed := 0; routed < 300; {
		received, err := w.Bus.TryFetch(t.Context(), 100)
		require.NoError(t, err)
		require.NoError(t, router.Route(t.Context(), received))
		routed += len(received)
	}
	require.InDelta(t, 300-256, counter(t, measured, "fanmail_head_starts_dropped_total", "busy"), 0)
	router.EmitHeadStarts(t.Context())
	require.Len(t, w.Bus.HeadStarts(), 256)
}

// counter returns the sum of a counter over the series that have a label of the given value; "" means all.
func counter(t *testing.T, measured prometheus.Gatherer, name, value string) (sum float64) {
	t.Helper()
	families, err := measured.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			labeled := func(l *dto.LabelPair) bool { return l.GetValue() == value }
			if value == "" || slices.ContainsFunc(metric.GetLabel(), labeled) {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// edgeReads counts the reads of edges.
type edgeReads struct {
	follow.Store
	pairs int
}

func (s *edgeReads) Get(ctx context.Context, pairs []follow.Pair) ([]follow.Edge, error) {
	s.pairs += len(pairs)
	return s.Store.Get(ctx, pairs)
}

// Which viewers follow an author is read once within the time for which the author's lane is remembered.
func TestFollowingViewersAreRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	followers := w.bulk(t)
	w.opts.Viewers = viewers(followers[0], "stranger")
	stores := w.Stores()
	edges := &edgeReads{Store: stores.Edges}
	stores.Edges = edges
	router := fanout.NewRouter(stores, w.Bus, w.opts)
	route := func(n int) {
		w.publish(t, w.store(t, n, "author"))
		received, err := w.Bus.TryFetch(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, router.Route(t.Context(), received))
		router.EmitHeadStarts(t.Context())
	}
	route(1)
	route(2)
	require.Equal(t, 2, edges.pairs)
	w.Clock.Advance(w.opts.ClassTTL)
	route(3)
	require.Equal(t, 4, edges.pairs)
	require.Len(t, w.Bus.HeadStarts(), 3)
}
