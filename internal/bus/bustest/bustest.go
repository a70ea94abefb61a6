// Package bustest holds every implementation of bus.Bus to the contract in package bus.
package bustest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
)

// Partitions is the number of partitions that the bus of a Harness has.
const Partitions = 2

// patience is how long a call may take. It passes only if the bus is broken.
const patience = 2 * time.Minute

// Harness is a new, empty bus. Its leases last longer than a test.
type Harness struct {
	Bus bus.Bus
	// Login publishes a login as a program outside Fanmail does. It returns when the login is in the stream.
	Login func(ctx context.Context, payload []byte) error
}

// Run holds a bus to its contract. Every test opens a bus of its own; open registers its closing with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	for name, test := range map[string]func(*suite){
		"FetchPublished/in order and at most limit":            (*suite).fetchInOrder,
		"FetchPublished/again after Release":                   (*suite).fetchReleased,
		"FetchPublished/not before the time given to Release":  (*suite).fetchReleasedLater,
		"FetchPublished/ends with its context":                 (*suite).fetchEnds,
		"EmitPublished/a repeat only if it is fresh":           (*suite).emitPublishedRepeats,
		"EmitTasks/refuses a place that does not exist":        (*suite).emitTasksNowhere,
		"Take/one holder of each lane and partition":           (*suite).takeExcludes,
		"Take/ends with its context":                           (*suite).takeEnds,
		"Take/leaves nothing held when its context ends":       (*suite).takeCancelled,
		"Take/refuses a place that does not exist":             (*suite).takeNowhere,
		"Held/Waiting returns the tasks behind, and no others": (*suite).waiting,
		"Held/Remove ignores tasks that are gone":              (*suite).removeGone,
		"Held/Release hands the task to the next caller":       (*suite).release,
		"Held/GiveBack is no attempt":                          (*suite).giveBack,
		"Poll/returns what is there, and nil otherwise":        (*suite).poll,
		"Held/Done of a task that another process has done":    (*suite).doneTwice,
		"FetchLogins/in order, whatever the payload":           (*suite).fetchLogins,
		"FetchLogins/ends with its context":                    (*suite).fetchLoginsEnds,
		"DeadLetters/in order, by pages":                       (*suite).deadLetters,
		"DeadLetters/Drop of a letter that is gone":            (*suite).dropGone,
		"DeadLetters/Emit puts the work back":                  (*suite).emitAgain,
		"DeadLetters/one for a damaged user":                   (*suite).damaged,
		"DeadLetters/Consumed":                                 (*suite).consumed,
		"Backlog/counts what is there, taken or not":           (*suite).backlog,
		"Trace/travels with every event":                       (*suite).traces,
		"Healthy":                                              (*suite).healthy,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			t.Cleanup(cancel)
			test(&suite{Harness: open(t), t: t, ctx: func() context.Context { return ctx }})
		})
	}
}

// suite is one test on one bus.
type suite struct {
	Harness
	t   *testing.T
	ctx func() context.Context
}

func (s *suite) healthy() {
	require.NoError(s.t, s.Bus.Healthy(s.ctx()))
	ctx, cancel := context.WithCancel(s.ctx())
	cancel()
	require.Equal(s.t, context.Canceled, s.Bus.Healthy(ctx))
}
