package natsbus_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
)

// A dead letter that cannot be decoded is listed with its payload.
func TestUnreadableDeadLetter(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	b := connect(t, natsbus.Options{Server: server})
	_, err := admin(t, server).Publish(t.Context(), "fanmail.v1.dlq.bulk", []byte("{"))
	require.NoError(t, err)
	page, err := b.DeadLetters(patient(t), 0, 2)
	require.NoError(t, err)
	require.Equal(t, "unreadable", page[0].Reason)
	require.Equal(t, []byte("{"), page[0].Payload)
	require.False(t, b.Consumed(page[0].Subject))
	require.NoError(t, b.Drop(patient(t), page[0].ID))
	page, err = b.DeadLetters(patient(t), 0, 2)
	require.NoError(t, err)
	require.Empty(t, page)
}
