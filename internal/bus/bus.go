// Package bus is the contract between the stages and the message bus that carries their events.
//
// internal/natsbus implements it, and internal/bus/bustest checks an implementation. A stage takes the narrow interface
// that it needs; Bus is all of them. An event is delivered at least once: every consumer must handle repeats.
//
// Every method is safe for concurrent use. A method returns the error of its context unchanged when the context ends. Any
// other error wraps ErrUnavailable if the bus did not answer, and event.ErrFull if a stream has no room.
package bus

import (
	"context"
	"errors"
	"time"

	"github.com/fanmail/fanmail/pkg/event"
)

// ErrUnavailable reports that the bus cannot be reached or did not answer. The requested change may have happened.
var ErrUnavailable = errors.New("the bus is unavailable")

// Publisher emits events of published messages.
type Publisher interface {
	// EmitPublished emits events, and returns nil when every event is in the stream. After an error each event may or may
	// not be there. If fresh is false, the bus ignores an event for a message whose event it stored in the last two minutes.
	// Set fresh where that event may have been lost.
	EmitPublished(ctx context.Context, events []event.Published, fresh bool) error
}

// DeadLetterer files work that cannot succeed.
type DeadLetterer interface {
	// DeadLetter files a dead letter, and returns nil when it is in the stream. Acknowledge the work only after that. A
	// repeat files a second letter. Of a letter that is larger than the bus accepts, it files DeadLetter.Shorten.
	DeadLetter(ctx context.Context, letter event.DeadLetter) error
}

// Emitter emits everything that fan-out sends.
type Emitter interface {
	Publisher
	DeadLetterer
	// FileDamaged files a dead letter with the reason event.ReasonDamaged for a user, and reports whether it did. It returns nil when the
	// stream has a letter for that user that stands for the same time or a longer one. Then it files no second one, whichever processes call it,
	// until the letter is dropped. It replaces a letter that does not, by one that stands for both.
	FileDamaged(ctx context.Context, d event.Damaged, cause string) (filed bool, err error)
	// EmitTasks appends tasks to the queues of their lanes and partitions, and returns nil when every task is in its queue.
	// After an error each task may or may not be there. A repeat appends the task again. It refuses a task whose lane or
	// partition does not exist.
	EmitTasks(ctx context.Context, tasks []event.Task) error
}

// Intake hands out the work of fan-out.
type Intake interface {
	// FetchPublished waits until there are published events, and returns at least one and at most limit, in the order of
	// their sequences. Each event goes to one caller of all processes, until it is acknowledged, released, or its lease ends.
	// It waits while the bus is unavailable; it returns an error only when ctx has ended or the bus is closed.
	FetchPublished(ctx context.Context, limit int) ([]Received, error)
	// Take waits until it holds a task of a lane and partition. No other caller of any process gets a task of that lane and partition until
	// the held task is done, released, or its lease ends. It waits while the bus is unavailable. It returns an error only when ctx has
	// ended, the bus is closed, or the lane or partition does not exist.
	Take(ctx context.Context, lane event.Lane, partition int) (Held, error)
	// Poll is Take, but returns nil if no task comes within the given time, another caller holds the partition, or the bus is unavailable.
	// With 0 it returns as soon as the bus says that there is none now.
	Poll(ctx context.Context, lane event.Lane, partition int, wait time.Duration) (Held, error)
}

// Logins hands out login events.
type Logins interface {
	DeadLetterer
	// FetchLogins is FetchPublished for logins. The payload may be anything, because any client of the bus can publish a
	// login.
	FetchLogins(ctx context.Context, limit int) ([]Received, error)
}

// DeadLetterQueue keeps dead letters until they are redriven or dropped.
type DeadLetterQueue interface {
	Publisher
	// DeadLetters returns the dead letters whose ids are above after, in the order in which they were filed, at most limit.
	DeadLetters(ctx context.Context, after uint64, limit int) ([]event.Filed, error)
	// Drop removes a dead letter. It returns nil if the letter is gone already.
	Drop(ctx context.Context, id uint64) error
	// Consumed reports whether a stage takes work from a subject.
	Consumed(subject string) bool
	// Emit puts the work of a dead letter back on its subject as a new event, and returns nil when it is in the stream.
	Emit(ctx context.Context, letter event.DeadLetter) error
}

// Queues reads what is on the bus, and takes nothing.
type Queues interface {
	// OldestPublished returns the oldest published events, also those that a router has taken, at most limit.
	OldestPublished(ctx context.Context, limit int) ([]event.Delivery, error)
	// OldestTasks returns the oldest tasks of a lane and partition, also one that is held, at most limit. It refuses a lane or partition that does
	// not exist.
	OldestTasks(ctx context.Context, lane event.Lane, partition, limit int) ([]event.Delivery, error)
}

// Monitor reports the state of the bus.
type Monitor interface {
	Queues
	// Backlog returns the events on the bus. The answer may be a second old.
	Backlog(ctx context.Context) (Backlog, error)
	// Letters counts the dead letters by a single request, however many there are.
	Letters(ctx context.Context) (Letters, error)
	// Healthy returns nil if the bus answers.
	Healthy(ctx context.Context) error
}

// Bus is everything that the stages need.
type Bus interface {
	Emitter
	Intake
	Logins
	DeadLetterQueue
	Monitor
	// EmitRehydrated announces that a user is rehydrated. It does not block. The bus keeps no copy: only clients that listen
	// at the moment receive it. If it cannot be sent, the bus logs that.
	EmitRehydrated(e event.Rehydrated)
}

// Received is an event that one caller has until its lease ends. The bus then hands it out again.
type Received interface {
	// Delivery returns the event.
	Delivery() event.Delivery
	// Ack removes the event from the stream. It does not wait for the bus: if the acknowledgement is lost, the event is
	// handed out again.
	Ack() error
	// Extend starts the lease again. It does not wait for the bus.
	Extend() error
	// Release hands the event back. The bus hands it out again after the given time, to any caller. Release does not wait for
	// the bus, and does nothing to an event that was acknowledged.
	Release(after time.Duration) error
}

// Held is a task that one caller holds until its lease ends, and with it the lane and partition of the task. A caller that
// stalled for longer than the lease may overlap with the next holder: every method is harmless then.
type Held interface {
	// First returns the held task. Its attempts count every time that the task was handed out, including those that ended in
	// Release, but not those that ended in GiveBack.
	First() event.Delivery
	// Waiting returns the tasks behind the held one in the order of their sequences, at most limit, and does not take them.
	// It returns every task that was emitted before the call.
	Waiting(ctx context.Context, limit int) ([]event.Delivery, error)
	// Extend starts the lease again. It does not wait for the bus.
	Extend() error
	// Remove removes tasks that Waiting returned. It ignores those that are gone. After an error each of them may or may not
	// be gone.
	Remove(ctx context.Context, tasks []event.Delivery) error
	// Done removes the held task and frees the partition. It returns nil when the bus has confirmed that.
	Done(ctx context.Context) error
	// Release hands the held task back: the next caller of Take gets it at once. It returns nil when the bus has confirmed
	// that.
	Release(ctx context.Context) error
	// GiveBack hands back a held task that was not worked on, or whose worker is stuck: the attempt does not count. The task moves to
	// the end of its queue.
	// After an error the task may be in the queue twice, and a lost connection makes it count.
	GiveBack(ctx context.Context) error
}
