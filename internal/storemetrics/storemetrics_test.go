package storemetrics_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/pulse"
	"github.com/fanmail/fanmail/internal/storemetrics"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// counts returns how often each operation was measured.
func counts(t *testing.T, registry *prometheus.Registry) map[string]uint64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	counts := make(map[string]uint64)
	for _, family := range families {
		if family.GetName() != "fanmail_store_duration_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			counts[metric.GetLabel()[0].GetValue()] = metric.GetHistogram().GetSampleCount()
		}
	}
	return counts
}

// Every method of every store interface is measured under its own name, and counts in the pulse of its context, also a method that
// fails or panics. The methods here panic, because the wrapped store is nil.
func TestEveryMethodIsMeasured(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := storemetrics.New(registry, time.Now)
	var beating pulse.Pulse
	ctx := beating.Of(t.Context())
	for _, store := range []struct {
		interfaceType reflect.Type
		measured      any
	}{
		{reflect.TypeFor[message.Store](), m.Messages(nil)},
		{reflect.TypeFor[message.KeyStore](), m.Keys(nil)},
		{reflect.TypeFor[bucket.Store](), m.Inbox(nil)},
		{reflect.TypeFor[bucket.Index](), m.Index(nil)},
		{reflect.TypeFor[userstate.Store](), m.Users(nil)},
		{reflect.TypeFor[follow.Store](), m.Edges(nil)},
		{reflect.TypeFor[progress.Store](), m.Progress(nil)},
		{reflect.TypeFor[identity.Store](), m.Identities(nil)},
		{reflect.TypeFor[topic.Store](), m.Topics(nil)},
	} {
		for method := range store.interfaceType.Methods() {
			name := method.Name
			before, beats := counts(t, registry), beating.Beats()
			call(ctx, store.measured, name)
			require.Equal(t, beats+1, beating.Beats(), "%v.%s", store.interfaceType, name)
			changed := 0
			for operation, n := range counts(t, registry) {
				if n != before[operation] {
					changed++
					want := strings.ToLower(name)
					require.Equal(t, want, strings.ReplaceAll(operation[strings.Index(operation, ".")+1:], "_", ""), store.interfaceType)
				}
			}
			require.Equal(t, 1, changed, "%v.%s", store.interfaceType, name)
		}
	}
}

// call calls a method with ctx and zero arguments.
func call(ctx context.Context, on any, name string) {
	defer func() { _ = recover() }()
	method := reflect.ValueOf(on).MethodByName(name)
	args := make([]reflect.Value, method.Type().NumIn())
	args[0] = reflect.ValueOf(ctx)
	for i := 1; i < len(args); i++ {
		args[i] = reflect.Zero(method.Type().In(i))
	}
	method.Call(args)
}

// broken is a store of messages that fails.
type broken struct {
	message.Store
	err error
}

func (b broken) Get(context.Context, message.Ref) (message.Stored, error) {
	return message.Stored{}, b.err
}

func TestAnswersAreNoErrors(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := storemetrics.New(registry, time.Now)
	for _, err := range []error{nil, message.ErrNotFound, fmt.Errorf("get: %w", context.Canceled)} {
		_, got := m.Messages(broken{err: err}).Get(t.Context(), message.Ref{})
		require.Equal(t, err, got)
	}
	for _, err := range []error{message.ErrUnavailable, context.DeadlineExceeded, errors.New("disk full")} {
		_, got := m.Messages(broken{err: err}).Get(t.Context(), message.Ref{})
		require.Equal(t, err, got)
	}
	require.Equal(t, uint64(6), counts(t, registry)["messages.get"])
	families, err := registry.Gather()
	require.NoError(t, err)
	failed := 0.0
	for _, family := range families {
		if family.GetName() == "fanmail_store_errors_total" {
			for _, metric := range family.GetMetric() {
				failed += metric.GetCounter().GetValue()
			}
		}
	}
	require.InDelta(t, 3, failed, 0)
}

// appender returns an Appender on a measured store.
func appender(t *testing.T) (*prometheus.Registry, *bucket.Appender) {
	t.Helper()
	db, err := pebblestore.Open(t.Context(), "store", pebblestore.Options{FS: vfs.NewMem(), Now: time.Now, Logger: zerolog.Nop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	measured := prometheus.NewRegistry()
	m := storemetrics.New(measured, time.Now)
	return measured, bucket.NewAppender(m.Inbox(db.Inbox()), m.Users(db.Users()))
}

func entries(first, last int) []bucket.Entry {
	entries := make([]bucket.Entry, 0, last-first+1)
	for n := first; n <= last; n++ {
		entries = append(entries, bucket.Entry{ID: message.MinID(time.UnixMilli(int64(n))), From: "ann", Body: "hello"})
	}
	return entries
}

// The metrics show the steps of the append protocol in the order in which they are taken.
func TestSteps(t *testing.T) {
	t.Parallel()
	measured, a := appender(t)
	to := func(entries []bucket.Entry) {
		results, err := a.Append(t.Context(), []bucket.Append{{Owner: "ben", Entries: entries}})
		require.NoError(t, err)
		require.NoError(t, results[0].Err)
	}
	to(entries(11, 30))
	require.Equal(t, "guarded/applied 1", steps(t, measured))
	to(entries(31, 60))
	require.Equal(t, "guarded/applied 2", steps(t, measured))
	to(entries(61, 63))
	require.Equal(t, "guarded/applied 2, guarded/refused 1, opening/applied 1", steps(t, measured), "the bucket was full")
	to(entries(5, 5))
	require.Equal(t, "guarded/applied 2, guarded/refused 2, looked/applied 1, opening/applied 1", steps(t, measured), "the entry was late, and its hint old")
	require.NoError(t, testutil.GatherAndCompare(measured, strings.NewReader(`
# HELP fanmail_push_entries Entries in one push to one inbox.
# TYPE fanmail_push_entries histogram
fanmail_push_entries_bucket{le="1"} 1
fanmail_push_entries_bucket{le="2"} 1
fanmail_push_entries_bucket{le="5"} 2
fanmail_push_entries_bucket{le="10"} 2
fanmail_push_entries_bucket{le="20"} 3
fanmail_push_entries_bucket{le="30"} 4
fanmail_push_entries_bucket{le="40"} 4
fanmail_push_entries_bucket{le="50"} 4
fanmail_push_entries_bucket{le="+Inf"} 4
fanmail_push_entries_sum 54
fanmail_push_entries_count 4
`), "fanmail_push_entries"))
}

// steps returns the counted pushes by step and outcome.
func steps(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	var steps []string
	for _, family := range families {
		if family.GetName() != "fanmail_pushes_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if n := metric.GetCounter().GetValue(); n > 0 {
				labels := map[string]string{}
				for _, label := range metric.GetLabel() {
					labels[label.GetName()] = label.GetValue()
				}
				steps = append(steps, fmt.Sprintf("%s/%s %g", labels["step"], labels["outcome"], n))
			}
		}
	}
	slices.Sort(steps)
	return strings.Join(steps, ", ")
}

// Measuring a call allocates nothing.
func TestNothingIsAllocated(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the allocations of parallel tests too
	m := storemetrics.New(nil, time.Now)
	plain := message.Store(broken{})
	measured := m.Messages(plain)
	ctx := t.Context()
	get := func(store message.Store) float64 {
		return testing.AllocsPerRun(100, func() { _, _ = store.Get(ctx, message.Ref{}) })
	}
	require.InDelta(t, get(plain), get(measured), 0)
}

// BenchmarkCall compares a call with and without measuring.
func BenchmarkCall(b *testing.B) {
	m := storemetrics.New(nil, time.Now)
	for name, store := range map[string]message.Store{"plain": broken{}, "measured": m.Messages(broken{})} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = store.Get(b.Context(), message.Ref{})
			}
		})
	}
}

// pushes is a store of buckets that applies every push.
type pushes struct {
	bucket.Store
	outcomes []bucket.Outcome
}

func (p pushes) Push(context.Context, []bucket.Push) ([]bucket.Outcome, error) {
	return p.outcomes, nil
}

// BenchmarkPush compares a large push with and without measuring, for each inbox.
func BenchmarkPush(b *testing.B) {
	const owners = 1000
	all := make([]bucket.Push, owners)
	outcomes := make([]bucket.Outcome, owners)
	for i := range all {
		all[i] = bucket.Push{Owner: "ann", Entries: entries(1, 3), Guard: true}
		outcomes[i].Applied = true
	}
	store := storemetrics.New(nil, time.Now).Inbox(pushes{outcomes: outcomes})
	for b.Loop() {
		_, _ = store.Push(b.Context(), all)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/owners, "ns/inbox")
}
