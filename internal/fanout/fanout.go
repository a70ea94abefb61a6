package fanout

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/bus"
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

// Options configures fan-out.
type Options struct {
	// Partitions is the store's partition count.
	Partitions int
	// Rules returns the rules that hold now.
	Rules func() userstate.Rules

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
	// Backlog returns the events on the bus. The sweep emits no event and no task again that may still be behind the
	// oldest ones there, because it would only add to the pile. If Backlog is nil, the sweep does not ask.
	Backlog func(ctx context.Context) (bus.Backlog, error)

	Now    func() time.Time
	Logger zerolog.Logger
	Tracer tracing.Tracer
}
