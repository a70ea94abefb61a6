package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// Place is a place in an inbox.
type Place struct {
	Sequence uint32
	Slot     int
}

// String returns the place in words.
func (p Place) String() string { return fmt.Sprintf("bucket %d, slot %d", p.Sequence, p.Slot) }

// Explanation is a verdict with all facts that led to it.
type Explanation struct {
	User    message.UserID
	Message message.ID
	Verdict verdict.Verdict
	// Sentence says the verdict in words, and what happens next.
	Sentence string

	// Stored is the message. It is zero if Verdict is UnknownMessage, like all fields that depend on it.
	Stored message.Stored
	// Named reports whether the message names the user.
	Named bool
	// Edges are the user's edges to the author of the message, and to its topics and their ancestors, ascending by followee. Those that never
	// held have no spans.
	Edges []follow.Edge

	State   userstate.State
	Horizon time.Time
	// Gap is the user's gap that the message lies in, or nil.
	Gap *userstate.Gap

	// Partition is the user's.
	Partition int
	// Planned reports whether the fan-out of the message was planned, InPlan whether the plan includes the user's partition.
	Planned, InPlan bool
	// Scan is the progress of the fan-out in that partition.
	Scan progress.Scan
	// WaitingFor is what the fan-out waits for; empty if it moves. Until is about when it goes on, or zero.
	WaitingFor message.WaitingFor
	Until      time.Time
	// Ending is how the fan-out ended, or nil. The plan may have been removed then: Planned and InPlan are true, and Scan is done.
	Ending *message.Ending

	// Entry is the entry, or the tombstone, in the user's inbox, or nil; At is its place.
	Entry *bucket.Entry
	At    Place
}

// Explain returns why a user has a message or does not have it. Unknown users and messages are verdicts, not errors.
//
// Explain reads the progress of the fan-out before the inbox. So a message that is delivered meanwhile is in flight or delivered, never
// missing.
func (s *Service) Explain(ctx context.Context, user message.UserID, id message.ID) (Explanation, error) {
	e := Explanation{User: user, Message: id, Partition: s.partition(user)}
	op := s.begin()
	if err := op.gather(ctx, &e); err != nil {
		return Explanation{}, fmt.Errorf("explain %s to %s: %w", id, user, err)
	}
	e.Verdict, e.Sentence = op.judge(&e)
	return e, nil
}

func (s operation) gather(ctx context.Context, e *Explanation) (err error) {
	e.Stored, err = s.stores.Messages.Get(ctx, message.Ref{ID: e.Message})
	if err != nil && !errors.Is(err, message.ErrNotFound) {
		return err
	}
	if e.State, err = s.state(ctx, e.User); err != nil {
		return err
	}
	e.Horizon = e.State.Horizon
	if !e.unknown() {
		e.Named = e.Stored.Names(e.User)
		if e.Edges, err = s.edges(ctx, e.User, e.Stored.Message); err != nil {
			return err
		}
		fanout, err := s.standing(ctx, e.Partition, e.Stored.Ref())
		if err != nil {
			return err
		}
		e.WaitingFor, e.Until = s.opts.Waits.For(fanout.plan, s.opts.Now())
		e.Scan, e.Planned, e.InPlan, e.Ending = fanout.scan, fanout.planned, fanout.inPlan, fanout.ending
		for i, gap := range e.State.Gaps {
			if gap.Holds(e.Stored.Sent()) {
				e.Gap = &e.State.Gaps[i]
			}
		}
	}
	e.Entry, e.At, err = s.find(ctx, e.State, e.Message)
	return err
}

// expired reports whether the id is at or below the purge point.
func (e *Explanation) expired() bool { return !e.State.Purged.Less(e.Message) }

func (e *Explanation) unknown() bool { return e.Stored.ID.IsZero() }

// Passed reports whether the fan-out of the message has passed the user, or the plan had no recipient in the user's partition.
func (e *Explanation) Passed() bool { return e.Planned && (!e.InPlan || !e.Scan.Ahead(e.User)) }

// find returns the entry with an id in a user's inbox and its place, or nil if there is none. It prefers a live entry to a tombstone. It
// stops at the lowest bucket that can hold the entry.
func (s *Service) find(ctx context.Context, state userstate.State, id message.ID) (found *bucket.Entry, at Place, err error) {
	_, err = s.eachBucket(ctx, state.User, state.Head.Sequence, func(b *bucket.Bucket) bool {
		for slot, entry := range b.Entries {
			if entry.ID == id && (found == nil || found.Deleted) {
				found, at = &entry, Place{Sequence: b.Sequence, Slot: slot}
			}
		}
		return !b.Floor.Less(id)
	})
	return found, at, err
}
