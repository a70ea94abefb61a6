package natsbus_test

import (
	"context"
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

func TestFetchPublishedInOrder(t *testing.T) {
	t.Parallel()
	b := newBus(t, natsbus.Options{})
	publish(t, b, 0, 25)
	var all []message.ID
	for _, limit := range []int{1, 10, 1000} {
		received := fetch(t, b, limit)
		require.LessOrEqual(t, len(received), limit)
		all = append(all, publishedIDs(t, received)...)
		for _, r := range received {
			require.Equal(t, 1, r.Delivery().Attempts)
			require.NoError(t, r.Ack())
		}
	}
	for len(all) < 25 {
		all = append(all, publishedIDs(t, fetch(t, b, 1000))...)
	}
	require.Equal(t, messages(0, 25), all)
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

func TestPublishedComesAgain(t *testing.T) {
	t.Parallel()
	t.Run("when it is released", func(t *testing.T) {
		t.Parallel()
		b := newBus(t, natsbus.Options{Lease: time.Hour})
		publish(t, b, 0, 1)
		require.NoError(t, fetch(t, b, 10)[0].Release(0))
		again := fetch(t, b, 10)
		require.Equal(t, messages(0, 1), publishedIDs(t, again))
		require.Equal(t, 2, again[0].Delivery().Attempts)
	})
	t.Run("behind others when it is released for a while", func(t *testing.T) {
		t.Parallel()
		b := newBus(t, natsbus.Options{Lease: time.Hour})
		publish(t, b, 0, 2)
		require.NoError(t, fetch(t, b, 1)[0].Release(5*time.Second))
		require.Equal(t, messages(1, 2), publishedIDs(t, fetch(t, b, 10)))
		again := fetch(t, b, 10)
		require.Equal(t, messages(0, 1), publishedIDs(t, again))
		require.Equal(t, 2, again[0].Delivery().Attempts)
	})
	t.Run("when its lease has run out", func(t *testing.T) {
		t.Parallel()
		b := newBus(t, natsbus.Options{Lease: time.Second})
		publish(t, b, 0, 2)
		require.NoError(t, fetch(t, b, 1)[0].Ack())
		require.Equal(t, messages(1, 2), publishedIDs(t, fetch(t, b, 1)))
		again := fetch(t, b, 1)
		require.Equal(t, messages(1, 2), publishedIDs(t, again))
		require.Equal(t, 2, again[0].Delivery().Attempts)
	})
}

func TestFetchPublishedEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newBus(t, natsbus.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := b.FetchPublished(ctx, 10)
		failed <- err
	}()
	cancel()
	require.Equal(t, context.Canceled, receive(t, failed))
}
