package natsbus_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
)

// leastPayload is the least max_payload that a bus accepts.
const leastPayload = 8 << 10

func newNarrowBus(t *testing.T) *natsbus.Bus {
	t.Helper()
	return connect(t, natsbus.Options{Server: start(t, natsserver.Options{MaxPayload: leastPayload})})
}

func TestLetterThatIsTooLargeIsCut(t *testing.T) {
	t.Parallel()
	task, err := tasks(event.Medium, 0, 1, 2)[0].Encode()
	require.NoError(t, err)
	padded := bytes.Replace(task, []byte("{"), []byte("{"+strings.Repeat(" ", 7000)), 1)
	for name, test := range map[string]struct{ payload, want []byte }{
		"a task that fits, while its letter does not": {padded, task},
		"nonsense": {bytes.Repeat([]byte{0xff}, 8000), bytes.Repeat([]byte{0xff}, 1<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newNarrowBus(t)
			letter := event.DeadLetter{
				Version: event.Version, Reason: "corrupt", Error: strings.Repeat("\u00e9<", 5000), Attempts: 2, Subject: "fanmail.v1.fanout.medium.0",
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
	_, err := natsbus.Connect(patient(t), filled(natsbus.Options{Server: server, Partitions: 2, RequestTimeout: patience}))
	require.ErrorIs(t, err, natsbus.ErrIncompatible)
	require.ErrorContains(t, err, "max_payload is 8191 bytes")
}
