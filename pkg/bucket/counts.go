package bucket

import (
	"context"
	"fmt"

	"github.com/fanmail/fanmail/pkg/message"
)

// CountRequest names an inbox to count, with what its owner's records say.
type CountRequest struct {
	Basis

	Owner message.UserID
	// Hint is a hint for the head. It may be behind the head.
	Hint Hint
}

// Counted is a counted inbox.
type Counted struct {
	Tally

	// Slots counts the taken slots, and Deleted all deletions that there ever were, before Slots was read.
	Slots, Deleted int64
	// Err wraps message.ErrCorrupt if the inbox is damaged. The Tally is zero then. Otherwise Err is nil.
	Err error
}

// ReadCounts counts inboxes as Counts does, and returns the results in the order of requests. No two requests may have the same owner. It
// fails if the store fails or ctx ends; a damaged inbox fails only its own result. Counts may be impossible: see Tally.Possible.
//
// It reads all inboxes together: their tombstones, and their heads. Where something has expired, it reads the lowest bucket that has not
// expired as a whole, with those into which messages came late. If Oldest is too low, it takes as many calls more as a binary search over
// the buckets has steps, for all such inboxes together. Where messages have flags, it reads the ids of those buckets of which a read mark covers
// a part.
func ReadCounts(ctx context.Context, store Store, requests []CountRequest) ([]Counted, error) {
	counted := make([]Counted, len(requests))
	work := make([]*counting, len(requests))
	for i := range requests {
		work[i] = &counting{owner: requests[i].Owner, hint: requests[i].Hint, Inventory: Inventory{Basis: requests[i].Basis}, result: &counted[i]}
	}
	err := apart(work, func(work []*counting) error { return countTogether(ctx, store, work) })
	if err != nil {
		return nil, fmt.Errorf("count inboxes: %w", err)
	}
	return counted, nil
}

// counting is an inbox that is being counted.
type counting struct {
	Inventory

	owner    message.UserID
	hint     Hint
	result   *Counted
	sections []Section // that readCovered has still to read
}

func (c *counting) damaged(err error) { *c.result = Counted{Err: err} }

func countTogether(ctx context.Context, store Store, work []*counting) error {
	if len(work) == 0 {
		return nil
	}
	from, hints := make([]Head, len(work)), make([]Head, len(work))
	for i, c := range work {
		from[i] = Head{Owner: c.owner, Hint: Hint{Sequence: c.deletionsFrom(store.Size())}}
		hints[i] = Head{Owner: c.owner, Hint: c.hint}
	}
	deletions, err := store.Deletions(ctx, from)
	if err != nil {
		return err
	}
	heads, err := store.Heads(ctx, hints)
	if err != nil {
		return err
	}
	inboxes := make([]*expiring, len(work))
	for i, c := range work {
		inboxes[i] = &expiring{owner: c.owner, head: heads[i], upTo: c.Purged, low: c.Oldest}
	}
	if err := readExpired(ctx, store, inboxes); err != nil {
		return err
	}
	for i, c := range work {
		c.Inventory = Inventory{
			Basis: c.Basis, Size: store.Size(), Slots: heads[i].End(store.Size()), Deletions: deletions[i], Expired: inboxes[i].expired,
		}
	}
	if err := readCovered(ctx, store, work); err != nil {
		return err
	}
	for _, c := range work {
		*c.result = Counted{Tally: Counts(c.Inventory), Slots: c.Slots, Deleted: c.Deletions.Ever}
	}
	return nil
}

// readCovered reads the ids that decide which messages with flags the read marks cover. Each call of the store is for one section of each inbox.
func readCovered(ctx context.Context, store Store, inboxes []*counting) error {
	for _, c := range inboxes {
		c.sections = c.toRead(c.owner)
	}
	for {
		var sections []Section
		var of []*counting
		for _, c := range inboxes {
			if len(c.sections) > 0 {
				sections, of = append(sections, c.sections[0]), append(of, c)
				c.sections = c.sections[1:]
			}
		}
		if len(sections) == 0 {
			return nil
		}
		found, err := store.Range(ctx, sections, NoFields)
		if err != nil {
			return err
		}
		for i, c := range of {
			for _, b := range found[i] {
				c.saw(b)
			}
		}
	}
}
