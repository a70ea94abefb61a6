package natsbus_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
)

func TestEmbeddedListensOnLoopbackWhereConfigured(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	bus := connect(t, natsbus.Options{Server: server})

	other, err := nats.Connect(server.ClientURL(), nats.Timeout(time.Minute))
	require.NoError(t, err)
	defer other.Close()
	require.Equal(t, int64(8<<20), other.MaxPayload())
	require.NoError(t, other.Publish("fanmail.v1.fanout.bulk.1", []byte("from outside")))

	require.Equal(t, "from outside", string(take(t, bus, event.Bulk, 1).First().Payload))
}

// TestClockIsTheServers emits a task between two looks at the server's clock.
func TestClockIsTheServers(t *testing.T) {
	t.Parallel()
	b := connect(t, natsbus.Options{Server: start(t, natsserver.Options{})})
	before, err := b.Clock(patient(t))
	require.NoError(t, err)
	require.NoError(t, b.EmitTasks(patient(t), tasks(event.Bulk, 0, 0, 1)))
	after, err := b.Clock(patient(t))
	require.NoError(t, err)
	require.WithinRange(t, take(t, b, event.Bulk, 0).First().Stored, before, after)
}

func TestEmbeddedKeepsTasksWhenStartedAgain(t *testing.T) {
	t.Parallel()
	for name, always := range map[string]bool{"synced in time": false, "synced always": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := natsserver.Options{Dir: t.TempDir(), SyncAlways: always}
			server := start(t, opts)
			bus := connect(t, natsbus.Options{Server: server})
			require.NoError(t, bus.EmitTasks(patient(t), tasks(event.Medium, 0, 0, 5)))
			held := take(t, bus, event.Medium, 0)
			require.NoError(t, held.Done(patient(t)))
			bus.Close()
			server.Stop()
			server.Stop()

			bus = connect(t, natsbus.Options{Server: start(t, opts)})
			held = take(t, bus, event.Medium, 0)
			waiting, err := held.Waiting(patient(t), 10)
			require.NoError(t, err)
			require.Equal(t, messages(1, 5), ids(t, append([]event.Delivery{held.First()}, waiting...)))
		})
	}
}
