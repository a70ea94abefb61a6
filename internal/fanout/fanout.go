package fanout

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/tally"
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
	// Ended is Messages, but may say that a message has not ended that ended seconds ago. Nil means Messages.
	Ended    message.Store
	Progress progress.Store
	Users    userstate.Store
	Edges    follow.Store
	Appender *bucket.Appender
	// Round is that of progress.Ender.
	Round func(context.Context) (int64, error)
}

func (s Stores) ender() progress.Ender {
	return progress.Ender{Messages: s.Messages, Plans: s.Progress, Round: s.Round}
}

// Options configures fan-out.
type Options struct {
	// Partitions is the store's partition count.
	Partitions int
	// Rules returns the rules that hold now.
	Rules func() userstate.Rules

	// DirectMax is the largest audience that the router delivers to by itself, MediumMax that of the medium lane.
	DirectMax int
	MediumMax int
	// ClassCache is for how many large authors and topics the router remembers the size, ClassTTL for how long.
	ClassCache int
	ClassTTL   time.Duration

	// HeadStarts is whether the recipients that a message with a larger audience names get head starts.
	HeadStarts bool

	// Workers is how many batches of each lane this process processes at the same time.
	Workers map[event.Lane]int
	// Room reports whether the store has room for the bulk lane, whose tasks wait otherwise. Nil means always.
	Room func() bool
	// BatchOwners is the number of recipients after which a batch ends. It bounds the memory and the duration of a batch. A dormant recipient
	// counts as 1/8, and so does each further message of a recipient. The last chunk may exceed it by half.
	BatchOwners int
	// BatchTasks bounds the tasks of a batch, BatchBytes the memory that they and their messages take. A batch has one
	// message, however large it is.
	BatchTasks int
	BatchBytes int
	// RouteEvents bounds the events that are fetched together.
	RouteEvents int
	// ExtendEvery is how often a held task or event is extended. It has to be well below the time after which the bus hands it out again.
	ExtendEvery time.Duration
	// StuckAfter is how long no call of the store may return before a worker gives up its batch, at least 1 ms. The stores count
	// their calls for package pulse. StuckAfter has to be well above the time that a call may take.
	StuckAfter time.Duration
	// Patience is the least time that a call of the store gets before its keys are tried alone; it is a second at least. Tests that let calls
	// stall have more.
	Patience time.Duration
	// MaxAttempts is how often the bus may hand out a task, at least 2: one hand-out may reach no worker. A task that was handed out more often has crashed or stalled
	// its workers, and becomes a dead letter. So does an event on which the code panicked so often. An event that was handed out
	// more often for another reason becomes tasks, whatever the size of its audience.
	MaxAttempts int

	// ResumeAfter is how long an unfinished message may stand still before the resumer emits it again. ResumeEvery is the
	// time between two calls of Resume.
	ResumeAfter time.Duration
	ResumeEvery time.Duration
	// Elected reports whether this process is the one that resumes. It is asked before each time. If it is nil, every process resumes.
	Elected func(context.Context) (bool, error)

	// SlowAfter is after which time a fan-out that has not ended, or not moved, is logged; 0 for never. Waits says what it waits for.
	SlowAfter time.Duration
	Waits     progress.Waits

	Now    func() time.Time
	Logger zerolog.Logger
	Tracer tracing.Tracer
	// Metrics is where the metrics are registered; nil means nowhere.
	Metrics prometheus.Registerer
	// Tally counts deliveries, skips and tasks; nil counts nothing.
	Tally *tally.Tally

	slow zerolog.Logger // of slowLogger: each stage sets its own
}

// room reports whether the store has room for a batch of a lane.
func (o Options) room(lane event.Lane) bool { return lane != event.Bulk || o.Room == nil || o.Room() }
