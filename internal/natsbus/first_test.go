package natsbus_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// A full stream of head starts drops the oldest one for a new one. Nothing waits for room.
func TestHeadStartsDropTheOldest(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	b := connect(t, natsbus.Options{Server: server})
	stream, err := admin(t, server).Stream(t.Context(), natsbus.FirstStream)
	require.NoError(t, err)
	config := stream.CachedInfo().Config
	require.Equal(t, jetstream.DiscardOld, config.Discard)
	require.Equal(t, time.Minute, config.MaxAge)
	require.LessOrEqual(t, config.MaxBytes, int64(64<<20))
	config.MaxMsgs = 2
	_, err = admin(t, server).UpdateStream(t.Context(), config)
	require.NoError(t, err)
	require.NoError(t, b.EmitHeadStarts(patient(t), []event.HeadStart{headStart(0), headStart(1), headStart(2)}))
	for _, n := range []int{1, 2} {
		received, err := b.FetchHeadStarts(patient(t), 1)
		require.NoError(t, err)
		got, err := event.DecodeHeadStart(received[0].Delivery().Payload)
		require.NoError(t, err)
		require.Equal(t, headStart(n), got)
	}
	backlog, err := b.Backlog(patient(t))
	require.NoError(t, err)
	require.Zero(t, backlog.Streams[natsbus.FirstStream].Limit)
	require.Positive(t, backlog.Streams[natsbus.FirstStream].Bytes)
}

// A deleted stream of head starts is declared again, and tasks are not affected.
func TestHeadStartsAfterTheirStreamWasDeleted(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	b := connect(t, natsbus.Options{Server: server})
	require.NoError(t, admin(t, server).DeleteStream(t.Context(), natsbus.FirstStream))
	backlog, err := b.Backlog(patient(t))
	require.NoError(t, err)
	require.NotContains(t, backlog.Streams, natsbus.FirstStream)
	fetched := make(chan error, 1)
	go func() {
		_, err := b.FetchHeadStarts(patient(t), 1)
		fetched <- err
	}()
	require.Eventually(t, func() bool {
		return b.EmitHeadStarts(patient(t), []event.HeadStart{headStart(0)}) == nil
	}, patience, 10*time.Millisecond)
	require.NoError(t, <-fetched)
}

func TestEmitHeadStartsNowhere(t *testing.T) {
	t.Parallel()
	b := newBus(t, natsbus.Options{})
	nowhere := headStart(0)
	nowhere.Partition = 2
	require.ErrorContains(t, b.EmitHeadStarts(patient(t), []event.HeadStart{nowhere}), "there is no partition")
}

// A head start that exceeds max_payload is several events, which name all recipients.
func TestHeadStartThatExceedsMaxPayload(t *testing.T) {
	t.Parallel()
	b := newNarrowBus(t)
	start := headStart(0)
	start.Recipients = nil
	for i := range 500 {
		start.Recipients = append(start.Recipients, message.UserID(fmt.Sprintf("recipient-%s-%03d", strings.Repeat("x", 60), i)))
	}
	require.NoError(t, b.EmitHeadStarts(patient(t), []event.HeadStart{start}))
	var got []message.UserID
	for len(got) < len(start.Recipients) {
		received, err := b.FetchHeadStarts(patient(t), 100)
		require.NoError(t, err)
		for _, r := range received {
			part, err := event.DecodeHeadStart(r.Delivery().Payload)
			require.NoError(t, err)
			got = append(got, part.Recipients...)
		}
	}
	require.Equal(t, start.Recipients, got)
}
