package fanout

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/message"
)

// Two events of a message that come one after the other are one message of a round. An event that comes while the message is in a round is for the next
// one.
func TestQueueHasEachMessageOnce(t *testing.T) {
	t.Parallel()
	q := newMailQueue(1 << 20)
	mail := func() *mailing {
		return &mailing{events: []bus.Received{nil}, message: message.Message{ID: message.ID{1}, To: []message.UserID{"ann"}}}
	}
	q.add([]*mailing{mail()})
	q.add([]*mailing{mail()})
	first := q.next(false)
	require.Len(t, first, 1)
	require.Len(t, first[0].events, 2)
	q.add([]*mailing{mail()})
	require.Len(t, q.next(false), 1)
	q.done(first)
	require.Equal(t, maxHeld-1, q.room(t.Context()))
}
