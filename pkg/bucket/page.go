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
	Entries []Found
	// Next is where the next page begins, or nil at the end of the inbox.
	Next *Cursor
	// Buckets counts the buckets whose entries were read for this page, and Messages the messages that a Filter has had read.
	Buckets  int
	Messages int
	// Slots counts the taken slots of the whole inbox, and Deleted the deletions that there ever were, as they were when the page shows them or before.
	Slots, Deleted int64
	// Tally counts the whole inbox. It may be impossible: see Tally.Possible.
	Tally Tally
	// Absent are the ids of the entries that are in no bucket.
	Absent []message.ID
}

// PageRequest asks for a page of an inbox.
type PageRequest struct {
	// Basis is what the page counts by. The page shows nothing up to Purged.
	Basis

	Owner message.UserID
	// Hint is a hint for the head. It may be behind the head.
	Hint Hint
	// Before is the cursor of the previous page. The page begins below it, or at the newest entry if it is nil.
	Before *Cursor
	// Above and Below bound the ids of the page, both excluded. The zero ids bound nothing. The page that reaches Above is the last one.
	Above, Below message.ID
	// Filter selects the entries; nil selects all.
	Filter *Filter
	// Limit is the greatest number of entries.
	Limit int
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

// ReadPage reads a page of an inbox. A page with many large entries has fewer than Limit: it ends where their contents reach about ReadBytes.
//
// It reads buckets from the head, or from the cursor's bucket, downward, and merges their entries by id. It shows the entries above the
// floor of the lowest bucket that it read, because no lower bucket can hold such an entry. If messages came in order, that is one bucket
// more than the page fills. With 50 slots, these are two buckets for 50 entries, and three for 100. For a page below a cursor, it also
// reads the higher buckets to which a message of that page came late.
//
// A page below a cursor without a bucket, or below PageRequest.Below, has to find its place. Of an inbox of n buckets, it reads the head
// and at most 1 + log2(n) floors.
//
// It shows no message that has expired, also if a bucket that it reads says so and Purged does not: the bucket was emptied since.
//
// If an absent stretch reaches into the page, ReadPage merges the entries of OnRead. It shows an entry that is also in a bucket
// once, as it is in the bucket.
func ReadPage(ctx context.Context, store Store, req PageRequest) (Page, error) {
	return readPage(ctx, store, req, newestFirst)
}

// newestFirst orders entries by their ids, descending.
func newestFirst(x, y Found) int { return y.ID.Compare(x.ID) }

// readPage is ReadPage, with the function that orders entries.
func readPage(ctx context.Context, store Store, req PageRequest, order func(x, y Found) int) (Page, error) {
	w := newWalk(store, req, order)
	read := readPlain
	if req.Filter != nil {
		read = readFiltered
	}
	page, err := read(ctx, w)
	if err == nil {
		page.Buckets, page.Slots, page.Deleted = w.buckets(), w.head.End(store.Size()), w.counting.Deletions.Ever
		page.Tally, err = w.tally(ctx)
	}
	if err != nil {
		return Page{}, fmt.Errorf("page of %s: %w", req.Owner, err)
	}
	return page, nil
}

// tally counts the inbox, after its page was read.
func (w *walk) tally(ctx context.Context) (t Tally, err error) {
	w.counting.Slots = w.head.End(w.store.Size())
	if w.counting.Expired, err = ReadExpired(ctx, w.store, w.Owner, w.head, w.Purged, w.Oldest); err != nil {
		return t, err
	}
	if err := readCovered(ctx, w.store, []*counting{&w.counting}); err != nil {
		return t, err
	}
	return Counts(w.counting.Inventory), nil
}

// readPlain reads a page of all entries: as many buckets as it fills, and then what the absent stretches have to add.
func readPlain(ctx context.Context, w *walk) (Page, error) {
	if err := w.begin(ctx); err != nil {
		return Page{}, err
	}
	for len(w.held()) < w.Limit && w.lower() && (!w.enough() || len(w.held()) == 0) {
		if err := w.down(ctx, w.lowest().Sequence, bucketsFor(w.Limit-len(w.held()), w.store.Size())); err != nil {
			return Page{}, err
		}
	}
	absent, cut, err := readAbsent(ctx, w)
	if err != nil {
		return Page{}, err
	}
	var page Page
	shown, more := w.merged(w.held(), absent, w.Limit+1), w.lower()
	for n := len(shown); n > w.Limit || n > 0 && shown[n-1].ID.Less(cut); n-- {
		shown, more = shown[:n-1], true
	}
	more = more || !cut.IsZero()
	for n, bytes := 1, 0; n < len(shown); n++ {
		if bytes += shown[n-1].Size(); bytes >= ReadBytes {
			shown, more = shown[:n:n], true
		}
	}
	shown = slices.Clone(shown) // so that the others are free
	if more {
		last := shown[len(shown)-1].ID
		page.Next = &Cursor{ID: last, Sequence: w.highestBelow(last)}
	}
	for _, f := range absent {
		if len(shown) > 0 && !f.ID.Less(shown[len(shown)-1].ID) {
			page.Absent = append(page.Absent, f.ID)
		}
	}
	page.Entries = slices.DeleteFunc(shown, func(f Found) bool { return f.Deleted })
	return page, nil
}

// absentAtOnce is how many entries of an absent stretch are read at a time.
const absentAtOnce = 64

// readAbsent reads what the absent stretches have to add to a page: nothing below its last entry, if that is known. The result is newest first. If
// this would be more than ReadBytes, it reads a part, and the page ends at cut.
func readAbsent(ctx context.Context, w *walk) (absent []Found, cut message.ID, err error) {
	part, inBuckets := Stretch{After: w.least(), Before: w.bound}, w.held()
	if len(inBuckets) > w.Limit {
		part.After = inBuckets[w.Limit-1].ID
	}
	bytes := 0
	for _, s := range union(w.Absent) {
		for s = s.Within(part); !s.Empty() && len(absent) <= w.Limit && cut.IsZero(); { // one more tells that there is another page
			limit := min(w.Limit+1-len(absent), absentAtOnce)
			entries, err := w.OnRead(ctx, s, limit)
			if err != nil {
				return nil, cut, err
			}
			for _, e := range entries {
				absent, bytes, s.Before = append(absent, Found{Entry: e, Absent: true}), bytes+e.Size(), e.ID
			}
			if bytes >= ReadBytes {
				cut = s.Before
			}
			if len(entries) < limit {
				break
			}
		}
	}
	held := make(map[message.ID]bool, len(inBuckets))
	for _, f := range inBuckets {
		held[f.ID] = true
	}
	return slices.DeleteFunc(absent, func(f Found) bool { return held[f.ID] }), cut, nil
}
