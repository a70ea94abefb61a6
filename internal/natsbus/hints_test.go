package natsbus_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/internal/wake"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/test/testenv"
)

var _ wake.Bus = (*natsbus.Bus)(nil)

// TestHintsOutliveTheServer hears a subject before and after the server was away.
func TestHintsOutliveTheServer(t *testing.T) {
	t.Parallel()
	opts := natsserver.Options{Dir: t.TempDir(), Addr: "127.0.0.1:" + testenv.FreePort(t)}
	server := start(t, opts)
	b := connect(t, natsbus.Options{URL: server.ClientURL()})
	heard := make(chan string, 10)
	stop, err := b.Hear("fanmail.v1.watch", func(payload []byte) { heard <- string(bytes.Clone(payload)) })
	require.NoError(t, err)
	require.NoError(t, b.Healthy(patient(t))) // the server knows who hears
	require.NoError(t, b.Say("fanmail.v1.watch", []byte("its own")))
	require.Equal(t, "its own", receive(t, heard))

	server.Stop()
	other := connect(t, natsbus.Options{Server: start(t, opts)})
	require.NoError(t, other.EmitTasks(patient(t), tasks(event.Bulk, 0, 0, 1)))
	take(t, b, event.Bulk, 0) // the connection is back
	require.NoError(t, other.Say("fanmail.v1.watch", []byte("another's")))
	require.Equal(t, "another's", receive(t, heard))

	stop()
	require.NoError(t, b.Say("fanmail.v1.watch", []byte("unheard")))
	require.NoError(t, b.Healthy(patient(t)))
	require.Empty(t, heard)
	b.Close()
	require.ErrorIs(t, b.Say("fanmail.v1.watch", nil), bus.ErrUnavailable)
	_, err = b.Hear("fanmail.v1.watch", func([]byte) {})
	require.ErrorIs(t, err, bus.ErrUnavailable)
}
