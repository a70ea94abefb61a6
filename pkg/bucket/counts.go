package bucket

import (
	"context"
	"fmt"

	"github.com/fanmail/fanmail/pkg/message"
)

// CountRequest names an inbox to count, with what its owner's record says.
type CountRequest struct {
	Owner message.UserID
	// Hint is a hint for the head. It may be behind the head.
	Hint Hint
	// ReadMark, Gaps and Purged are those of the record. Oldest is a bucket with a floor at or below Purged.
	ReadMark ReadMark
	Gaps     []Gap
	Purged   message.ID
	Oldest   uint32
	// DeletionsFrom is the lowest bucket whose tombstones Counts needs.
	DeletionsFrom uint32
}

// Counted is how many messages an inbox has, and how many of them are unread.
type Counted struct {
	Total, Unread int64
	// Err wraps message.ErrCorrupt if the inbox is damaged. Total and Unread are zero then. Otherwise it is nil.
	Err error
}

// ReadCounts counts inboxes as Counts does, and returns the results in the order of requests. No two requests may have the same owner. It
// fails if the store fails or ctx ends; a damaged inbox fails only its own result.
//
// It reads all inboxes together: their heads, their tombstones and, where something has expired, the lowest bucket that has not
// expired as a whole, with those into which messages came late. If Oldest is too low, it takes
// as many calls more as a binary search over the buckets has steps, for all such inboxes together.
func ReadCounts(ctx context.Context, store Store, requests []CountRequest) ([]Counted, error) {
	counted := make([]Counted, len(requests))
	work := make([]*counting, len(requests))
	for i := range requests {
		work[i] = &counting{CountRequest: &requests[i], result: &counted[i]}
	}
	err := apart(work, func(work []*counting) error { return countTogether(ctx, store, work) })
	if err != nil {
		return nil, fmt.Errorf("count inboxes: %w", err)
	}
	return counted, nil
}

// counting is an inbox that is being counted.
type counting struct {
	*CountRequest
	result *Counted

	head      Outline
	deletions Deletions
	expired   Expired

	// The bucket sought is the highest one with a floor at or below Purged. It is at least low, below high, and probably probe.
	low, high, probe uint32
}

func (c *counting) damaged(err error) { *c.result = Counted{Err: err} }

func countTogether(ctx context.Context, store Store, work []*counting) error {
	if len(work) == 0 {
		return nil
	}
	refs := make([]Ref, len(work))
	for i, c := range work {
		*c = counting{CountRequest: c.CountRequest, result: c.result} // it may have been read before, beside a damaged one
		refs[i] = Ref{Owner: c.Owner, Sequence: c.Hint.Sequence}
	}
	heads, err := store.Heads(ctx, refs)
	if err != nil {
		return err
	}
	var held []*counting // those that have buckets
	for i, c := range work {
		if c.head = heads[i]; c.head.Cap > 0 {
			held = append(held, c)
		}
	}
	if err := readDeletions(ctx, store, held); err != nil {
		return err
	}
	if err := readAllExpired(ctx, store, held); err != nil {
		return err
	}
	for _, c := range work {
		c.expired.UpTo = c.Purged
		c.result.Total, c.result.Unread = Counts(c.head.Position(c.head.Slots()), c.deletions, c.ReadMark, c.Gaps, c.expired)
	}
	return nil
}

func readDeletions(ctx context.Context, store Store, work []*counting) error {
	if len(work) == 0 {
		return nil
	}
	refs := make([]Ref, len(work))
	for i, c := range work {
		refs[i] = Ref{Owner: c.Owner, Sequence: c.DeletionsFrom}
	}
	deletions, err := store.Deletions(ctx, refs)
	for i := range deletions {
		work[i].deletions = deletions[i]
	}
	return err
}

// readAllExpired is readExpired for inboxes that have buckets. Each call of the store is for all that are still open.
func readAllExpired(ctx context.Context, store Store, work []*counting) error {
	var open []*counting
	for _, c := range work {
		switch {
		case c.Purged.IsZero():
		case !c.Purged.Less(c.head.Floor) || c.Oldest >= c.head.Sequence:
			c.expire([]Outline{c.head})
		default:
			c.low, c.high, c.probe = c.Oldest, c.head.Sequence, c.Oldest
			open = append(open, c)
		}
	}
	for len(open) > 0 {
		spans := make([]Span, len(open))
		for i, c := range open {
			spans[i] = c.span()
		}
		found, err := store.Outlines(ctx, spans)
		if err != nil {
			return err
		}
		var left []*counting
		for i, c := range open {
			done, err := c.saw(found[i])
			if err != nil {
				return err
			}
			if !done {
				left = append(left, c)
			}
		}
		open = left
	}
	return nil
}

// span returns what to read next: the lowest bucket that may be the one sought, with the one above, whose floor tells whether it is, or else
// a probe.
func (c *counting) span() Span {
	if c.probe > c.low {
		return Span{Owner: c.Owner, Low: c.probe, High: c.probe}
	}
	return Span{Owner: c.Owner, Low: c.low, High: min(c.low+1, c.high-1), Late: c.Purged.Next()}
}

// saw takes the buckets of the span, and reports whether the one sought is among them.
func (c *counting) saw(found []Outline) (bool, error) {
	next, probably := c.probe, c.probe == c.low
	if probably {
		next = min(c.low+1, c.high-1)
	}
	at, there := outlineAt(found, next)
	if !there {
		return false, lost(c.Owner, next)
	}
	below := !c.Purged.Less(at.Floor)
	if probably && (next == c.low || !below) {
		if _, there := outlineAt(found, c.low); !there {
			return false, lost(c.Owner, c.low)
		}
		c.expire(found)
		return true, nil
	}
	if below {
		c.low = next
	} else {
		c.high = next
	}
	c.probe = c.low + (c.high-c.low)/2
	return false, nil
}

// outlineAt returns the outline of a bucket, or of the stub that stands for it because it was removed.
func outlineAt(found []Outline, sequence uint32) (Outline, bool) {
	for _, o := range found {
		if o.Sequence == sequence {
			return o, true
		}
	}
	if n := len(found); n > 0 && found[n-1].Stub && found[n-1].Floor.IsZero() && found[n-1].Sequence > sequence {
		return found[n-1], true
	}
	return Outline{}, false
}

// expire takes what has expired in the bucket sought, the last one, and in those above it. An entry there has expired only if it came late.
//
// An outline does not tell tombstones from entries, so Slots has both. Counts passes over tombstones whose slot has expired, and unread is the
// same: a tombstone below the purge point, and so below the read mark, counts by its position alone, as an expired entry does.
func (c *counting) expire(found []Outline) {
	last := found[len(found)-1]
	c.expired.Sequence, c.expired.Base = last.Sequence, last.Base
	if last.Stub {
		c.expired.Base += int64(last.Slots())
	}
	for _, o := range found {
		for slot, id := range o.IDs {
			if !id.IsZero() && !c.Purged.Less(id) {
				c.expired.Slots = append(c.expired.Slots, o.Position(slot))
			}
		}
	}
}
