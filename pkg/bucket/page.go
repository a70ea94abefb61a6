package bucket

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// Page is a part of an inbox, newest first.
type Page struct {
	// Entries are at most PageRequest.Limit entries. Deleted entries are left out, and others do not replace them.
	Entries []Entry
	// Next is where the next page begins, or nil at the end of the inbox.
	Next *Cursor
	// Buckets counts the buckets whose entries were read for this page, and Messages the messages that a Filter has had read.
	Buckets  int
	Messages int
	// Slots counts the taken slots of the whole inbox, and Deletions its tombstones. Counts takes both.
	Slots     int64
	Deletions Deletions
	// Expired is what has expired of the whole inbox, for Counts.
	Expired Expired
	// Absent are the ids of the entries that are in no bucket.
	Absent []message.ID
}

// PageRequest asks for a page of an inbox.
type PageRequest struct {
	Owner message.UserID
	// Hint is a hint for the head. It may be behind the head.
	Hint Hint
	// Before is the cursor of the previous page. The page begins below it, or at the newest entry if it is nil.
	Before *Cursor
	// Above and Below bound the ids of the page, both excluded. The zero ids bound nothing. The page that reaches Above is the last one.
	Above, Below message.ID
	// Purged is the owner's purge point, and Oldest a bucket with a floor at or below it. The page shows nothing up to Purged.
	Purged message.ID
	Oldest uint32
	// Filter selects the entries; nil selects all.
	Filter *Filter
	// Limit is the greatest number of entries.
	Limit int
	// DeletionsFrom is the lowest bucket whose tombstones are in the Deletions of the page.
	DeletionsFrom uint32
	// Absent are the stretches whose messages may be missing in the buckets, in no particular order. They may overlap.
	Absent []Stretch
	// Growing says that a rehydration is appending, or will append, older messages to the buckets.
	Growing bool
	// OnRead returns at most limit entries of a stretch, the newest, descending. It also returns entries that are in a bucket.
	// ReadPage calls it only if there are absent stretches, and no filter.
	OnRead func(ctx context.Context, s Stretch, limit int) ([]Entry, error)
}

// Stretch is a range of ids. Both ends are excluded.
type Stretch struct{ After, Before message.ID }

// Within returns the part of the stretch that lies in o.
func (s Stretch) Within(o Stretch) Stretch {
	if s.After.Less(o.After) {
		s.After = o.After
	}
	if o.Before.Less(s.Before) {
		s.Before = o.Before
	}
	return s
}

// Empty reports whether no id is in the stretch.
func (s Stretch) Empty() bool { return !s.After.Less(s.Before) || s.After.Next() == s.Before }

// union merges overlapping stretches, and returns the result with the newest first.
func union(stretches []Stretch) []Stretch {
	stretches = slices.Clone(stretches)
	slices.SortFunc(stretches, func(x, y Stretch) int { return y.Before.Compare(x.Before) })
	merged := stretches[:0]
	for _, s := range stretches {
		n := len(merged)
		switch {
		case n == 0 || !merged[n-1].After.Less(s.Before):
			merged = append(merged, s)
		case s.After.Less(merged[n-1].After):
			merged[n-1].After = s.After
		}
	}
	return merged
}

// ReadPage reads a page of an inbox.
//
// It reads buckets from the head, or from the cursor's bucket, downward, and merges their entries by id. It shows the entries above
// the floor of the lowest bucket that it read, because no lower bucket can hold such an entry. If messages came in order, that is
// one bucket more than the page fills: of 50 slots each, two for 50 entries, and three for 100. For a page below a cursor, it also reads the higher
// buckets to which a message of that page came late.
//
// Of an inbox of n buckets, a page below a cursor without a bucket, or below PageRequest.Below, reads the head and at most 1 + log2(n)
// floors to find its place.
//
// It shows no message that has expired, also if a bucket that it reads says so and Purged does not: the bucket was emptied since.
//
// If an absent stretch reaches into the page, ReadPage merges the entries of OnRead. It shows an entry that is also in a bucket
// once, as it is in the bucket.
func ReadPage(ctx context.Context, store Store, req PageRequest) (Page, error) {
	return readPage(ctx, store, req, newestFirst)
}

// newestFirst orders entries by their ids, descending.
func newestFirst(x, y Entry) int { return y.ID.Compare(x.ID) }

// readPage is ReadPage, with the function that orders entries.
func readPage(ctx context.Context, store Store, req PageRequest, order func(x, y Entry) int) (Page, error) {
	r := reading{PageRequest: req, store: store, bound: message.MaxID, order: order}
	r.Above = greater(r.Above, r.Purged)
	if below := req.Below; !below.IsZero() && (req.Before == nil || below.Less(req.Before.ID)) {
		r.Before = &Cursor{ID: below, Sequence: Unlocated}
	}
	var err error
	if r.Before == nil {
		err = r.fromHead(ctx)
	} else {
		err = r.fromCursor(ctx, *r.Before)
	}
	if err == nil && req.Filter != nil {
		err = r.fill(ctx)
	} else {
		for err == nil && len(r.held()) < req.Limit && r.lower() {
			err = r.readBelow(ctx)
		}
		if err == nil {
			err = r.readAbsent(ctx)
		}
	}
	if err == nil {
		r.expired, err = ReadExpired(ctx, store, req.Owner, r.head, r.Purged, r.Oldest)
	}
	switch {
	case err != nil:
		return Page{}, fmt.Errorf("page of %s: %w", req.Owner, err)
	case req.Filter != nil:
		return r.filteredPage(), nil
	default:
		return r.page(), nil
	}
}

// reading is a page being read.
type reading struct {
	PageRequest
	store Store
	field Field      // the only one that is read; zero for all
	bound message.ID // only entries below it belong to this page or a later one
	order func(x, y Entry) int

	head      Bucket
	deletions Deletions
	expired   Expired

	run    []Bucket // consecutive but for what Filter.Search leaves out, the highest first; without the entries, which are in newest
	late   int      // how many buckets above run were read, because entries came late to them
	newest []Entry  // of the buckets that were read, the newest first, at most Limit and one more; tombstones included
	absent []Entry  // in no bucket that was read, the newest first
	search searching
}

// span is how many buckets the first read takes: as many as the page needs if no message came late.
func (r *reading) span() uint32 {
	span := bucketsFor(r.Limit, r.store.Size()) + 1
	if r.Filter != nil {
		span = min(span, uint32(max(1, r.Filter.Buckets))) //nolint:gosec // it is small
	}
	return span
}

// bucketsFor returns how many buckets of a size so many entries fill.
func bucketsFor(entries int, size Size) uint32 {
	return uint32((entries + int(size) - 1) / int(size)) //nolint:gosec // entries are at most a page
}

func (r *reading) fromHead(ctx context.Context) error {
	span := r.span()
	low := r.Hint.Sequence - min(r.Hint.Sequence, span-1)
	buckets, deletions, err := r.store.Newest(ctx, r.Owner, low, int(span), r.DeletionsFrom)
	if err != nil {
		return err
	}
	r.deletions = deletions
	if len(buckets) > 0 {
		r.head = buckets[0]
	}
	return r.add(buckets)
}

func (r *reading) fromCursor(ctx context.Context, c Cursor) error {
	r.bound = c.ID
	head, err := readHead(ctx, r.store, r.Owner, r.Hint)
	if err != nil {
		return err
	}
	switch {
	case head.Slots == 0 && c.Sequence == Unlocated:
		return nil // an inbox without a head has no deletions
	case head.Slots == 0:
		return ErrCursor
	case c.Sequence == Unlocated:
		if c.Sequence, err = highestBelow(ctx, r.store, r.Owner, head.Outline, c.ID, 0); err != nil {
			return err
		}
	case c.Sequence > head.Sequence:
		return ErrCursor
	}
	r.head = head
	run, err := r.place(ctx, &c, head.Outline)
	if err != nil {
		return err
	}
	if len(run) == 0 || run[0].Sequence < c.Sequence {
		return lost(r.Owner, c.Sequence)
	}
	c.Sequence = run[0].Sequence // that of a stub may be higher
	if err := r.add(run); err != nil {
		return err
	}
	if c.Sequence < head.Sequence {
		late, err := ReadSpan(ctx, r.store, lateAbove(r.Owner, c.Sequence, c.ID), AllFields)
		if err != nil {
			return err
		}
		for _, b := range late {
			r.merge(b)
		}
		r.late = len(late)
	}
	r.deletions, err = ReadDeletions(ctx, r.store, r.Owner, r.DeletionsFrom)
	return err
}

// place reads the buckets from the cursor's downward. The bucket in a cursor is a hint: a client
// can make a cursor with any bucket. If the cursor's bucket is not the highest with a floor below the cursor's id, place searches for that
// bucket, and corrects the cursor.
func (r *reading) place(ctx context.Context, c *Cursor, head Outline) ([]Bucket, error) {
	span := r.span()
	high := c.Sequence
	if c.Sequence+1 < head.Sequence {
		high++ // for its floor; that of the head is known
	}
	run, err := ReadSpan(ctx, r.store, Span{Owner: r.Owner, Low: c.Sequence - min(c.Sequence, span-1), High: high}, AllFields)
	if err != nil || len(run) == 0 {
		return nil, err
	}
	above := head.Floor
	if high > c.Sequence {
		if run[0].Sequence < high {
			return nil, lost(r.Owner, high)
		}
		above, run = run[0].Floor, run[1:]
	}
	tooHigh := len(run) > 0 && run[0].Sequence > 0 && !run[0].Floor.Less(c.ID)
	tooLow := c.Sequence < head.Sequence && above.Less(c.ID)
	if !tooHigh && !tooLow {
		return run, nil
	}
	if c.Sequence, err = highestBelow(ctx, r.store, r.Owner, head, c.ID, 0); err != nil {
		return nil, err
	}
	return ReadSpan(ctx, r.store, Span{Owner: r.Owner, Low: c.Sequence - min(c.Sequence, span-1), High: c.Sequence}, AllFields)
}

// readBelow reads as many more buckets as the rest of the page fills.
func (r *reading) readBelow(ctx context.Context) error {
	if r.searches() {
		if found, err := r.readIndexed(ctx); found || err != nil {
			return err
		}
	}
	above := r.above()
	high := above - 1
	count := min(bucketsFor(r.Limit-len(r.held()), r.store.Size()), above)
	if r.Filter != nil {
		count = min(r.more(), above)
	}
	more, err := ReadSpan(ctx, r.store, Span{Owner: r.Owner, Low: above - count, High: high}, r.field)
	if err != nil {
		return err
	}
	if len(more) == 0 {
		return lost(r.Owner, high)
	}
	return r.add(more)
}

// add adds consecutive buckets below those of run, the highest first. It fails if one is missing between two others.
func (r *reading) add(buckets []Bucket) error {
	for _, b := range buckets {
		if above := r.above(); len(r.run) > 0 && b.Sequence+1 < above {
			return lost(r.Owner, above-1)
		}
		r.take(b)
	}
	return nil
}

// take adds a bucket below those of run. Buckets between these have no entry of the page.
func (r *reading) take(b Bucket) {
	r.merge(b)
	b.Entries = nil
	r.run = append(r.run, b)
}

// above returns the bucket above the next one that is read in order.
func (r *reading) above() uint32 {
	above := r.lowest().Sequence
	if r.search.found.done {
		above = min(above, r.search.found.first+1)
	}
	return above
}

// merge merges the entries of a bucket into newest. Its cost does not depend on how many buckets were read before, because an entry that
// does not fit on the page is dropped. Nothing that is read later can bring such an entry back. What the bucket says has expired ends the page.
func (r *reading) merge(b Bucket) {
	if r.Above = greater(r.Above, b.Purged); b.Stub {
		r.Above = greater(r.Above, b.Last)
	}
	added := make([]Entry, 0, len(b.Entries))
	for slot, e := range b.Entries {
		if !e.ID.IsZero() && e.ID.Less(r.bound) && (r.Filter == nil || r.takes(&b, slot)) {
			added = append(added, e)
		}
	}
	slices.SortFunc(added, r.order)
	r.newest = r.merged(r.newest, added, r.Limit+1)
}

// merged returns the first entries of two sorted lists in order, at most limit; nil if there are none.
func (r *reading) merged(x, y []Entry, limit int) []Entry {
	if len(x)+len(y) == 0 {
		return nil
	}
	merged := make([]Entry, 0, min(len(x)+len(y), limit))
	for len(merged) < cap(merged) {
		if len(y) == 0 || len(x) > 0 && r.order(x[0], y[0]) <= 0 {
			merged, x = append(merged, x[0]), x[1:]
		} else {
			merged, y = append(merged, y[0]), y[1:]
		}
	}
	return merged
}

// lower reports whether a lower bucket may hold an entry of this page or a later one.
func (r *reading) lower() bool { return r.lowest().Sequence > 0 && r.Above.Less(r.lowest().Floor) }

// least returns the id above which the buckets that were read have all entries of the page. It is not below Above.
func (r *reading) least() message.ID {
	if r.lower() {
		return r.lowest().Floor
	}
	return r.Above
}

func (r *reading) lowest() Bucket {
	if len(r.run) == 0 {
		return Bucket{}
	}
	return r.run[len(r.run)-1]
}

// readAbsent reads what the absent stretches have to add to the page: nothing below its last entry, if that is known.
func (r *reading) readAbsent(ctx context.Context) error {
	part := Stretch{After: r.least(), Before: r.bound}
	inBuckets := r.held()
	if len(inBuckets) > r.Limit {
		part.After = inBuckets[r.Limit-1].ID
	}
	for _, s := range union(r.Absent) {
		want := r.Limit + 1 - len(r.absent) // one more tells that there is another page
		if s = s.Within(part); s.Empty() || want == 0 {
			continue
		}
		entries, err := r.OnRead(ctx, s, want)
		if err != nil {
			return err
		}
		r.absent = append(r.absent, entries...)
	}
	held := make(map[message.ID]bool, len(inBuckets))
	for _, e := range inBuckets {
		held[e.ID] = true
	}
	r.absent = slices.DeleteFunc(r.absent, func(e Entry) bool { return held[e.ID] })
	return nil
}

// held returns the entries of the buckets that may be shown already: those above the floor of the lowest bucket and above Above. It
// returns at most Limit and one more, the newest first, tombstones included.
func (r *reading) held() []Entry {
	n, _ := slices.BinarySearchFunc(r.newest, r.least(), func(e Entry, least message.ID) int { return least.Compare(e.ID) })
	return r.newest[:n]
}

func (r *reading) page() Page {
	page := Page{Buckets: len(r.run) + r.late, Slots: r.head.End(r.store.Size()), Deletions: r.deletions, Expired: r.expired}
	shown := r.merged(r.held(), r.absent, r.Limit+1)
	more := r.lower()
	if len(shown) > r.Limit {
		shown, more = shown[:r.Limit], true
	}
	if more {
		last := shown[len(shown)-1].ID
		page.Next = &Cursor{ID: last, Sequence: r.highestBelow(last)}
	}
	for _, e := range r.absent {
		if len(shown) > 0 && !e.ID.Less(shown[len(shown)-1].ID) {
			page.Absent = append(page.Absent, e.ID)
		}
	}
	page.Entries = slices.DeleteFunc(shown, func(e Entry) bool { return e.Deleted })
	return page
}

// highestBelow returns the highest bucket that was read with a floor below id, unless buckets are being added that hold
// older messages.
func (r *reading) highestBelow(id message.ID) uint32 {
	if r.Growing {
		return Unlocated
	}
	for _, b := range r.run {
		if b.Floor.Less(id) {
			return b.Sequence
		}
	}
	return r.lowest().Sequence
}
