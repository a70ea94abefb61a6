package natsbus_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/pkg/event"
)

func TestWaitingSince(t *testing.T) {
	t.Parallel()
	bus := newBus(t, natsbus.Options{})
	events, queued, err := bus.Waiting(patient(t))
	require.NoError(t, err)
	require.Zero(t, events)
	require.Zero(t, queued)

	require.NoError(t, bus.EmitPublished(patient(t), []event.Published{published(0)}, false))
	require.NoError(t, bus.EmitTasks(patient(t), tasks(event.Bulk, 0, 0, 1)))
	events, first, err := bus.Waiting(patient(t))
	require.NoError(t, err)
	require.NotZero(t, events)
	require.True(t, events.Before(first), "the event came before the task")

	require.NoError(t, bus.EmitTasks(patient(t), tasks(event.Bulk, 1, 1, 2)))
	_, queued, err = bus.Waiting(patient(t))
	require.NoError(t, err)
	require.Equal(t, first, queued, "the oldest one counts")

	held := take(t, bus, event.Bulk, 0)
	_, queued, err = bus.Waiting(patient(t))
	require.NoError(t, err)
	require.Equal(t, first, queued, "what is held is not done")
	require.NoError(t, held.Done(patient(t)))
	_, queued, err = bus.Waiting(patient(t))
	require.NoError(t, err)
	require.True(t, first.Before(queued), "the other task is the oldest now")
}
