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
// It reads all inboxes together: their heads, and their tombstones. Where something has expired, it reads the lowest bucket that has not
// expired as a whole, with those into which messages came late. If Oldest is too low, it takes as many calls more as a binary search over
// the buckets has steps, for all such inboxes together.
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

	head      Bucket
	deletions Deletions
}

func (c *counting) damaged(err error) { *c.result = Counted{Err: err} }

func countTogether(ctx context.Context, store Store, work []*counting) error {
	if len(work) == 0 {
		return nil
	}
	hints := make([]Head, len(work))
	for i, c := range work {
		*c = counting{CountRequest: c.CountRequest, result: c.result} // it may have been read before, beside a damaged one
		hints[i] = Head{Owner: c.Owner, Hint: c.Hint}
	}
	heads, err := store.Heads(ctx, hints)
	if err != nil {
		return err
	}
	var held []*counting // those that have buckets
	for i, c := range work {
		if c.head = heads[i]; c.head.Slots > 0 {
			held = append(held, c)
		}
	}
	if err := readDeletions(ctx, store, held); err != nil {
		return err
	}
	inboxes := make([]*expiring, len(work))
	for i, c := range work {
		inboxes[i] = &expiring{owner: c.Owner, head: c.head, upTo: c.Purged, low: c.Oldest}
	}
	if err := readExpired(ctx, store, inboxes); err != nil {
		return err
	}
	for i, c := range work {
		slots := c.head.End(store.Size())
		c.result.Total, c.result.Unread = Counts(slots, c.deletions, c.ReadMark, c.Gaps, inboxes[i].expired)
	}
	return nil
}

func readDeletions(ctx context.Context, store Store, work []*counting) error {
	if len(work) == 0 {
		return nil
	}
	from := make([]Head, len(work))
	for i, c := range work {
		from[i] = Head{Owner: c.Owner, Hint: Hint{Sequence: c.DeletionsFrom}}
	}
	deletions, err := store.Deletions(ctx, from)
	for i := range deletions {
		work[i].deletions = deletions[i]
	}
	return err
}
