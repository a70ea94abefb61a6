package natsbus_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// leastPayload is the least max_payload that a bus accepts.
const leastPayload = 8 << 10

func newNarrowBus(t *testing.T) *natsbus.Bus {
	t.Helper()
	return connect(t, natsbus.Options{Server: start(t, natsserver.Options{MaxPayload: leastPayload})})
}

// express returns an express task with n recipients of 100 bytes each.
func express(n int) event.Task {
	task := tasks(event.Express, 0, 1, 2)[0]
	for i := range n {
		task.Recipients = append(task.Recipients, message.UserID(fmt.Sprintf("%s-%03d", strings.Repeat("u", 96), i)))
	}
	return task
}

func TestTaskThatIsTooLargeGoesToTheMediumLane(t *testing.T) {
	t.Parallel()
	b := newNarrowBus(t)
	small, large := express(10), express(100)
	require.NoError(t, b.EmitTasks(patient(t), []event.Task{large, small}))
	for _, want := range []event.Task{small, large.Scanning()} {
		got, err := event.DecodeTask(take(t, b, want.Lane, 0).First().Payload)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestLetterThatIsTooLargeIsCut(t *testing.T) {
	t.Parallel()
	task, err := express(70).Encode()
	require.NoError(t, err)
	scanning, err := express(70).Scanning().Encode()
	require.NoError(t, err)
	for name, test := range map[string]struct{ payload, want []byte }{
		"a task that fits, while its letter does not": {task, scanning},
		"nonsense": {bytes.Repeat([]byte{0xff}, 8000), bytes.Repeat([]byte{0xff}, 1<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newNarrowBus(t)
			letter := event.DeadLetter{
				Version: event.Version, Reason: "corrupt", Error: strings.Repeat("\u00e9<", 5000), Attempts: 2, Subject: "fanmail.v1.fanout.express.0",
				Payload: test.payload, Trace: event.Trace{Parent: "parent", State: strings.Repeat("s", leastPayload)},
			}
			require.NoError(t, b.DeadLetter(patient(t), letter))
			filed, err := b.DeadLetters(patient(t), 0, 10)
			require.NoError(t, err)
			require.Len(t, filed, 1)
			got := filed[0].DeadLetter
			require.Equal(t, test.want, got.Payload)
			require.Equal(t, len(test.payload), got.Cut)
			require.NotEmpty(t, got.Error)
			require.Contains(t, letter.Error, got.Error)
			require.Equal(t, []any{letter.Reason, letter.Attempts, letter.Subject}, []any{got.Reason, got.Attempts, got.Subject})
		})
	}
}

func TestServerWithTooSmallAMaxPayload(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{MaxPayload: leastPayload - 1})
	_, err := natsbus.Connect(patient(t), natsbus.Options{Server: server, Partitions: 2, RequestTimeout: patience})
	require.ErrorIs(t, err, natsbus.ErrIncompatible)
	require.ErrorContains(t, err, "max_payload is 8191 bytes")
}
