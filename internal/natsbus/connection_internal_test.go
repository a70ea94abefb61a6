package natsbus

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
)

// A connection is lost when the ping after the last one that may stay unanswered is due.
func TestADeadConnectionIsNoticedSoon(t *testing.T) {
	t.Parallel()
	server, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir(), StartTimeout: time.Minute})
	require.NoError(t, err)
	defer server.Stop()
	b, err := Connect(t.Context(), Options{
		Server: server, Partitions: 1, Lease: time.Minute, Replicas: 1, PublishedBytes: 1 << 20, FanoutBytes: 1 << 20, LoginBytes: 1 << 20, DeadLetterBytes: 1 << 20,
		RequestTimeout: time.Minute,
	})
	require.NoError(t, err)
	defer b.Close()
	require.LessOrEqual(t, b.nc.Opts.PingInterval*time.Duration(b.nc.Opts.MaxPingsOut+1), 15*time.Second)
}

// An event that waits for room gives up if the server does not answer to those before it.
func TestEmitWithoutRoom(t *testing.T) {
	t.Parallel()
	b := &Bus{opts: Options{RequestTimeout: time.Nanosecond, Partitions: 1}, unacknowledged: semaphore.NewWeighted(maxUnacknowledged)}
	require.NoError(t, b.unacknowledged.Acquire(t.Context(), maxUnacknowledged))
	emit := func(ctx context.Context) error {
		return b.EmitTasks(ctx, []event.Task{{Version: event.Version, Lane: event.Bulk}})
	}
	err := emit(t.Context())
	require.ErrorIs(t, err, bus.ErrUnavailable)
	require.ErrorIs(t, err, errNoRoom)
	ended, end := context.WithCancel(t.Context())
	end()
	require.Equal(t, context.Canceled, emit(ended))
	b.unacknowledged.Release(1)
	require.True(t, b.unacknowledged.TryAcquire(1), "what gave up has left no weight behind")
}
