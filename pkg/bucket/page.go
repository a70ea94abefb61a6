package bucket

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// Page is a stretch of an inbox, newest first.
type Page struct {
	// Entries are at most as many as were asked for: deleted ones are left out and not made up for.
	Entries []Entry
	// Next is where the next page begins, or nil at the end of the inbox.
	Next *Cursor
	// Buckets counts the buckets whose entries were read for this page.
	Buckets int
	// Slots counts the slots that are taken in the whole inbox.
	Slots int64
}

// ReadPage reads the page of at most limit entries that begins below before, or at the newest entry if before
// is nil. The hint may be behind.
//
// It reads from the head, or from the cursor's bucket, downward, merges the entries by id, and shows
// those above the floor of the lowest bucket it read, since no bucket further down can hold one of those. Where
// messages came in order, that is one bucket more than the page fills: two for 50, three for 100. For a page
// further down, buckets above the cursor's are read only if a message came so late that it belongs there.
func ReadPage(ctx context.Context, store Store, owner message.UserID, hint Hint, before *Cursor, limit int) (Page, error) {
	r := reading{store: store, owner: owner, limit: limit, bound: message.MaxID}
	var err error
	if before == nil {
		err = r.fromHead(ctx, hint)
	} else {
		err = r.fromCursor(ctx, hint, *before)
	}
	if err != nil {
		return Page{}, fmt.Errorf("page of %s: %w", owner, err)
	}
	for len(r.shown()) < limit && r.lowest().Sequence > 0 {
		if err := r.readBelow(ctx); err != nil {
			return Page{}, fmt.Errorf("page of %s: %w", owner, err)
		}
	}
	return r.page(), nil
}

// reading is a page being read.
type reading struct {
	store Store
	owner message.UserID
	limit int
	bound message.ID // only entries below it belong to this page or a later one
	slots int64

	run  []Bucket // consecutive, the highest first
	late []Bucket // above run, with entries that came late
}

// span is how many buckets a page takes if no message came late.
func (r *reading) span() uint32 {
	return uint32((r.limit+Capacity-1)/Capacity + 1) //nolint:gosec // limit is a page size
}

func (r *reading) fromHead(ctx context.Context, hint Hint) error {
	span := r.span()
	low := hint.Sequence - min(hint.Sequence, span-1)
	run, err := r.store.Range(ctx, r.owner, low, math.MaxUint32, int(span))
	if err != nil {
		return err
	}
	r.run = run
	if len(run) > 0 {
		r.slots = Position(run[0].Sequence, run[0].Slots())
	}
	return nil
}

func (r *reading) fromCursor(ctx context.Context, hint Hint, c Cursor) error {
	span := r.span()
	heads, err := r.store.Heads(ctx, []Ref{{Owner: r.owner, Sequence: hint.Sequence}})
	if err != nil {
		return err
	}
	head := heads[0]
	if len(head.IDs) == 0 || c.Sequence > head.Sequence {
		return ErrCursor
	}
	r.slots, r.bound = Position(head.Sequence, len(head.IDs)), c.ID
	low := c.Sequence - min(c.Sequence, span-1)
	if r.run, err = r.store.Range(ctx, r.owner, low, c.Sequence, int(span)); err != nil {
		return err
	}
	if len(r.run) == 0 {
		return ErrCursor
	}
	if c.Sequence < head.Sequence {
		r.late, err = r.store.Overlapping(ctx, r.owner, c.Sequence, c.ID)
	}
	return err
}

func (r *reading) readBelow(ctx context.Context) error {
	sequence := r.lowest().Sequence - 1
	more, err := r.store.Range(ctx, r.owner, sequence, sequence, 1)
	if err != nil {
		return err
	}
	if len(more) == 0 {
		return fmt.Errorf("bucket %d is missing", sequence)
	}
	r.run = append(r.run, more...)
	return nil
}

func (r *reading) lowest() Bucket {
	if len(r.run) == 0 {
		return Bucket{}
	}
	return r.run[len(r.run)-1]
}

// shown returns the entries that may be shown already, newest first, tombstones included.
func (r *reading) shown() []Entry {
	lowest := r.lowest()
	var shown []Entry
	for _, buckets := range [][]Bucket{r.late, r.run} {
		for _, b := range buckets {
			for _, e := range b.Entries {
				if e.ID.Less(r.bound) && (lowest.Sequence == 0 || lowest.Floor.Less(e.ID)) {
					shown = append(shown, e)
				}
			}
		}
	}
	slices.SortFunc(shown, func(x, y Entry) int { return y.ID.Compare(x.ID) })
	return shown
}

func (r *reading) page() Page {
	page := Page{Buckets: len(r.run) + len(r.late), Slots: r.slots}
	shown := r.shown()
	more := r.lowest().Sequence > 0
	if len(shown) > r.limit {
		shown, more = shown[:r.limit], true
	}
	if more {
		last := shown[len(shown)-1].ID
		page.Next = &Cursor{ID: last, Sequence: r.highestBelow(last)}
	}
	page.Entries = slices.DeleteFunc(shown, func(e Entry) bool { return e.Deleted })
	return page
}

// highestBelow returns the highest bucket that was read with a floor below id.
func (r *reading) highestBelow(id message.ID) uint32 {
	for _, b := range r.run {
		if b.Floor.Less(id) {
			return b.Sequence
		}
	}
	return r.lowest().Sequence
}
