package fanout

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// maxHeld is how many messages a router holds at most.
	maxHeld = 1024
	// roundRecipients is how many recipients the direct messages of a round have together. One message may have more.
	roundRecipients = 1000
	// roundWide is how many messages with an audience one round takes, because their recipients are counted only then.
	roundWide = 64
)

// mailing is a message that a router holds, from its event to its acknowledgement.
type mailing struct {
	events  []bus.Received // at least one; repeated events of a message are handled together
	message message.Message
	void    bool
	taken   time.Time
	span    tracing.Work // from the beginning of its round on
	trace   event.Trace  // of the span or, if that is not recorded, of the event

	audience audience
	job      *job // of the last try to deliver the message directly
}

// mailQueue holds the messages of a router that wait for a round, and those that are in one. Messages that only name their recipients come first, so
// that a direct message stands behind no message with a thousand followers.
type mailQueue struct {
	mu          sync.Mutex
	changed     *sync.Cond
	named, wide []*mailing
	held        map[*mailing]struct{}
	waiting     map[message.ID]*mailing // those of no round yet
	memory, max int                     // of the messages, in bytes
	closed      bool
}

func newMailQueue(maxMemory int) *mailQueue {
	q := &mailQueue{held: make(map[*mailing]struct{}), waiting: make(map[message.ID]*mailing), max: maxMemory}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// room waits until the queue has room, and returns for how many messages. It returns 0 when ctx ends.
func (q *mailQueue) room(ctx context.Context) int {
	defer context.AfterFunc(ctx, q.changed.Broadcast)()
	q.mu.Lock()
	defer q.mu.Unlock()
	for ctx.Err() == nil && (len(q.held) >= maxHeld || q.memory >= q.max) {
		q.changed.Wait()
	}
	if ctx.Err() != nil {
		return 0
	}
	return maxHeld - len(q.held)
}

// add adds messages to the end of the queue. A further event of a message that waits goes to that one, so a round has each message once.
func (q *mailQueue) add(mailings []*mailing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range mailings {
		if same := q.waiting[l.message.ID]; same != nil {
			same.events = append(same.events, l.events...)
			continue
		}
		q.held[l], q.waiting[l.message.ID] = struct{}{}, l
		q.memory += l.message.Memory()
		if l.message.Broadcast() {
			q.wide = append(q.wide, l)
		} else {
			q.named = append(q.named, l)
		}
	}
	q.changed.Broadcast()
}

// next waits for messages, and returns those of the next round. It returns none when the queue is closed and empty. With onlyNamed it leaves
// messages with an audience to others.
func (q *mailQueue) next(onlyNamed bool) []*mailing {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		switch {
		case len(q.named) > 0:
			return q.cut(&q.named)
		case len(q.wide) > 0 && !onlyNamed:
			return q.cut(&q.wide)
		case q.closed:
			return nil
		}
		q.changed.Wait()
	}
}

// cut takes the messages of a round from the beginning of a list.
func (q *mailQueue) cut(waiting *[]*mailing) []*mailing {
	n, sum := 0, 0
	for _, l := range *waiting {
		if sum += len(l.message.To); n > 0 && (sum > roundRecipients || n == roundWide && l.message.Broadcast()) {
			break
		}
		n++
	}
	round := slices.Clone((*waiting)[:n])
	*waiting = slices.Delete(*waiting, 0, n)
	for _, l := range round {
		delete(q.waiting, l.message.ID)
	}
	return round
}

// done forgets messages whose round has ended.
func (q *mailQueue) done(mailings []*mailing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range mailings {
		delete(q.held, l)
		q.memory -= l.message.Memory()
	}
	q.changed.Broadcast()
}

// close lets next return when the queue is empty.
func (q *mailQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

// all returns the events of the messages that were taken after a time and are held.
func (q *mailQueue) all(after time.Time) (events []bus.Received) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for l := range q.held {
		if l.taken.After(after) {
			events = append(events, l.events...)
		}
	}
	return events
}
