package fanout

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Stores are the stores that fan-out reads and writes.
type Stores struct {
	Messages message.Store
	Progress progress.Store
	Users    userstate.Store
	Edges    follow.Store
	Appender *bucket.Appender
}

// Bus is what fan-out sends to. Every method returns an error unless the bus has confirmed everything.
type Bus interface {
	// EmitPublished emits events. Unless fresh is set, one for the same message that was emitted shortly before is
	// confirmed and not repeated.
	EmitPublished(ctx context.Context, events []event.Published, fresh bool) error
	// EmitTasks appends tasks to the queues of their lanes and partitions.
	EmitTasks(ctx context.Context, tasks []event.Task) error
	// DeadLetter puts a piece of work among the dead letters.
	DeadLetter(ctx context.Context, letter event.DeadLetter) error
}

// Received is an event that the bus hands out again unless it is acknowledged in time.
type Received interface {
	Delivery() event.Delivery
	Ack() error
	// Release hands it back, for somebody else to take after a while. One that was acknowledged stays so.
	Release(after time.Duration) error
}

// Held is a task that is held, and with it the lane's partition: nobody else is given a task of that lane and
// partition before it is done, released, or not extended in time.
type Held interface {
	// First returns the held task.
	First() event.Delivery
	// Waiting returns other tasks that wait in the same lane and partition, in the order in which they were
	// emitted, at most limit.
	Waiting(ctx context.Context, limit int) ([]event.Delivery, error)
	// Extend tells the bus that the task is still being worked on.
	Extend() error
	// Remove removes waiting tasks from the queue. Those that are gone already are passed over.
	Remove(ctx context.Context, tasks []event.Delivery) error
	// Done removes the held task, which ends the hold.
	Done(ctx context.Context) error
	// Release hands the held task back, for somebody else to take at once.
	Release(ctx context.Context) error
}

// Options configures fan-out.
type Options struct {
	// Partitions is the store's partition count.
	Partitions int
	Policy     userstate.Policy
	// Slack is how long after it was sent a message may become visible.
	Slack time.Duration

	// ExpressMax is the greatest audience of the express lane, MediumMax that of the medium lane.
	ExpressMax int
	MediumMax  int
	// ClassCache is for how many authors the lane is remembered, ClassTTL for how long.
	ClassCache int
	ClassTTL   time.Duration

	// Workers is how many batches of a lane this process works on at a time.
	Workers map[event.Lane]int
	// BatchOwners bounds the recipients that a batch appends to, and thereby its memory and its duration. Recipients that it only
	// passes, for they are dormant, count for less.
	BatchOwners int
	// BatchTasks bounds the tasks of a batch, BatchBytes the bodies of their messages together.
	BatchTasks int
	BatchBytes int
	// RouteEvents bounds the events that are routed together.
	RouteEvents int
	// ExtendEvery is how often a held task is extended: well below the time after which the bus hands it to
	// somebody else.
	ExtendEvery time.Duration
	// MaxAttempts is how often a task may be handed out. One that was handed out more often has brought down, or
	// stalled, whoever worked on it, and becomes a dead letter.
	MaxAttempts int

	// SweepAfter is how long a message may be unfinished without moving before it is routed again, SweepEvery how
	// often that is looked for.
	SweepAfter time.Duration
	SweepEvery time.Duration
	// Waiting tells since when the oldest published event and the oldest task have been on the bus; the zero time where
	// there is none. The sweep leaves alone what may still be behind those: where work has piled up, it would add to
	// the pile. If it is nil, the sweep does not ask.
	Waiting func(ctx context.Context) (events, tasks time.Time, err error)

	Now    func() time.Time
	Logger zerolog.Logger
	Tracer tracing.Tracer
}
