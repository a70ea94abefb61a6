package natsbus_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

func fetch(t *testing.T, b *natsbus.Bus, limit int) []bus.Received {
	t.Helper()
	received, err := b.FetchPublished(patient(t), limit)
	require.NoError(t, err)
	return received
}

func publishedIDs(t *testing.T, received []bus.Received) []message.ID {
	t.Helper()
	var all []message.ID
	for _, r := range received {
		e, err := event.DecodePublished(r.Delivery().Payload)
		require.NoError(t, err)
		require.Equal(t, "fanmail.v1.published", r.Delivery().Subject)
		all = append(all, e.ID)
	}
	return all
}

func publish(t *testing.T, b *natsbus.Bus, from, to int) {
	t.Helper()
	var events []event.Published
	for n := from; n < to; n++ {
		events = append(events, published(n))
	}
	require.NoError(t, b.EmitPublished(patient(t), events, false))
}

func TestRoutersShareWhatIsPublished(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{})
	one := connect(t, natsbus.Options{Server: server})
	two := connect(t, natsbus.Options{Server: server})
	publish(t, one, 0, 10)
	var all []message.ID
	for len(all) < 10 {
		all = append(all, publishedIDs(t, fetch(t, one, 3))...)
		if len(all) < 10 {
			all = append(all, publishedIDs(t, fetch(t, two, 3))...)
		}
	}
	require.Equal(t, messages(0, 10), all)
}

// An event whose lease has ended is handed out again.
func TestPublishedComesAgain(t *testing.T) {
	t.Parallel()
	b := newBus(t, natsbus.Options{Lease: 200 * time.Millisecond})
	publish(t, b, 0, 1)
	require.Equal(t, messages(0, 1), publishedIDs(t, fetch(t, b, 1)))
	again := fetch(t, b, 1)
	require.Equal(t, messages(0, 1), publishedIDs(t, again))
	require.GreaterOrEqual(t, again[0].Delivery().Attempts, 2)
}

// The server does not hand out an event before the time given to Release. Meanwhile it hands out other events.
func TestPublishedIsReleasedForAWhile(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	b := connect(t, natsbus.Options{Server: server, Lease: time.Hour})
	publish(t, b, 0, 2)
	require.NoError(t, fetch(t, b, 1)[0].Release(time.Hour))
	next := fetch(t, b, 10)
	require.Equal(t, messages(1, 2), publishedIDs(t, next))
	require.NoError(t, next[0].Ack())
	router, err := admin(t, server).Consumer(t.Context(), natsbus.PublishedStream, "router")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		info, err := router.Info(t.Context())
		require.NoError(t, err)
		return info.NumPending == 0 && info.NumAckPending == 1 && info.NumRedelivered == 0
	}, patience, 10*time.Millisecond, "the server keeps one event, and has not handed it out again")
}
