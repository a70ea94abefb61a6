package natsbus_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/test/testenv"
)

func TestOneHolderPerLaneAndPartition(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{})
	one := connect(t, natsbus.Options{Server: server, Lease: time.Hour})
	two := connect(t, natsbus.Options{Server: server, Lease: time.Hour})
	for _, lane := range []event.Lane{event.Medium, event.Bulk} {
		for partition := range 2 {
			require.NoError(t, one.EmitTasks(patient(t), tasks(lane, partition, 0, 2)))
		}
	}

	held := take(t, one, event.Bulk, 0)
	behind := takeBehind(patient(t), two, event.Bulk, 0)
	for _, other := range []bus.Held{
		take(t, two, event.Bulk, 1), take(t, two, event.Medium, 0), take(t, two, event.Medium, 1),
	} {
		require.Equal(t, 1, other.First().Attempts)
	}
	require.Empty(t, behind, "two workers hold the same lane and partition")

	require.NoError(t, held.Done(patient(t)))
	next := receive(t, behind)
	require.NoError(t, next.err)
	require.Equal(t, messages(1, 2), ids(t, []event.Delivery{next.held.First()}))
	require.Equal(t, 1, next.held.First().Attempts)
}

func TestLeaseThatRunsOutHandsOver(t *testing.T) {
	t.Parallel()
	b := newBus(t, natsbus.Options{Lease: 200 * time.Millisecond})
	require.NoError(t, b.EmitTasks(patient(t), tasks(event.Bulk, 0, 0, 2)))
	slow := take(t, b, event.Bulk, 0)
	next := take(t, b, event.Bulk, 0)
	require.Equal(t, slow.First().Sequence, next.First().Sequence)
	require.Equal(t, 1, slow.First().Attempts)
	require.Equal(t, 2, next.First().Attempts)
	// The slow worker has finished the work, so no worker needs to repeat it.
	require.NoError(t, slow.Done(patient(t)))
	require.NoError(t, next.Done(patient(t)))
	require.Equal(t, messages(1, 2), ids(t, []event.Delivery{take(t, b, event.Bulk, 0).First()}))
}

func TestUnfinishedBatchStaysWhole(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{})
	crashed := connect(t, natsbus.Options{Server: server, Lease: 200 * time.Millisecond})
	require.NoError(t, crashed.EmitTasks(patient(t), tasks(event.Bulk, 0, 0, 5)))
	_, err := take(t, crashed, event.Bulk, 0).Waiting(patient(t), 10)
	require.NoError(t, err)
	crashed.Close()

	other := connect(t, natsbus.Options{Server: server, Lease: 200 * time.Millisecond})
	held := take(t, other, event.Bulk, 0)
	waiting, err := held.Waiting(patient(t), 10)
	require.NoError(t, err)
	require.Equal(t, messages(0, 5), ids(t, append([]event.Delivery{held.First()}, waiting...)))
	require.Equal(t, 2, held.First().Attempts)
}

func TestCloseEndsTake(t *testing.T) {
	t.Parallel()
	b := newBus(t, natsbus.Options{})
	behind := takeBehind(patient(t), b, event.Bulk, 0)
	b.Close()
	b.Close()
	require.ErrorIs(t, receive(t, behind).err, bus.ErrUnavailable)
}

func TestTakeOutlivesTheServer(t *testing.T) {
	t.Parallel()
	opts := natsserver.Options{Dir: t.TempDir(), Addr: "127.0.0.1:" + testenv.FreePort(t)}
	server := start(t, opts)
	b := connect(t, natsbus.Options{URL: server.ClientURL()})
	behind := takeBehind(patient(t), b, event.Bulk, 0)
	server.Stop()
	other := connect(t, natsbus.Options{Server: start(t, opts)})
	require.NoError(t, other.EmitTasks(patient(t), tasks(event.Bulk, 0, 0, 1)))
	got := receive(t, behind)
	require.NoError(t, got.err)
	require.NoError(t, got.held.Done(patient(t)))
}

// A server that stops answers "no responders" for a moment, as if the consumer were gone. The request to declare it again is then lost
// with the connection.
func TestTakeOutlivesAServerThatStopsWhileItDeclares(t *testing.T) {
	t.Parallel()
	port := testenv.FreePort(t)
	opts := natsserver.Options{Dir: t.TempDir(), Addr: "127.0.0.1:" + port}
	first := start(t, opts)
	b := connect(t, natsbus.Options{URL: first.ClientURL()})
	behind := takeBehind(patient(t), b, event.Bulk, 0)
	first.Stop()

	silent, asked := startSilent(t, port)
	select {
	case <-asked:
	case <-patient(t).Done():
		require.Fail(t, "the consumer was not declared again")
	}
	silent.Shutdown()
	silent.WaitForShutdown()

	other := connect(t, natsbus.Options{Server: start(t, opts)})
	require.NoError(t, other.EmitTasks(patient(t), tasks(event.Bulk, 0, 0, 1)))
	got := receive(t, behind)
	require.NoError(t, got.err)
	require.NoError(t, got.held.Done(patient(t)))
}

// startSilent starts a server at the port that has no streams and never answers a declaration of a consumer. The channel
// receives what it leaves without an answer.
func startSilent(t *testing.T, port string) (*server.Server, <-chan *nats.Msg) {
	t.Helper()
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	silent, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: number, NoSigs: true})
	require.NoError(t, err)
	t.Cleanup(silent.Shutdown)
	silent.Start()
	require.True(t, silent.ReadyForConnections(patience))
	nc, err := nats.Connect(silent.ClientURL(), nats.Timeout(patience))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	asked := make(chan *nats.Msg, 16)
	_, err = nc.ChanSubscribe("$JS.API.CONSUMER.CREATE.>", asked)
	require.NoError(t, err)
	return silent, asked
}

func TestTakeDeclaresAgainWhatIsDeleted(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(context.Context, jetstream.JetStream) error{
		"consumer": func(ctx context.Context, js jetstream.JetStream) error {
			return js.DeleteConsumer(ctx, natsbus.FanoutStream, "bulk-0")
		},
		"stream": func(ctx context.Context, js jetstream.JetStream) error {
			return js.DeleteStream(ctx, natsbus.FanoutStream)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
			b, js := connect(t, natsbus.Options{Server: server}), admin(t, server)
			behind := takeBehind(patient(t), b, event.Bulk, 0)
			require.NoError(t, remove(patient(t), js))
			require.Eventually(t, func() bool {
				_, err := js.Consumer(patient(t), natsbus.FanoutStream, "bulk-0")
				return err == nil
			}, patience, 10*time.Millisecond)
			require.NoError(t, b.EmitTasks(patient(t), tasks(event.Bulk, 0, 0, 1)))
			got := receive(t, behind)
			require.NoError(t, got.err)
			require.NoError(t, got.held.Done(patient(t)))
		})
	}
}

func TestTasksTellWhenTheyWereStored(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	b := connect(t, natsbus.Options{Server: server})
	require.NoError(t, b.EmitTasks(patient(t), tasks(event.Bulk, 0, 0, 3)))
	held := take(t, b, event.Bulk, 0)
	waiting, err := held.Waiting(patient(t), 10)
	require.NoError(t, err)
	require.Len(t, waiting, 2)
	stream, err := admin(t, server).Stream(t.Context(), natsbus.FanoutStream)
	require.NoError(t, err)
	for _, d := range append(waiting, held.First()) {
		stored, err := stream.GetMsg(t.Context(), d.Sequence)
		require.NoError(t, err)
		require.Equal(t, stored.Time.UTC(), d.Stored)
	}
}

// Extend tells the server, on the subject of the held task, that the task is still worked on (AckProgress). What the server then
// does with the lease takes time to see, and is the server's own business.
func TestExtendKeepsTheLease(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	b := connect(t, natsbus.Options{Server: server, Lease: time.Hour})
	nc, err := nats.Connect(server.ClientURL(), nats.Timeout(patience))
	require.NoError(t, err)
	defer nc.Close()
	acknowledged := make(chan *nats.Msg, 10)
	_, err = nc.ChanSubscribe("$JS.ACK.>", acknowledged)
	require.NoError(t, err)
	require.NoError(t, nc.Flush())

	require.NoError(t, b.EmitTasks(patient(t), tasks(event.Bulk, 1, 0, 1)))
	held := take(t, b, event.Bulk, 1)
	require.NoError(t, held.Extend())
	extended := receive(t, acknowledged)
	require.Equal(t, "+WPI", string(extended.Data))
	require.NoError(t, held.Done(patient(t)))
	done := receive(t, acknowledged)
	require.Equal(t, "+ACK", string(done.Data))
	require.Equal(t, extended.Subject, done.Subject)
	require.Contains(t, done.Subject, ".FANMAIL_FANOUT.bulk-1.")
}
