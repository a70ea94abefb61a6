// Package progress holds how far the fan-out of a message is.
//
// A message is fanned out partition by partition. In each, a scan goes through the recipients in ascending order
// of their ids, circularly: it starts at some position, goes on to the end, from there to the beginning, and is
// done when it comes back to where it started. A position is the id of the last recipient that was handled; the
// empty position is before the first.
//
// The record is the only truth about a scan: tasks carry no positions. It moves only forward, by
// compare-and-set, in absolute values, so that repeating an update changes nothing, and of two workers that
// handle the same stretch only one counts it.
package progress

import (
	"context"
	"errors"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// ErrNotFound says that the fan-out of a message has not been planned.
var ErrNotFound = errors.New("fan-out is not planned")

// Scan is how far the fan-out of a message is in one partition. The zero Scan has not been joined yet.
type Scan struct {
	// Joined tells that Start is set.
	Joined bool
	// Start is the position at which the scan began. It never changes once Joined.
	Start message.UserID
	// At is the position up to which recipients were handled. At equals Start when the scan has just been
	// joined, and again when it is done, hence Done.
	At message.UserID
	// Delivered counts recipients that one confirmed batch knew to have the message.
	Delivered int64
	// Skipped counts recipients that were left to rehydration.
	Skipped int64
	// Done tells that the scan has come back to Start. Nothing changes after that.
	Done bool
	// Dead tells that the scan was given up and lies among the dead letters. It goes no further until it is revived.
	Dead bool
}

// Join returns the scan joined at a position, if it has not been joined yet.
func (s Scan) Join(position message.UserID) Scan {
	if !s.Joined {
		s.Joined, s.Start, s.At = true, position, position
	}
	return s
}

// Wrapped tells whether a joined scan has gone past the end and goes from the beginning to Start now.
func (s Scan) Wrapped() bool { return s.At < s.Start }

// Ahead tells whether the scan has yet to handle a recipient. It holds for everybody before the scan moves, and
// for nobody once it is done.
func (s Scan) Ahead(recipient message.UserID) bool {
	switch {
	case s.Done:
		return false
	case s.Wrapped():
		return recipient > s.At && recipient <= s.Start
	default:
		return recipient > s.At || recipient <= s.Start
	}
}

// Advance returns the scan after a batch that handled every recipient above At, up to and including end, or to the
// end of the partition if toEnd is set (end then means nothing). The batch lies wholly on one side of the end of the
// partition, and goes no further than Start where the scan is wrapped.
func (s Scan) Advance(end message.UserID, toEnd bool, delivered, skipped int64) Scan {
	s.Delivered += delivered
	s.Skipped += skipped
	switch {
	case s.Wrapped() && (toEnd || end >= s.Start):
		s.At, s.Done = s.Start, true
	case !toEnd:
		s.At = end
	case s.Start == "":
		s.At, s.Done = "", true
	default:
		s.At = ""
	}
	return s
}

// Finish returns the scan after a batch that handled every recipient who was still ahead.
func (s Scan) Finish(delivered, skipped int64) Scan {
	s.Delivered += delivered
	s.Skipped += skipped
	s.Joined, s.At, s.Done = true, s.Start, true
	return s
}

// Same tells whether two records stand at the same place, so that one may replace the other.
func (s Scan) Same(other Scan) bool {
	return s.Joined == other.Joined && s.Start == other.Start && s.At == other.At && s.Done == other.Done && s.Dead == other.Dead
}

// Fanout is how far the fan-out of a message is in all partitions.
type Fanout struct {
	ID message.ID
	// Scans has a key for each partition that the message was planned for.
	Scans map[int]Scan
	// Moved is when the plan was made, a scan moved, or Touch was called last; in UTC, to the millisecond.
	Moved time.Time
}

// Done tells whether all scans are done. It holds for a fan-out without any.
func (f Fanout) Done() bool {
	for _, s := range f.Scans {
		if !s.Done {
			return false
		}
	}
	return true
}

// Counts returns the sums of delivered and skipped. They are final when the fan-out is done.
func (f Fanout) Counts() (delivered, skipped int64) {
	for _, s := range f.Scans {
		delivered += s.Delivered
		skipped += s.Skipped
	}
	return delivered, skipped
}

// Step moves one scan.
type Step struct {
	ID        message.ID
	Partition int
	// From is the record the step was computed from: it applies only while that is what is stored.
	From Scan
	To   Scan
}

// Stepped is what became of a Step.
type Stepped struct {
	Applied bool
	// Scan is what is stored after the call, whoever stored it.
	Scan Scan
}

// Store holds fan-outs. All methods are safe for concurrent use and atomic for each scan. A read sees every write
// that had returned before the read began, whoever wrote. What a write changed survives a crash once it
// has returned, Touch excepted.
type Store interface {
	// Plan records the partitions that a message is to be fanned out in, unless that was done before, and returns
	// what is recorded after the call. Further calls change nothing, whatever partitions they name.
	Plan(ctx context.Context, id message.ID, partitions []int, now time.Time) (Fanout, error)

	// Get returns the fan-out of a message, or ErrNotFound.
	Get(ctx context.Context, id message.ID) (Fanout, error)

	// GetMany returns the fan-outs of messages, in the order of ids. If a message is not planned, ok is false in its
	// place. An id may occur more than once. A damaged record fails the call.
	GetMany(ctx context.Context, ids []message.ID) (fanouts []Fanout, ok []bool, err error)

	// Scans returns the records of one partition, in the order of ids. Where a message is not planned for the
	// partition, ok is false in its place.
	Scans(ctx context.Context, partition int, ids []message.ID) (scans []Scan, ok []bool, err error)

	// Step attempts every step on its own, by compare-and-set (Scan.Same), and returns in their order what became of
	// them. A step of a scan that is not planned is not applied. No two may be for the same scan.
	Step(ctx context.Context, steps []Step, now time.Time) ([]Stepped, error)

	// Touch sets Moved of a fan-out to now if it is before the given time, and tells whether it was: of several
	// sweeps one takes care of it.
	Touch(ctx context.Context, id message.ID, before, now time.Time) (bool, error)
}
