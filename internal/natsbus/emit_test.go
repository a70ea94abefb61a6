package natsbus_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
)

func TestEmitPublishedRepeats(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fresh bool
		want  uint64
	}{
		"the same event again is suppressed": {false, 3},
		"a fresh event is not":               {true, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
			b := connect(t, natsbus.Options{Server: server})
			events := []event.Published{published(0), published(1), published(2)}
			require.NoError(t, b.EmitPublished(patient(t), events, false))
			require.NoError(t, b.EmitPublished(patient(t), events, test.fresh))
			stream, err := admin(t, server).Stream(t.Context(), natsbus.PublishedStream)
			require.NoError(t, err)
			require.Equal(t, test.want, stream.CachedInfo().State.Msgs)
		})
	}
}

func TestEmitManyAtOnce(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	b := connect(t, natsbus.Options{Server: server})
	require.NoError(t, b.EmitTasks(patient(t), tasks(event.Bulk, 1, 0, 3000)))
	stream, err := admin(t, server).Stream(t.Context(), natsbus.FanoutStream)
	require.NoError(t, err)
	require.Equal(t, uint64(3000), stream.CachedInfo().State.Msgs)
}

func TestFullStreamRefusesAndDropsNothing(t *testing.T) {
	t.Parallel()
	b := newBus(t, natsbus.Options{FanoutBytes: 8 << 10})
	accepted := 0
	var err error
	for err == nil && accepted < 1000 {
		if err = b.EmitTasks(patient(t), tasks(event.Bulk, 0, accepted, accepted+1)); err == nil {
			accepted++
		}
	}
	require.ErrorIs(t, err, event.ErrFull)
	require.NotErrorIs(t, err, bus.ErrUnavailable)
	require.Positive(t, accepted)

	held := take(t, b, event.Bulk, 0)
	waiting, err := held.Waiting(patient(t), 1000)
	require.NoError(t, err)
	require.Equal(t, messages(0, accepted), ids(t, append([]event.Delivery{held.First()}, waiting...)))
	require.NoError(t, held.Done(patient(t)))
	require.NoError(t, b.EmitTasks(patient(t), tasks(event.Bulk, 0, accepted, accepted+1)))
}

func TestDeadLetterIsFiledBySubject(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	b := connect(t, natsbus.Options{Server: server})
	stream, err := admin(t, server).Stream(t.Context(), natsbus.DeadLetterStream)
	require.NoError(t, err)
	for from, to := range map[string]string{
		"fanmail.v1.published":       "fanmail.v1.dlq.published",
		"fanmail.v1.login":           "fanmail.v1.dlq.login",
		"fanmail.v1.fanout.medium.3": "fanmail.v1.dlq.medium",
		"fanmail.v1.fanout.bulk.0":   "fanmail.v1.dlq.bulk",
		"fanmail.v1.fanout.slow.0":   "fanmail.v1.dlq.unknown",
		"":                           "fanmail.v1.dlq.unknown",
	} {
		t.Run("from "+from, func(t *testing.T) {
			t.Parallel()
			letter := event.DeadLetter{
				Version: event.Version, Reason: "malformed", Error: "it is broken", Attempts: 2, Subject: from, Payload: []byte{0xff},
			}
			require.NoError(t, b.DeadLetter(patient(t), letter))
			msg, err := stream.GetLastMsgForSubject(t.Context(), to)
			require.NoError(t, err)
			var got event.DeadLetter
			require.NoError(t, json.Unmarshal(msg.Data, &got))
			if to != "fanmail.v1.dlq.unknown" { // two cases use this subject
				require.Equal(t, letter, got)
			}
		})
	}
}

func TestWithoutServerTheBusIsUnavailable(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{})
	b := connect(t, natsbus.Options{Server: server})
	require.NoError(t, b.EmitTasks(patient(t), tasks(event.Bulk, 0, 0, 2)))
	held := take(t, b, event.Bulk, 0)
	require.NoError(t, b.Healthy(patient(t)))
	server.Stop()
	require.Eventually(t, func() bool { return held.Extend() != nil }, patience, time.Millisecond, "the bus does not notice the lost connection")

	for name, call := range map[string]func(context.Context) error{
		"emit published": func(ctx context.Context) error {
			return b.EmitPublished(ctx, []event.Published{published(0)}, false)
		},
		"emit tasks":  func(ctx context.Context) error { return b.EmitTasks(ctx, tasks(event.Bulk, 0, 2, 3)) },
		"dead letter": func(ctx context.Context) error { return b.DeadLetter(ctx, event.DeadLetter{}) },
		"health":      b.Healthy,
		"clock": func(ctx context.Context) error {
			_, err := b.Clock(ctx)
			return err
		},
		"waiting": func(ctx context.Context) error {
			_, err := held.Waiting(ctx, 10)
			return err
		},
		"remove":  func(ctx context.Context) error { return held.Remove(ctx, []event.Delivery{held.First()}) },
		"extend":  func(context.Context) error { return held.Extend() },
		"done":    held.Done,
		"release": held.Release,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorIs(t, call(patient(t)), bus.ErrUnavailable)
		})
	}
	t.Run("ended context", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Equal(t, context.Canceled, held.Done(ctx))
	})
}
