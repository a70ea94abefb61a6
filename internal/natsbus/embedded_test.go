package natsbus_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/pkg/event"
)

func TestEmbeddedListensOnLoopbackWhereConfigured(t *testing.T) {
	t.Parallel()
	server := start(t, natsbus.EmbeddedOptions{Addr: "127.0.0.1:0"})
	bus := connect(t, natsbus.Options{Server: server})

	other, err := nats.Connect(server.ClientURL(), nats.Timeout(time.Minute))
	require.NoError(t, err)
	defer other.Close()
	require.Equal(t, int64(8<<20), other.MaxPayload())
	require.NoError(t, other.Publish("fanmail.v1.fanout.bulk.1", []byte("from outside")))

	require.Equal(t, "from outside", string(take(t, bus, event.Bulk, 1).First().Payload))
}

func TestEmbeddedInProcessOnlyHasNoURL(t *testing.T) {
	t.Parallel()
	require.Empty(t, start(t, natsbus.EmbeddedOptions{}).ClientURL())
}

func TestEmbeddedRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	inUse := t.TempDir()
	start(t, natsbus.EmbeddedOptions{Dir: inUse})

	for name, test := range map[string]struct {
		dir, addr, want string
	}{
		"no folder":            {"", "", "no folder given"},
		"a folder in a file":   {filepath.Join(file, "bus"), "", "not a directory"},
		"a folder in use":      {inUse, "", "in use by another process"},
		"a port in use":        {t.TempDir(), listener.Addr().String(), "address already in use"},
		"no port":              {t.TempDir(), "127.0.0.1", "missing port"},
		"a port out of range":  {t.TempDir(), "127.0.0.1:65536", `"65536" is not a port`},
		"every interface":      {t.TempDir(), ":4222", "not a loopback address"},
		"an address elsewhere": {t.TempDir(), "192.0.2.1:4222", "not a loopback address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := natsbus.StartEmbedded(t.Context(), natsbus.EmbeddedOptions{Dir: test.dir, Addr: test.addr})
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestEmbeddedKeepsTasksWhenStartedAgain(t *testing.T) {
	t.Parallel()
	for name, always := range map[string]bool{"synced in time": false, "synced always": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := natsbus.EmbeddedOptions{Dir: t.TempDir(), SyncAlways: always}
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
