package storemetrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pulse"
	"github.com/fanmail/fanmail/internal/storemetrics"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A call counts with its duration, and in the pulse of its context. Regular answers and cancellations are no failures.
func TestDone(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	began := time.Unix(1000, 0)
	m := storemetrics.New(registry, func() time.Time { return began.Add(time.Second) })
	var beating pulse.Pulse
	for _, err := range []error{nil, message.ErrNotFound, fmt.Errorf("get: %w", context.Canceled)} {
		m.Done(beating.Of(t.Context()), "messages.get", began, err)
	}
	errorsAre := func(n int) {
		t.Helper()
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(`
# HELP fanmail_store_errors_total Failed calls of a store. Calls that were canceled or found nothing are not counted.
# TYPE fanmail_store_errors_total counter
fanmail_store_errors_total{operation="messages.get"} %d
`, n)), "fanmail_store_errors_total"))
	}
	errorsAre(0)
	for _, err := range []error{message.ErrUnavailable, context.DeadlineExceeded, errors.New("disk full")} {
		m.Done(beating.Of(t.Context()), "messages.get", began, err)
	}
	errorsAre(3)
	require.Equal(t, uint64(6), beating.Beats())
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "fanmail_store_duration_seconds" {
			require.Len(t, family.GetMetric(), 1)
			require.Equal(t, uint64(6), family.GetMetric()[0].GetHistogram().GetSampleCount())
			require.InDelta(t, 6, family.GetMetric()[0].GetHistogram().GetSampleSum(), 1e-9)
		}
	}
}

func TestPushed(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	storemetrics.New(registry, time.Now).Pushed([]bucket.Push{
		{Guard: true, Entries: make([]bucket.Entry, 20)}, {Guard: true}, {Entries: make([]bucket.Entry, 1)}, {Create: true, Entries: make([]bucket.Entry, 3)},
	}, []bucket.Outcome{{Applied: true}, {}, {Applied: true}, {Applied: true}})
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP fanmail_push_entries Entries in one push to one inbox.
# TYPE fanmail_push_entries histogram
fanmail_push_entries_bucket{le="1"} 1
fanmail_push_entries_bucket{le="2"} 1
fanmail_push_entries_bucket{le="5"} 2
fanmail_push_entries_bucket{le="10"} 2
fanmail_push_entries_bucket{le="20"} 3
fanmail_push_entries_bucket{le="30"} 3
fanmail_push_entries_bucket{le="40"} 3
fanmail_push_entries_bucket{le="50"} 3
fanmail_push_entries_bucket{le="+Inf"} 3
fanmail_push_entries_sum 24
fanmail_push_entries_count 3
# HELP fanmail_pushes_total Pushes of entries onto a bucket, by the step of the append protocol and the outcome.
# TYPE fanmail_pushes_total counter
fanmail_pushes_total{outcome="applied",step="guarded"} 1
fanmail_pushes_total{outcome="applied",step="looked"} 1
fanmail_pushes_total{outcome="applied",step="opening"} 1
fanmail_pushes_total{outcome="refused",step="guarded"} 1
fanmail_pushes_total{outcome="refused",step="looked"} 0
fanmail_pushes_total{outcome="refused",step="opening"} 0
`), "fanmail_push_entries", "fanmail_pushes_total"))
}
