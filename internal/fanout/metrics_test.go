package fanout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// nonZero returns the labels and values of a metric that are not 0.
func nonZero(t *testing.T, registry *prometheus.Registry, name string) (lines []string) {
	t.Helper()
	text, err := testutil.CollectAndFormat(registry, expfmt.TypeTextPlain, name)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, name) && !strings.HasSuffix(line, " 0\n") {
			lines = append(lines, strings.TrimSpace(strings.TrimPrefix(line, name)))
		}
	}
	return lines
}

// What a message came to is told as it was: appended, found, and left to rehydration for each of the reasons there are.
func TestDeliveriesAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 6)
	w.follow(t, "author", users...)
	longAgo := w.Clock.Now().Add(-2 * rig.Rules().DormantAfter)
	for i, state := range []userstate.State{
		2: {LastViewed: longAgo, Horizon: longAgo},
		3: {LastViewed: w.Clock.Now(), Horizon: w.Clock.Now(), Mark: &userstate.Mark{From: longAgo}, Lease: userstate.Lease{Token: "token", Until: w.Clock.Now().Add(time.Hour)}},
	} {
		if state.Known() || !state.LastViewed.IsZero() {
			state.User = users[i]
			stepped, err := w.Users.Step(t.Context(), []userstate.Step{{From: userstate.State{User: users[i]}, To: state}})
			require.NoError(t, err)
			require.True(t, stepped[0].Applied)
		}
	}
	w.see(t, users[0], users[1], users[5])
	m := w.store(t, 1, "author")
	_, err := w.Appender.Append(t.Context(), []bucket.Append{{Owner: users[5], Entries: []bucket.Entry{bucket.EntryOf(m)}}})
	require.NoError(t, err)
	w.plan(t, event.Medium, []int{0}, m)
	measured := w.measure()
	w.opts.Tally = &tally.Tally{}
	d := w.deliverer()
	for held := w.take(t, event.Medium, 0); held != nil; held = w.take(t, event.Medium, 0) {
		require.NoError(t, d.Deliver(t.Context(), held))
	}
	w.requireDone(t, m, 3, 3)
	require.Equal(t, uint64(1), observed(t, measured, "fanmail_fanout_duration_seconds"))
	require.Equal(t, uint64(2), observed(t, measured, "fanmail_batch_duration_seconds"))
	counted := func(name string, lines ...string) {
		t.Helper()
		require.Equal(t, lines, nonZero(t, measured, name))
	}
	counted("fanmail_deliveries_total", `{lane="medium"} 2`)
	counted("fanmail_duplicate_deliveries_total", `{lane="medium"} 1`)
	counted("fanmail_skipped_deliveries_total",
		`{lane="medium",reason="dormant"} 1`, `{lane="medium",reason="never_seen"} 1`, `{lane="medium",reason="rehydrating"} 1`)
	counted("fanmail_tasks_finished_total", `{lane="medium"} 1`)
	counted("fanmail_tasks_continued_total", `{lane="medium"} 1`)
	size := int64(len(m.Body) + len(m.Attrs))
	want := tally.Counters{Delivered: 2, DeliveredBytes: 2 * size, Skipped: tally.Skips{Dormant: 1, NeverSeen: 1, Bytes: 2 * size}, Finished: tally.Lanes{Medium: 1}}
	want.Away[tally.Step(w.Clock.Now(), m.Sent())] = 2
	want.Away[tally.Step(longAgo, m.Sent())] = 1
	require.Equal(t, want, w.opts.Tally.Read(), "the copy that was there does not count")
}

// observed returns how many values a histogram has seen.
func observed(t *testing.T, measured prometheus.Gatherer, name string) (n uint64) {
	t.Helper()
	families, err := measured.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == name {
			for _, metric := range family.GetMetric() {
				n += metric.GetHistogram().GetSampleCount()
			}
		}
	}
	return n
}

// A message is routed once, to its lane.
func TestRoutesAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(t, w.store(t, 1, "author", "ann", "ben"), w.store(t, 2, "author", "ann"))
	measured := w.measure()
	w.opts.Tally = &tally.Tally{}
	router := w.router()
	for routed := 0; routed < 2; {
		received, err := w.Bus.TryFetch(t.Context(), 10)
		require.NoError(t, err)
		require.NoError(t, router.Route(t.Context(), received))
		routed += len(received)
	}
	require.NoError(t, testutil.GatherAndCompare(measured, strings.NewReader(`
# HELP fanmail_routed_messages_total Messages that the router has delivered itself (direct), or whose tasks it has put into the queues of a lane.
# TYPE fanmail_routed_messages_total counter
fanmail_routed_messages_total{lane="bulk"} 0
fanmail_routed_messages_total{lane="direct"} 2
fanmail_routed_messages_total{lane="medium"} 0
`), "fanmail_routed_messages_total"))
	done := w.opts.Tally.Read()
	require.Equal(t, tally.Lanes{Direct: 2}, done.Finished)
	require.Equal(t, int64(3), done.Skipped.NeverSeen)
}

// The metrics count the findings of the sweep.
func TestSweptMessagesAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store(t, 1, "author", "ann")
	w.Clock.Advance(rig.ResumeAfter + time.Second)
	measured := w.measure()
	resumer := w.resumer()
	n, err := resumer.Resume(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, testutil.GatherAndCompare(measured, strings.NewReader(`
# HELP fanmail_resumed_messages_total Messages that had not moved for too long, and were routed again.
# TYPE fanmail_resumed_messages_total counter
fanmail_resumed_messages_total 1
`), "fanmail_resumed_messages_total"))
}
