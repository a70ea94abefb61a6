package natsbus_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
)

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	bus := connect(t, natsbus.Options{Server: server, Partitions: 4})
	began := time.Now()
	for n := range 5 {
		require.NoError(t, bus.DeadLetter(patient(t), event.DeadLetter{
			Version: event.Version, Reason: "malformed", Error: "no", Attempts: n, Subject: "fanmail.v1.fanout.bulk." + strconv.Itoa(n), Payload: []byte{0xff},
		}))
	}
	all, err := bus.DeadLetters(patient(t), 0, 10)
	require.NoError(t, err)
	require.Len(t, all, 5)
	for n, letter := range all {
		require.Equal(t, uint64(n+1), letter.ID)
		require.Equal(t, n, letter.Attempts)
		require.Equal(t, []byte{0xff}, letter.Payload)
		require.WithinDuration(t, began, letter.At, time.Minute)
		require.Equal(t, n < 4, bus.Consumed(letter.Subject))
	}
	require.NoError(t, bus.Drop(patient(t), 2))
	require.NoError(t, bus.Drop(patient(t), 2), "one that is not there is as good as dropped")
	page, err := bus.DeadLetters(patient(t), 1, 2)
	require.NoError(t, err)
	require.Equal(t, all[2:4], page)
	page, err = bus.DeadLetters(patient(t), 5, 2)
	require.NoError(t, err)
	require.Empty(t, page)

	// What cannot be read is shown, too, as it is.
	_, err = admin(t, server).Publish(t.Context(), "fanmail.v1.dlq.bulk", []byte("{"))
	require.NoError(t, err)
	page, err = bus.DeadLetters(patient(t), 5, 2)
	require.NoError(t, err)
	require.Equal(t, "unreadable", page[0].Reason)
	require.Equal(t, []byte("{"), page[0].Payload)
	require.False(t, bus.Consumed(page[0].Subject))
}

func TestEmitAgain(t *testing.T) {
	t.Parallel()
	bus := newBus(t, natsbus.Options{Partitions: 4})
	first := tasks(event.Bulk, 1, 0, 1)
	require.NoError(t, bus.EmitTasks(patient(t), first))
	held := take(t, bus, event.Bulk, 1)
	require.NoError(t, bus.Emit(patient(t), event.DeadLetter{Subject: held.First().Subject, Payload: held.First().Payload}))
	waiting, err := held.Waiting(patient(t), 10)
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	require.Equal(t, held.First().Payload, waiting[0].Payload)
}
