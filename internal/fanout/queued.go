package fanout

import (
	"context"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// queueRead is how many events or tasks of a queue are read, the oldest first.
const queueRead = 1000

// queue names the tasks of a lane and partition, or the published events: those of the lane direct.
type queue struct {
	lane      event.Lane
	partition int
}

// queued is the beginning of a queue.
type queued struct {
	messages map[message.ID]bool
	// upTo is when the bus stored the last event that was read; zero if the queue has no others.
	upTo time.Time
}

// mayHold reports whether a queue may have an event or a task of a message that was emitted at the given time. It reads a queue once, and knows
// only its beginning. What came before the end of that and is not in it is not on the bus, however old other events are.
func (r *resumption) mayHold(ctx context.Context, q queue, id message.ID, emitted time.Time) (bool, error) {
	found, known := r.queues[q]
	if !known {
		var err error
		if found, err = r.read(ctx, q); err != nil {
			return false, err
		}
		r.queues[q] = found
	}
	return found.messages[id] || !found.upTo.IsZero() && !emitted.Add(r.opts.Rules().PublishSlack).Before(found.upTo), nil
}

func (r *resumption) read(ctx context.Context, q queue) (found queued, err error) {
	var oldest []event.Delivery
	if q.lane == event.Direct {
		oldest, err = r.bus.OldestPublished(ctx, queueRead)
	} else {
		oldest, err = r.bus.OldestTasks(ctx, q.lane, q.partition, queueRead)
	}
	if err != nil {
		return found, fmt.Errorf("read the queue %s %d: %w", q.lane, q.partition, err)
	}
	found.messages = make(map[message.ID]bool, len(oldest))
	for _, one := range oldest {
		if e, err := event.DecodePublished(one.Payload); err == nil { // a task has the same fields and more
			found.messages[e.ID] = true
		}
	}
	if len(oldest) == queueRead {
		found.upTo = oldest[queueRead-1].Stored
	}
	return found, nil
}
