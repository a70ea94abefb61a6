package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
)

// The points at which the process can die.
const (
	pointStore         = "store"             // a message is inserted
	pointEmitPublished = "emit-published"    // the event of a published message is emitted
	pointPlan          = "plan"              // the partitions of a message are recorded
	pointEmitTasks     = "emit-tasks"        // the first tasks of a message are emitted
	pointAckPublished  = "ack-published"     // the event of a published message is acknowledged
	pointAppend        = "append"            // entries are pushed into buckets
	pointRecord        = "record"            // scans are moved
	pointContinue      = "emit-continuation" // the task is emitted that goes on with a scan
	pointRemove        = "remove"            // the tasks of a batch are removed, but for the one that is held
	pointAckTask       = "ack-task"          // the held task is acknowledged

	pointArrive     = "arrive"    // somebody who was dormant is marked
	pointBound      = "bound"     // it is decided what is left to a gap
	pointRebuild    = "rebuild"   // what somebody missed is pushed into buckets
	pointSettle     = "settle"    // the mark becomes a sweep
	pointSweep      = "sweep"     // what became visible meanwhile is pushed into buckets
	pointRehydrated = "end-sweep" // the sweep is removed

	pointRaise          = "raise"           // a purge point rises
	pointEmpty          = "empty"           // buckets are emptied
	pointWalk           = "walk"            // the place or the end of a round through all users is recorded
	pointConclude       = "conclude"        // the final counts of messages move into them
	pointRemovePlans    = "remove-plans"    // their plans are removed
	pointRemoveMessages = "remove-messages" // messages are removed that have expired for all users
	pointRemoveEdges    = "remove-edges"    // edges are removed that ended before
)

var points = []string{
	pointStore, pointEmitPublished, pointPlan, pointEmitTasks, pointAckPublished,
	pointAppend, pointRecord, pointContinue, pointRemove, pointAckTask,
	pointArrive, pointBound, pointRebuild, pointSettle, pointSweep, pointRehydrated,
	pointRaise, pointEmpty, pointWalk, pointConclude, pointRemovePlans, pointRemoveMessages, pointRemoveEdges,
}

// The moments at which it can die at a point.
const (
	momentBefore = "before"
	momentAfter  = "after"
	// momentHalfway is when the first half of what a call was given has been carried out. It is for calls with at
	// least two parts.
	momentHalfway = "halfway"
)

var moments = []string{momentBefore, momentHalfway, momentAfter}

// halves are the points with calls of several parts.
var halves = []string{
	pointEmitTasks, pointAppend, pointRecord, pointContinue, pointRemove, pointRebuild, pointSweep,
	pointConclude, pointRemovePlans, pointRemoveMessages, pointRemoveEdges,
}

// failpoint is where and when the process dies.
type failpoint struct {
	at, when string
	left     atomic.Int64
}

func newFailpoint(at, when string, nth int64) (*failpoint, error) {
	switch {
	case !slices.Contains(points, at):
		return nil, fmt.Errorf("-at is %q: it must be one of %s", at, strings.Join(points, ", "))
	case !slices.Contains(moments, when):
		return nil, fmt.Errorf("-when is %q: it must be one of %s", when, strings.Join(moments, ", "))
	case when == momentHalfway && !slices.Contains(halves, at):
		return nil, fmt.Errorf("there is no halfway at %s, only at %s", at, strings.Join(halves, ", "))
	case nth < 1:
		return nil, fmt.Errorf("-nth is %d: it counts from 1", nth)
	}
	f := &failpoint{at: at, when: when}
	f.left.Store(nth)
	return f, nil
}

// pass carries out a call of so many parts, by do with the number of parts that are to be carried out; unless it is the one at
// which the process dies.
func (f *failpoint) pass(at string, parts int, do func(parts int) error) error {
	if at != f.at || parts < 1 || f.when == momentHalfway && parts < 2 || f.left.Add(-1) != 0 {
		return do(parts)
	}
	carried := map[string]int{momentBefore: 0, momentHalfway: parts / 2, momentAfter: parts}[f.when]
	if carried > 0 {
		if err := do(carried); err != nil {
			f.left.Store(1) // the next one is it, then
			return err
		}
	}
	die()
	return nil
}

// company is how many tasks have to wait behind the held one for a batch to come to the failpoint.
func (f *failpoint) company() int {
	switch {
	case f.when == momentHalfway && slices.Contains([]string{pointRecord, pointContinue, pointRemove}, f.at):
		return 2
	case f.at == pointRemove:
		return 1
	default:
		return 0
	}
}

// die kills the process without letting it tidy up.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // the signal may take a moment
}

// survived returns an error if the process never came to its failpoint.
func (f *failpoint) survived() error {
	if f.left.Load() > 0 {
		return fmt.Errorf("it never died %s %s: %d times were left", f.when, f.at, f.left.Load())
	}
	return nil
}
