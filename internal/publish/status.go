package publish

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Status is a message with the progress of its fan-out.
type Status struct {
	Message message.Message
	State   message.State
	// Delivered counts recipients whose inbox holds the message. Skipped counts recipients that fan-out leaves to rehydration, and those that
	// Message.Blocked counts. Both are final when State is StateDone; then their sum is the number of recipients, unless GivenUp is above 0.
	Delivered int64
	Skipped   int64
	// GivenUp counts the partitions in which an operator gave the fan-out up. Recipients there are not counted if it had not come to them.
	GivenUp int64
	// Lane is that of the fan-out; empty while the message is pending.
	Lane string
	// WaitingFor is what a message that is not done waits for; empty if it moves. Until is about when it goes on, or zero.
	WaitingFor message.WaitingFor
	Until      time.Time
	// Scans are those of a message that is running; Moved is when the last one moved.
	Scans map[int]progress.Scan
	Moved time.Time
}

// Reporter reads the status of messages. It is safe for concurrent use.
type Reporter struct {
	messages message.Store
	progress progress.Store
	edges    follow.Store
	users    userstate.Store
	opts     ReporterOptions
}

// ReporterOptions configures a Reporter.
type ReporterOptions struct {
	Partitions int
	Waits      progress.Waits
	Now        func() time.Time
	// Removed, unless it is nil, reports whether a message that was for a user has expired in their inbox, or whether they have deleted it.
	Removed func(context.Context, message.UserID, message.ID) (bool, error)
}

// NewReporter returns a Reporter.
func NewReporter(messages message.Store, progress progress.Store, edges follow.Store, users userstate.Store, opts ReporterOptions) *Reporter {
	return &Reporter{messages: messages, progress: progress, edges: edges, users: users, opts: opts}
}

// Status returns the status of a message, or message.ErrNotFound. It reads the plan first and the ending second. In the opposite order the
// plan could end in between, and the message would seem to be pending.
func (r *Reporter) Status(ctx context.Context, id message.ID) (Status, error) {
	stored, err := r.messages.Get(ctx, message.Ref{ID: id})
	if err != nil {
		return Status{}, err
	}
	if stored.Void {
		return Status{}, message.ErrNotFound
	}
	fanout, err := r.progress.Get(ctx, id)
	if err != nil && !errors.Is(err, progress.ErrNotFound) {
		return Status{}, err
	}
	endings, err := r.messages.Endings(ctx, []message.Ref{stored.Ref()})
	if err == nil {
		err = endings[0].Err
	}
	if err != nil {
		return Status{}, err
	}
	return r.status(stored.Message, fanout, endings[0]), nil
}

// status returns the status of a message by its plan, which is zero if there is none, and its ending.
func (r *Reporter) status(m message.Message, fanout progress.Fanout, ending message.Ending) Status {
	s := Status{Message: m, State: message.StateDone}
	if !ending.Concluded { // also if all scans are done: another attempt may write the ending first, with other counts
		ending, s.State = fanout.Outcome(), message.StatePending
		if !fanout.ID.IsZero() {
			s.State, s.Scans, s.Moved = message.StateRunning, fanout.Scans, fanout.Moved
		}
		s.WaitingFor, s.Until = r.opts.Waits.For(fanout, r.opts.Now())
	}
	s.Lane, s.Delivered, s.Skipped, s.GivenUp = ending.Lane, ending.Delivered, ending.Skipped+int64(m.Blocked), ending.GivenUp
	return s
}

// maxNamed is how many of the users that a message names NeverSeen looks at.
const maxNamed = 100

// NeverSeen returns how many of the first maxNamed users that a message names have never been seen until now. Such a user has no inbox yet, so
// fan-out skips them. It leaves out users whose record is damaged.
func (r *Reporter) NeverSeen(ctx context.Context, m message.Message) (n int64, err error) {
	users := slices.Clone(m.To[:min(len(m.To), maxNamed)])
	slices.Sort(users)
	looked, err := r.users.Lookup(ctx, slices.Compact(users))
	for _, l := range looked {
		if l.Err == nil && !l.State.Known() {
			n++
		}
	}
	return n, err
}

// For reports whether a message is for a user, and whether they have kept it: see follow.ForAny.
func (r *Reporter) For(ctx context.Context, m message.Message, user message.UserID) (bool, error) {
	var edges []follow.Edge
	if pairs := follow.Pairs(m, user); len(pairs) > 0 {
		var err error
		if edges, err = r.edges.Get(ctx, pairs); err != nil {
			return false, err
		}
	}
	if !follow.ForAny(m, user, edges) || r.opts.Removed == nil {
		return follow.ForAny(m, user, edges), nil
	}
	removed, err := r.opts.Removed(ctx, user, m.ID)
	return !removed, err
}
