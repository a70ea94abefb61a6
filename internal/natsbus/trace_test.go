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

// TestTracesTravelInHeaders sends every kind of event with a trace, and demands the trace on the other side and the payload as it is
// without one.
func TestTracesTravelInHeaders(t *testing.T) {
	t.Parallel()
	given := event.Trace{Parent: "00-11111111111111111111111111111111-aaaaaaaaaaaaaaaa-01", State: "vendor=1"}
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	bus := connect(t, natsbus.Options{Server: server})
	ctx := patient(t)

	emitted := published(1)
	plain, err := emitted.Encode()
	require.NoError(t, err)
	emitted.Trace = given
	require.NoError(t, bus.EmitPublished(ctx, []event.Published{emitted, published(2)}, false))
	received, err := bus.FetchPublished(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, given, received[0].Delivery().Trace)
	require.Equal(t, string(plain), string(received[0].Delivery().Payload))
	received, err = bus.FetchPublished(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, event.Trace{}, received[0].Delivery().Trace)

	waiting := tasks(event.Bulk, 1, 0, 3)
	waiting[0].Trace, waiting[2].Trace = given, given
	require.NoError(t, bus.EmitTasks(ctx, waiting))
	held, err := bus.Take(ctx, event.Bulk, 1)
	require.NoError(t, err)
	require.Equal(t, given, held.First().Trace)
	behind, err := held.Waiting(ctx, 2)
	require.NoError(t, err)
	require.Equal(t, []event.Trace{{}, given}, []event.Trace{behind[0].Trace, behind[1].Trace})

	require.NoError(t, bus.DeadLetter(ctx, event.DeadLetter{
		Version: event.Version, Reason: "attempts", Subject: held.First().Subject, Payload: held.First().Payload, Trace: given,
	}))
	filed, err := bus.DeadLetters(ctx, 0, 1)
	require.NoError(t, err)
	require.Equal(t, given, filed[0].Trace)
	require.NoError(t, held.Done(ctx))
	require.NoError(t, held.Remove(ctx, behind))
	require.NoError(t, bus.Emit(ctx, filed[0].DeadLetter))
	again, err := bus.Take(ctx, event.Bulk, 1)
	require.NoError(t, err)
	require.Equal(t, given, again.First().Trace, "redriven")
}

// TestLoginsBringTheirTrace sends logins as other programs do, whose libraries spell the names of headers in their own ways.
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
