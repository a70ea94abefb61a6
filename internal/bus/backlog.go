package bus

import (
	"time"

	"github.com/fanmail/fanmail/pkg/event"
)

// Backlog is everything on the bus at one moment, from all processes. It includes work that a process has taken and not
// finished.
type Backlog struct {
	Tasks       map[event.Lane]Queue
	Published   Queue
	Logins      Queue
	DeadLetters Queue
	// Streams holds the sizes of the streams by their names.
	Streams map[string]Fill
}

// Queue is the events of one kind.
type Queue struct {
	Messages uint64
	// Oldest is when the bus stored the oldest event, by the bus's clock; the zero time if there is none.
	Oldest time.Time
}

// Age returns for how long the oldest event has been in the queue; 0 if there is none.
func (q Queue) Age(now time.Time) time.Duration {
	if q.Oldest.IsZero() {
		return 0
	}
	return max(0, now.Sub(q.Oldest))
}

// Letters counts the dead letters by stage: published, login, damaged, unknown or a lane. Last is the highest id ever given to one.
type Letters struct {
	ByStage map[string]uint64
	Last    uint64
}

// Fill is the size of a stream in bytes. A Limit of 0 means that the stream refuses nothing because of its size.
type Fill struct {
	Bytes, Limit uint64
}
