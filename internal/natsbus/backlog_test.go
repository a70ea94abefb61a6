package natsbus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
)

// backlog returns what is on the bus, as it is told to somebody who has not asked before.
func backlog(t *testing.T, server *natsserver.Server) bus.Backlog {
	t.Helper()
	backlog, err := connect(t, natsbus.Options{Server: server}).Backlog(patient(t))
	require.NoError(t, err)
	return backlog
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{})
	b := connect(t, natsbus.Options{Server: server, FanoutBytes: 1 << 20})
	empty := backlog(t, server)
	require.Zero(t, empty.Published)
	require.Zero(t, empty.Logins)
	require.Zero(t, empty.DeadLetters)
	require.Equal(t, map[event.Lane]bus.Queue{event.Express: {}, event.Medium: {}, event.Bulk: {}}, empty.Tasks)
	require.Equal(t, bus.Fill{Limit: natsbus.DefaultLoginBytes}, empty.Streams[natsbus.LoginStream])

	before := time.Now()
	require.NoError(t, b.EmitTasks(patient(t), tasks(event.Bulk, 0, 0, 3)))
	require.NoError(t, b.EmitTasks(patient(t), tasks(event.Bulk, 1, 0, 3)))
	between := time.Now()
	require.NoError(t, b.EmitTasks(patient(t), tasks(event.Express, 1, 0, 1)))
	require.NoError(t, b.EmitPublished(patient(t), []event.Published{published(0), published(1)}, false))
	require.NoError(t, b.DeadLetter(patient(t), event.DeadLetter{Version: event.Version, Reason: "attempts", Subject: "fanmail.v1.fanout.bulk.0"}))

	full := backlog(t, server)
	require.Equal(t, uint64(6), full.Tasks[event.Bulk].Messages, "of all partitions")
	require.WithinRange(t, full.Tasks[event.Bulk].Oldest, before, between)
	require.Equal(t, uint64(1), full.Tasks[event.Express].Messages)
	require.True(t, full.Tasks[event.Express].Oldest.After(between), "each lane has an oldest of its own")
	require.Zero(t, full.Tasks[event.Medium])
	require.Equal(t, uint64(2), full.Published.Messages)
	require.Equal(t, uint64(1), full.DeadLetters.Messages)
	require.Equal(t, uint64(1<<30), full.Streams[natsbus.FanoutStream].Limit, "somebody else has made it larger")
	require.Positive(t, full.Streams[natsbus.FanoutStream].Bytes)

	held := take(t, b, event.Express, 1)
	require.Equal(t, uint64(1), backlog(t, server).Tasks[event.Express].Messages, "what is worked on is there")
	require.NoError(t, held.Done(patient(t)))
	require.Zero(t, backlog(t, server).Tasks[event.Express])
}

// A bus tells of itself also when it cannot tell of what is on it.
func TestMetricsWithoutTheServer(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{})
	b := connect(t, natsbus.Options{Server: server})
	require.Eventually(t, func() bool { return testutil.CollectAndCount(b, "fanmail_dead_letters") == 1 }, patience, 10*time.Millisecond)
	require.NoError(t, b.DeadLetter(patient(t), event.DeadLetter{Version: event.Version, Reason: "malformed", Subject: "fanmail.v1.login"}))
	b.Close()
	require.NoError(t, testutil.CollectAndCompare(b, strings.NewReader(`
# HELP fanmail_bus_connected 1 while there is a connection to the bus, otherwise 0.
# TYPE fanmail_bus_connected gauge
fanmail_bus_connected 0
# HELP fanmail_dead_letters_total Pieces of work that this process has given up.
# TYPE fanmail_dead_letters_total counter
fanmail_dead_letters_total{work="bulk"} 0
fanmail_dead_letters_total{work="express"} 0
fanmail_dead_letters_total{work="login"} 1
fanmail_dead_letters_total{work="medium"} 0
fanmail_dead_letters_total{work="published"} 0
fanmail_dead_letters_total{work="unknown"} 0
`), "fanmail_bus_connected", "fanmail_dead_letters_total"))
	require.Zero(t, testutil.CollectAndCount(b, "fanmail_dead_letters"))
}
