package fanout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
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

// announced is a bus.Received of a message that takes so much memory.
type announced struct {
	bus.Received
	memory int
}

func (a announced) Delivery() event.Delivery {
	id := message.MinID(time.UnixMilli(1))
	id[6], id[8] = 0x70, 0x80
	published := event.NewPublished(message.Ref{From: "ann", ID: id})
	published.Memory = a.memory
	payload, _ := published.Encode()
	return event.Delivery{Payload: payload}
}

// Messages are read together as far as they fit into the memory. One whose event does not say how much it takes may take the most.
func TestEventsThatFit(t *testing.T) {
	t.Parallel()
	r := &Router{opts: Options{BatchBytes: 3 * message.MaxMemory}}
	for _, test := range []struct {
		memory []int
		fit    int
	}{
		{[]int{1, 1, 1, 1, 1}, 5},
		{[]int{0, 0, 0, 0}, 3},
		{[]int{1, 0, 0, 0, 1}, 3},
		{[]int{4 * message.MaxMemory, 1}, 1},
		{[]int{1, 4 * message.MaxMemory}, 1},
	} {
		var received []bus.Received
		for _, memory := range test.memory {
			received = append(received, announced{memory: memory})
		}
		require.Equal(t, test.fit, r.fitting(received), test.memory)
	}
}
