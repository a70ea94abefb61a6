package natsbus_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
)

// Backlog returns the same answer for a second of the bus's clock.
func TestBacklogIsRemembered(t *testing.T) {
	t.Parallel()
	var elapsed atomic.Int64
	b := newBus(t, natsbus.Options{FanoutBytes: 1 << 20, Now: func() time.Time { return time.UnixMilli(elapsed.Load()) }})
	waiting := func() uint64 {
		backlog, err := b.Backlog(patient(t))
		require.NoError(t, err)
		require.Equal(t, bus.Fill{Bytes: backlog.Streams[natsbus.FanoutStream].Bytes, Limit: 1 << 20}, backlog.Streams[natsbus.FanoutStream])
		return backlog.Tasks[event.Bulk].Messages
	}
	require.Zero(t, waiting())
	require.NoError(t, b.EmitTasks(patient(t), tasks(event.Bulk, 0, 0, 3)))
	elapsed.Store(999)
	require.Zero(t, waiting())
	elapsed.Store(1000)
	require.Equal(t, uint64(3), waiting())
}

// A scrape has the metrics of the bus itself even if the server does not answer.
func TestMetricsWithoutTheServer(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{})
	measured := prometheus.NewRegistry()
	b := connect(t, natsbus.Options{Server: server, Metrics: measured})
	count := func() int {
		n, err := testutil.GatherAndCount(measured, "fanmail_dead_letters")
		require.NoError(t, err)
		return n
	}
	require.Eventually(t, func() bool { return count() == 1 }, patience, 10*time.Millisecond)
	require.NoError(t, b.DeadLetter(patient(t), event.DeadLetter{Version: event.Version, Reason: "malformed", Subject: "fanmail.v1.login"}))
	require.NoError(t, b.DeadLetter(patient(t), event.DeadLetter{Version: event.Version, Reason: event.ReasonMissing, Subject: "fanmail.v1.published"}))
	b.Close()
	require.NoError(t, testutil.GatherAndCompare(measured, strings.NewReader(`
# HELP fanmail_bus_connected 1 while there is a connection to the bus, otherwise 0.
# TYPE fanmail_bus_connected gauge
fanmail_bus_connected 0
# HELP fanmail_dead_letters_total Dead letters that this process has written.
# TYPE fanmail_dead_letters_total counter
fanmail_dead_letters_total{work="bulk"} 0
fanmail_dead_letters_total{work="damaged"} 0
fanmail_dead_letters_total{work="login"} 1
fanmail_dead_letters_total{work="medium"} 0
fanmail_dead_letters_total{work="published"} 1
fanmail_dead_letters_total{work="unknown"} 0
# HELP fanmail_missing_messages_total Dead letters whose message the store has lost.
# TYPE fanmail_missing_messages_total counter
fanmail_missing_messages_total 1
`), "fanmail_bus_connected", "fanmail_dead_letters_total", "fanmail_missing_messages_total"))
	require.Zero(t, count())
}
