// Package progress records how far the fan-out of a message is.
//
// Each partition of a message's audience has one scan. A scan handles the recipients in ascending order of their ids, in a circle. It
// starts at some position, continues to the end of the partition and then from the beginning, and is done when it is back at its
// start. A position is the id of the last handled recipient. The empty position is before the first recipient.
//
// Recipients who cannot be reached hold nobody up. The scan moves past them, and notes the arc in which they are. When it is back at its
// start, it goes over that arc once more, until all are reached.
//
// Only the record holds the position of a scan; tasks hold none. Workers move a scan by compare-and-set, and write absolute values.
// So a repeated update changes nothing. If two workers handle the same recipients, only one of them counts them.
package progress

import (
	"context"
	"errors"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// ErrNotFound means that no router has planned the fan-out of a message.
var ErrNotFound = errors.New("fan-out is not planned")

// Counts are numbers of recipients.
type Counts struct {
	// Delivered counts recipients whose inbox holds the message, as the recorded batches found.
	Delivered int64
	// Skipped counts recipients that fan-out leaves to rehydration.
	Skipped int64
}

// Scan records how far the fan-out of a message is in one partition. No worker has joined the zero Scan yet.
type Scan struct {
	// Joined reports that Start is set.
	Joined bool
	// Start is the position at which the scan began its present way through the circle, or through an arc of it.
	Start message.UserID
	// At is the position up to which recipients were handled. It equals Start at the beginning and again at the end. Done tells
	// the two apart.
	At message.UserID
	// Delivered and Skipped are the Counts of all recorded batches; while there is an arc, of those before it. They never fall.
	Delivered int64
	Skipped   int64
	// Arc is what the scan has to go over again.
	Arc Arc
	// Done reports that the scan is back at Start. A done scan never changes.
	Done bool
	// Dead reports that the task of the scan is a dead letter. The scan does not move until an operator redrives the task.
	Dead bool
	// GivenUp reports that an operator has given up the dead scan. It stays dead, and never moves again. It may be set from the format
	// level settings.Retention on.
	GivenUp bool
}

// Arc is a part of a circle in which a batch could not reach some recipients.
type Arc struct {
	// Noted reports that there is an arc. Otherwise the rest is zero.
	Noted bool
	// The arc begins behind From, where the first such batch began, and includes To, where the last one ended.
	From, To message.UserID
	// Since are the counts of the batches behind To. Those within the arc count nobody.
	Since Counts
}

// add returns the scan with the counts of one more batch.
func (s Scan) add(batch Counts) Scan {
	s.Delivered += batch.Delivered
	s.Skipped += batch.Skipped
	return s
}

// Join returns a scan that starts at a position. A scan that has started already is returned unchanged.
func (s Scan) Join(position message.UserID) Scan {
	if !s.Joined {
		s.Joined, s.Start, s.At = true, position, position
	}
	return s
}

// Wrapped reports whether a joined scan has passed the end of the partition and now moves from the beginning to Start.
func (s Scan) Wrapped() bool { return s.At < s.Start }

// Ahead reports whether a recipient is still to be handled. Before the scan moves, every recipient is. When the scan is done, none is.
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

// Advance returns the scan after a batch that handled every recipient above At, up to and including end. If toEnd is set, the batch
// reached the end of the partition, and Advance ignores end. A batch never continues past the end of the partition. A batch of a
// wrapped scan never continues past Start.
func (s Scan) Advance(end message.UserID, toEnd bool, batch Counts) Scan {
	if s.Arc.Noted {
		s.Arc.Since.Delivered += batch.Delivered
		s.Arc.Since.Skipped += batch.Skipped
	} else {
		s = s.add(batch)
	}
	next, back := s.pass(end, toEnd)
	return next.turn(back)
}

// Miss is Advance for a batch that could not reach a recipient. It counts nobody, because the scan comes back to where the batch began.
func (s Scan) Miss(end message.UserID, toEnd bool) Scan {
	next, back := s.pass(end, toEnd)
	if !next.Arc.Noted {
		next.Arc = Arc{Noted: true, From: s.At}
	}
	next.Arc.To, next.Arc.Since = next.At, Counts{}
	return next.turn(back)
}

// pass returns the scan with its position behind a batch, and whether it is back at its start.
func (s Scan) pass(end message.UserID, toEnd bool) (_ Scan, back bool) {
	switch {
	case s.Wrapped() && (toEnd || end >= s.Start):
		s.At, back = s.Start, true
	case toEnd:
		s.At, back = "", s.Start == ""
	default:
		s.At = end
	}
	return s, back
}

// turn returns the scan after pass. Back at its start, it is done, or goes over its arc.
func (s Scan) turn(back bool) Scan {
	switch {
	case !back:
	case !s.Arc.Noted:
		s.Done = true
	default:
		s = s.add(s.Arc.Since)
		s.At, s.Start, s.Arc = s.Arc.From, s.Arc.To, Arc{}
	}
	return s
}

// Same reports whether two records agree in everything but their counts and arcs. Store.Step compares records by Same. A record with other counts
// is right, too: it comes from a worker who went another way through the same recipients.
func (s Scan) Same(other Scan) bool {
	return s.Joined == other.Joined && s.Start == other.Start && s.At == other.At && s.Done == other.Done && s.Dead == other.Dead &&
		s.GivenUp == other.GivenUp
}

// Fanout records how far the fan-out of a message is in all partitions.
type Fanout struct {
	ID message.ID
	// Lane is the lane of the message's tasks.
	Lane string
	// Scans has a key for each partition that the message was planned for.
	Scans map[int]Scan
	// Moved is the time of the plan, or of the last Step after it; in UTC, to the millisecond.
	Moved time.Time
}

// Done reports whether all scans are done or given up. A fan-out without scans is done.
func (f Fanout) Done() bool {
	for _, s := range f.Scans {
		if !s.Ended() {
			return false
		}
	}
	return true
}

// Counts returns the sums over all scans. They are final when the fan-out is done.
func (f Fanout) Counts() (sum Counts) {
	for _, s := range f.Scans {
		sum.Delivered += s.Delivered
		sum.Skipped += s.Skipped
	}
	return sum
}

// Found is a fan-out that List has found.
type Found struct {
	// Fanout has only its ID if Err is not nil.
	Fanout Fanout
	// Err wraps message.ErrCorrupt if the record is damaged.
	Err error
}

// Move moves one scan.
type Move struct {
	ID        message.ID
	Partition int
	// From is the record from which the move was computed. The move applies only if the stored record is the same.
	From Scan
	To   Scan
}

// Moved is the result of a Move.
type Moved struct {
	// Applied reports whether the move was applied.
	Applied bool
	// Scan is the stored record after the call: To, or the record of another worker.
	Scan Scan
}

// Store holds fan-outs. All methods are safe for concurrent use and atomic for each scan. A read sees every write of every process
// that had returned before the read began; only List may answer from a state seconds older. A write survives a crash once it has returned.
type Store interface {
	// Plan records the lane of a message and the partitions in which it has recipients, and returns the record. If the message already has a plan,
	// Plan changes nothing and returns the existing record.
	Plan(ctx context.Context, id message.ID, lane string, partitions []int, now time.Time) (Fanout, error)

	// Get returns the fan-out of a message, or ErrNotFound.
	Get(ctx context.Context, id message.ID) (Fanout, error)

	// GetMany returns the fan-outs of messages, in the order of ids. ok[i] is false if message i is not planned. An id may occur
	// more than once. A damaged record fails the call.
	GetMany(ctx context.Context, ids []message.ID) (fanouts []Fanout, ok []bool, err error)

	// Scans returns the records of one partition, in the order of ids. ok[i] is false if message i is not planned for the
	// partition.
	Scans(ctx context.Context, partition int, ids []message.ID) (scans []Scan, ok []bool, err error)

	// Step attempts each move on its own, by compare-and-set (Scan.Same), and returns the results in the order of moves. A move
	// of a scan without a plan is not applied. The caller passes at most one move for each scan.
	Step(ctx context.Context, moves []Move, now time.Time) ([]Moved, error)

	// List returns the fan-outs of the messages with ids above after, up to and including upTo, ascending, at most limit. A fan-out whose
	// record is damaged has its error in Found.Err, so it does not fail the others.
	List(ctx context.Context, after, upTo message.ID, limit int) ([]Found, error)

	// Remove removes the plans of messages. It is idempotent, and skips messages that are not planned. It need not survive a crash.
	Remove(ctx context.Context, ids []message.ID) error
}
