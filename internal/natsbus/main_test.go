package natsbus_test

import (
	"cmp"
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience bounds the waits of a test. It passes only if the code is broken.
const patience = time.Minute

func patient(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	return ctx
}

func logger(tb testing.TB) zerolog.Logger {
	tb.Helper()
	return zerolog.New(zerolog.NewTestWriter(tb)).Level(zerolog.InfoLevel)
}

func start(tb testing.TB, opts natsserver.Options) *natsserver.Server {
	tb.Helper()
	if opts.Dir == "" {
		opts.Dir = tb.TempDir()
	}
	opts.StartTimeout = patience
	server, err := natsserver.Start(tb.Context(), opts)
	require.NoError(tb, err)
	tb.Cleanup(server.Stop)
	return server
}

// filled returns options with values for the required ones that are missing.
func filled(opts natsbus.Options) natsbus.Options {
	opts.Partitions = cmp.Or(opts.Partitions, 16)
	opts.Lease = cmp.Or(opts.Lease, 30*time.Second)
	opts.Replicas = cmp.Or(opts.Replicas, 1)
	for bytes, size := range map[*int64]int64{
		&opts.PublishedBytes: 256 << 20, &opts.FanoutBytes: 1 << 30, &opts.LoginBytes: 256 << 20, &opts.DeadLetterBytes: 256 << 20,
	} {
		*bytes = cmp.Or(*bytes, size)
	}
	return opts
}

func connect(tb testing.TB, opts natsbus.Options) *natsbus.Bus {
	tb.Helper()
	opts.Partitions = cmp.Or(opts.Partitions, 2)
	opts.Logger = logger(tb)
	opts.RequestTimeout, opts.DrainTimeout = patience, patience
	b, err := natsbus.Connect(patient(tb), filled(opts))
	require.NoError(tb, err)
	tb.Cleanup(b.Close)
	return b
}

// newBus returns a bus on a server of its own.
func newBus(tb testing.TB, opts natsbus.Options) *natsbus.Bus {
	tb.Helper()
	opts.Server = start(tb, natsserver.Options{})
	return connect(tb, opts)
}

func id(n int) message.ID {
	id := message.MinID(time.UnixMilli(1_700_000_000_000 + int64(n)))
	id[6], id[8] = 0x70, 0x80
	return id
}

func published(n int) event.Published {
	return event.NewPublished(message.Ref{From: "author", ID: id(n)})
}

// tasks returns tasks of the messages from to to-1.
func tasks(lane event.Lane, partition, from, to int) []event.Task {
	var all []event.Task
	for n := from; n < to; n++ {
		all = append(all, event.Task{Version: event.Version, ID: id(n), From: "author", Lane: lane, Partition: partition})
	}
	return all
}

// messages returns the ids of the messages from to to-1.
func messages(from, to int) []message.ID {
	var all []message.ID
	for n := from; n < to; n++ {
		all = append(all, id(n))
	}
	return all
}

// ids returns the ids of the messages in deliveries.
func ids(tb testing.TB, deliveries []event.Delivery) []message.ID {
	tb.Helper()
	var all []message.ID
	for _, d := range deliveries {
		task, err := event.DecodeTask(d.Payload)
		require.NoError(tb, err)
		require.Equal(tb, "fanmail.v1.fanout."+string(task.Lane)+"."+strconv.Itoa(task.Partition), d.Subject)
		all = append(all, task.ID)
	}
	return all
}

func take(tb testing.TB, b *natsbus.Bus, lane event.Lane, partition int) bus.Held {
	tb.Helper()
	held, err := b.Take(patient(tb), lane, partition)
	require.NoError(tb, err)
	return held
}

type taken struct {
	held bus.Held
	err  error
}

// takeBehind calls Take in the background.
func takeBehind(ctx context.Context, b *natsbus.Bus, lane event.Lane, partition int) <-chan taken {
	got := make(chan taken, 1)
	go func() {
		held, err := b.Take(ctx, lane, partition)
		got <- taken{held, err}
	}()
	return got
}

func receive[T any](tb testing.TB, from <-chan T) T {
	tb.Helper()
	select {
	case got := <-from:
		return got
	case <-patient(tb).Done():
		require.FailNow(tb, "no event arrived")
		panic("unreachable")
	}
}
