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

// TestLoginsBringTheirTrace sends logins whose headers have the names in several capitalizations, as the libraries of other programs do.
func TestLoginsBringTheirTrace(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	bus := connect(t, natsbus.Options{Server: server})
	nc, err := nats.Connect(server.ClientURL(), nats.Timeout(time.Minute))
	require.NoError(t, err)
	defer nc.Close()
	for _, name := range []string{"traceparent", "Traceparent"} {
		require.NoError(t, nc.PublishMsg(&nats.Msg{
			Subject: "fanmail.v1.login", Data: []byte(`{"user":"ann"}`), Header: nats.Header{name: {"00-1-2-01"}},
		}))
		require.NoError(t, nc.Flush())
		received, err := bus.FetchLogins(patient(t), 1)
		require.NoError(t, err)
		require.Equal(t, event.Trace{Parent: "00-1-2-01"}, received[0].Delivery().Trace, name)
		require.NoError(t, received[0].Ack())
	}
	told := make(chan *nats.Msg, 1)
	_, err = nc.ChanSubscribe("fanmail.v1.rehydrated", told)
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	rehydrated := event.NewRehydrated("ann", 1)
	rehydrated.Trace = event.Trace{Parent: "00-1-2-01"}
	bus.EmitRehydrated(rehydrated)
	require.Equal(t, "00-1-2-01", receive(t, told).Header.Get("traceparent"))
}
