package fanout_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fanmail/fanmail/internal/panics"
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

// routeFirst routes everything that is published, delivers the head starts, and returns how many there were.
func (w *world) routeFirst(t *testing.T, messages ...message.Message) int {
	t.Helper()
	w.publish(t, messages...)
	return w.routeAll(t, w.router()).DeliverHeadStarts(t.Context())
}

// bulk makes so many followers that the author's messages are in the bulk lane. The first of them are active.
func (w *world) bulk(t *testing.T) []message.UserID {
	t.Helper()
	users := append(usersOf(0, rig.MediumMax+2), usersOf(1, 2)...)
	w.see(t, users...)
	w.follow(t, "author", users...)
	return users
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
			if test.followers > 0 {
				w.follow(t, "author", usersOf(0, test.followers)...)
			}
			test.m.ID, test.m.From, test.m.Body = id(1), "author", "x"
			require.Zero(t, w.routeFirst(t, w.insert(t, test.m)))
		})
	}
}

// A head start goes to Options.DirectMax recipients at most.
func TestHeadStartsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opts.DirectMax = 1000
	w.bulk(t)
	named := make([]message.UserID, 3000)
	for i := range named {
		named[i] = message.UserID(fmt.Sprintf("named-%04d", i))
	}
	w.see(t, named...)
	m := w.beside(t, 1, named...)
	measured := w.measure()
	require.Equal(t, 1, w.routeFirst(t, m))
	require.InDelta(t, 1000, counter(t, measured, "fanmail_head_start_deliveries_total", "bulk"), 0)
	w.requireDelivered(t, named[:1000], m)
	w.requireDelivered(t, named[1000:])
}

// A head start arrives before the scan, at the recipients whom it names. The scan counts each of them once.
func TestHeadStartArrivesBeforeTheScan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opts.DirectMax = 4
	followers := w.bulk(t)
	w.see(t, "named")
	m := w.beside(t, 1, "named", followers[0], followers[9])
	measured := w.measure()
	require.Equal(t, 1, w.routeFirst(t, m))
	d := w.deliverer()
	early := []message.UserID{"named", followers[0], followers[9]}
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
	require.InDelta(t, len(all)-len(early), counter(t, measured, "fanmail_deliveries_total", "bulk"), 0)
	require.InDelta(t, len(early), counter(t, measured, "fanmail_head_start_deliveries_total", "bulk"), 0)
	require.Zero(t, counter(t, measured, "fanmail_duplicate_deliveries_total", "bulk"), "what a head start delivered is no duplicate")
	require.Equal(t, uint64(1), observed(t, measured, "fanmail_head_start_wait_seconds"))
}

// A head start delivers to a named user whatever their edge is, and to no dormant one. It writes no progress.
func TestHeadStartDeliversWhatTheScanWould(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opts.DirectMax = 4
	followers := w.bulk(t)
	left, stays := followers[0], followers[1]
	require.NoError(t, w.Edges.Unfollow(t.Context(), follow.Pair{Follower: left, Followee: "author"}, id(0).Time()))
	require.NoError(t, storetest.See(t.Context(), w.Users, w.Clock.Now().Add(-2*rig.DormantAfter), rig.DormantAfter, "dora"))
	m := w.beside(t, 1, left, stays, "dora", "stranger")
	require.Equal(t, 1, w.routeFirst(t, m))
	requireInboxes := func() {
		w.requireDelivered(t, []message.UserID{left, stays}, m)
		w.requireDelivered(t, []message.UserID{"dora", "stranger"})
	}
	requireInboxes()
	for p := range rig.Partitions {
		require.Empty(t, w.scan(t, m, p))
	}
	w.drain(t)
	requireInboxes()
	w.requireDone(t, m, len(followers), 2)
	require.Empty(t, w.letters(t))
}

// A head start continues the trace of its message.
func TestHeadStartsAreTraced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spans := tracetest.NewInMemoryExporter()
	w.opts.Tracer = tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	m := w.beside(t, 1, w.bulk(t)[0])
	require.Equal(t, 1, w.routeFirst(t, m))
	var route, first tracetest.SpanStub
	for _, span := range spans.GetSpans() {
		switch span.Name {
		case "route":
			route = span
		case "head start":
			first = span
		}
	}
	require.Equal(t, route.SpanContext.SpanID(), first.Parent.SpanID())
	require.Contains(t, first.Attributes, attribute.String("fanmail.message_id", m.ID.String()))
}

// A head start that comes too late, or after the user has deleted the message, changes nothing.
func TestHeadStartsThatComeLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	followers := w.bulk(t)
	m := w.beside(t, 1, followers[0], followers[1])
	w.publish(t, m)
	late := w.routeAll(t, w.router())
	w.drain(t)
	require.NoError(t, w.Inboxes(0).Delete(t.Context(), followers[1], m.ID))
	require.Equal(t, 1, late.DeliverHeadStarts(t.Context()))
	w.requireDelivered(t, slices.Delete(slices.Clone(followers), 1, 2), m)
	shown, _ := w.ReadInbox(t.Context(), t, followers[1], 10)
	require.Empty(t, shown)
	w.requireDone(t, m, len(followers), 0)
	require.Empty(t, w.tasks(t))
}

// A panic or a failure at any operation of a head start ends only that head start. The scan delivers to everybody and counts each recipient
// once.
func TestFaultsOfHeadStarts(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.PanicBefore, rig.PanicAfter, rig.FailBefore, rig.FailAfter, rig.DieBefore, rig.DieAfter} {
		t.Run(fmt.Sprintf("fault %d", fault), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.opts.DirectMax = 3
			followers := w.bulk(t)
			var sent []message.Message
			for after, befallen := 0, true; befallen; after++ {
				m := w.beside(t, after, followers[:3]...)
				sent = append(sent, m)
				w.publish(t, m)
				router := w.routeAll(t, w.router())
				actor := rig.Start(t.Context(), fault, after, func(ctx context.Context) error {
					router.DeliverHeadStarts(ctx)
					return nil
				})
				befallen = !actor.Unhurt()
				require.False(t, panics.Is(actor.Err()))
				w.drain(t)
				w.requireDelivered(t, followers, sent...)
				w.requireDone(t, m, len(followers), 0)
				require.Empty(t, w.letters(t))
			}
			require.Greater(t, len(sent), 2)
		})
	}
}

// A panic while a head start is delivered drops that head start.
func TestPanicInAHeadStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	followers := w.bulk(t)
	measured := w.measure()
	m := w.beside(t, 1, followers[0])
	w.publish(t, m)
	router := w.routeAll(t, w.router())
	rig.Start(t.Context(), rig.PanicBefore, 0, func(ctx context.Context) error {
		router.DeliverHeadStarts(ctx)
		return nil
	})
	require.InDelta(t, 1, counter(t, measured, "fanmail_head_starts_dropped_total", "panic"), 0)
	require.InDelta(t, 1, counter(t, measured, "fanmail_panics_total", ""), 0)
	w.opts.Metrics = nil
	w.drain(t)
	w.requireDone(t, m, len(followers), 0)
}

// A router whose head starts are not delivered drops the later ones, and routes on.
func TestWaitingHeadStartsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bulk(t)
	measured := w.measure()
	for n := range 100 {
		w.publish(t, w.beside(t, n, "named"))
	}
	router := w.routeAll(t, w.router())
	require.InDelta(t, 100-64, counter(t, measured, "fanmail_head_starts_dropped_total", "busy"), 0)
	require.Equal(t, 64, router.DeliverHeadStarts(t.Context()))
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
