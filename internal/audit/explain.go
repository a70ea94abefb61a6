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
)

// Verdict is why a user has, or has not, a message.
type Verdict string

// The verdicts. There are no others.
const (
	// Delivered is a message that is in the inbox.
	Delivered Verdict = "delivered"
	// Recovered is a message that a rehydration put into the inbox.
	Recovered Verdict = "recovered"
	// InGap is a message that is read from the canonical store whenever the inbox is paged.
	InGap Verdict = "in_gap"
	// Deleted is a message that was in the inbox until its owner deleted it.
	Deleted Verdict = "deleted"
	// Dormant is a message that is left to a rehydration which is not due before the user looks.
	Dormant Verdict = "dormant"
	// Rehydrating is a message that is left to a rehydration which is due or under way.
	Rehydrating Verdict = "rehydrating"
	// InFlight is a message whose fan-out has yet to come to the user.
	InFlight Verdict = "in_flight"
	// DeadLettered is a message whose fan-out was given up before it came to the user.
	DeadLettered Verdict = "dead_lettered"
	// NotFollowedThen is a message to followers that was sent when the user did not follow its author any more, or had
	// never followed them.
	NotFollowedThen Verdict = "not_followed_then"
	// NotFollowedYet is a message to followers that was sent before the user began to follow its author.
	NotFollowedYet Verdict = "not_followed_yet"
	// NotAddressed is a message to others: to a list that does not name the user, or by the user themselves.
	NotAddressed Verdict = "not_addressed"
	// Void is a message that was stored so late that it counts for nobody.
	Void Verdict = "void"
	// UnknownMessage is an id under which no message is stored.
	UnknownMessage Verdict = "unknown_message"
	// Missing is a message that should be in the inbox and is not.
	Missing Verdict = "missing"
)

// Place is where something is in an inbox.
type Place struct {
	Sequence uint32
	Slot     int
}

// String returns the place in words.
func (p Place) String() string { return fmt.Sprintf("bucket %d, slot %d", p.Sequence, p.Slot) }

// Explanation is why a user has, or has not, a message, and everything that tells it.
type Explanation struct {
	User    message.UserID
	Message message.ID
	Verdict Verdict
	// Sentence says it in words, with what is going to happen next.
	Sentence string

	// Stored is the message. It is zero if Verdict is UnknownMessage; so is what depends on it.
	Stored message.Stored
	// Named tells that the message names the user.
	Named bool
	// Edge is the user's edge to the author, without spans where there has never been one.
	Edge follow.Edge

	State   userstate.State
	Horizon time.Time
	// Gap is the user's gap that the message lies in, or nil.
	Gap *userstate.Gap

	// Partition is the user's.
	Partition int
	// Planned tells that the fan-out of the message has been planned, InPlan that it was for the user's partition.
	Planned, InPlan bool
	// Scan is how far it is there.
	Scan progress.Scan

	// Entry is the entry, or the tombstone, in the user's inbox, or nil; At is its place.
	Entry *bucket.Entry
	At    Place
}

// Explain tells why a user has, or has not, a message. Unknown users and messages are verdicts, not errors.
//
// The inbox is read last, after how far the fan-out is: a message that is being delivered meanwhile is in flight or
// delivered, and never missing.
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
	e.Horizon = s.rules.Horizon(e.State)
	if !e.unknown() {
		e.Named = e.Stored.Names(e.User)
		if e.Edge, err = s.edge(ctx, e.User, e.Stored.From); err != nil {
			return err
		}
		if e.Scan, e.Planned, e.InPlan, err = s.scan(ctx, e.Partition, e.Message); err != nil {
			return err
		}
		for i, gap := range e.State.Gaps {
			if gap.Holds(e.Stored.Sent()) {
				e.Gap = &e.State.Gaps[i]
			}
		}
	}
	e.Entry, e.At, err = s.find(ctx, e.State, e.Message)
	return err
}

func (e *Explanation) unknown() bool { return e.Stored.ID.IsZero() }

// Passed tells whether the fan-out of the message has come to the user, or never had to, for when it was planned there was
// no recipient in their partition.
func (e *Explanation) Passed() bool { return e.Planned && (!e.InPlan || !e.Scan.Ahead(e.User)) }

// scan returns how far the fan-out of a message is in a partition.
func (s *Service) scan(ctx context.Context, partition int, id message.ID) (scan progress.Scan, planned, inPlan bool, err error) {
	fanout, err := s.stores.Progress.Get(ctx, id)
	if errors.Is(err, progress.ErrNotFound) {
		return scan, false, false, nil
	}
	scan, inPlan = fanout.Scans[partition]
	return scan, err == nil, inPlan, err
}

// find returns the entry with an id in a user's inbox, rather one that is live than a tombstone, and its place; nil if
// there is none. It looks no further down than the entry can be.
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
