package bucket

import (
	"context"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// walk reads the buckets of a page downward, and merges their entries by id. Both kinds of pages walk in the same way, and differ in where they stop.
type walk struct {
	PageRequest

	store Store
	order func(x, y Found) int
	field Field // the one that is read of entries
	// keep reports whether an entry may be shown; nil keeps all, tombstones included.
	keep func(Found) bool

	bound  message.ID // only entries below it belong to this page or a later one
	bottom message.ID // only entries above it belong to a page

	head     Bucket
	counting counting
	run      []Outline // of the buckets that were read one below the other, the highest first; the Index may have left out some between
	late     int       // how many buckets above run were read, because entries came late to them
	kept     int       // about how many bytes the contents of newest take, and of those dropped from it
	newest   []Found   // of the buckets that were read, the newest first, at most Limit and one more
}

func newWalk(store Store, req PageRequest, order func(x, y Found) int) *walk {
	w := &walk{PageRequest: req, store: store, order: order, bound: message.MaxID, bottom: greater(req.Above, req.Purged)}
	w.counting = counting{owner: req.Owner, Inventory: Inventory{Basis: req.Basis, Size: store.Size()}}
	if below := req.Below; !below.IsZero() && (req.Before == nil || below.Less(req.Before.ID)) {
		w.Before = &Cursor{ID: below, Sequence: Unlocated}
	}
	return w
}

// buckets counts the buckets that were read.
func (w *walk) buckets() int { return len(w.run) + w.late }

// first is how many buckets the first read takes: as many as the page needs if no message came late.
func (w *walk) first() uint32 {
	n := bucketsFor(w.Limit, w.store.Size()) + 1
	if w.Filter != nil {
		n = min(n, uint32(max(1, w.Filter.Buckets))) //nolint:gosec // it is small
	}
	return n
}

// bucketsFor returns how many buckets of a size so many entries fill.
func bucketsFor(entries int, size Size) uint32 {
	return uint32((entries + int(size) - 1) / int(size)) //nolint:gosec // entries are at most a page
}

// begin reads the first buckets of the page, and the deletions.
func (w *walk) begin(ctx context.Context) error {
	if w.Before != nil {
		return w.beginBelow(ctx, *w.Before)
	}
	n := w.first()
	low := w.Hint.Sequence - min(w.Hint.Sequence, n-1)
	buckets, deletions, err := w.store.Newest(ctx, w.Owner, low, int(n), w.deletionsFrom(w.store.Size()))
	if err != nil {
		return err
	}
	w.counting.Deletions = deletions
	if len(buckets) > 0 {
		w.head = buckets[0]
	}
	return w.add(buckets)
}

// beginBelow begins below a cursor. The bucket in a cursor is a hint: a client can make a cursor with any bucket. If another one is the highest with
// a floor below the cursor's id, beginBelow searches for that.
func (w *walk) beginBelow(ctx context.Context, c Cursor) (err error) {
	w.bound = c.ID
	if err = w.readDeletions(ctx); err != nil {
		return err
	}
	if w.head, err = ReadHead(ctx, w.store, w.Owner, w.Hint); err != nil {
		return err
	}
	search := func() (uint32, error) { return highestBelow(ctx, w.store, w.Owner, w.head.Outline, c.ID, 0) }
	switch {
	case w.head.Slots == 0 && c.Sequence == Unlocated:
		return nil
	case w.head.Slots == 0:
		return ErrCursor
	case c.Sequence == Unlocated:
		if c.Sequence, err = search(); err != nil {
			return err
		}
	case c.Sequence > w.head.Sequence:
		return ErrCursor
	}
	run, late, right, err := w.readFrom(ctx, c.Sequence, true)
	if err == nil && !right {
		if c.Sequence, err = search(); err == nil {
			run, late, _, err = w.readFrom(ctx, c.Sequence, false)
		}
	}
	if err != nil {
		return err
	}
	if len(run) == 0 || run[0].Sequence < c.Sequence {
		return lost(w.Owner, c.Sequence)
	}
	if err := w.add(run); err != nil {
		return err
	}
	for _, b := range late {
		w.merge(b)
	}
	w.late = len(late)
	return nil
}

// readDeletions reads the deletions. They come first: a count may then miss one, but never has one of a slot that it misses.
func (w *walk) readDeletions(ctx context.Context) (err error) {
	w.counting.Deletions, err = ReadDeletions(ctx, w.store, w.Owner, w.deletionsFrom(w.store.Size()))
	return err
}

// readFrom reads the buckets from one downward, and those above it to which messages of the page came late. If check is set, it also reads
// the next bucket above, unless that is the head. It reports whether the one given is the highest with a floor below the page.
func (w *walk) readFrom(ctx context.Context, sequence uint32, check bool) (run, late []Bucket, right bool, err error) {
	section := Section{Owner: w.Owner, Low: sequence - min(sequence, w.first()-1), High: sequence, Bytes: ReadBytes}
	if sequence < w.head.Sequence {
		section.Late = w.bound
	}
	check = check && sequence+1 < w.head.Sequence
	if check {
		section.High++
	}
	if run, err = ReadSection(ctx, w.store, section, w.field); err != nil {
		return nil, nil, false, err
	}
	for len(run) > 0 && run[0].Sequence > section.High && !run[0].Stub { // late buckets come first, and are no stubs
		late, run = append(late, run[0]), run[1:]
	}
	floor := w.head.Floor // of the next bucket
	if check {
		if len(run) == 0 || run[0].Sequence < section.High {
			return nil, nil, false, lost(w.Owner, section.High)
		}
		next := run[0]
		floor, run = next.Floor, run[1:]
		if slices.ContainsFunc(next.Entries, func(e Entry) bool { return !e.ID.IsZero() && e.ID.Less(w.bound) }) {
			late = append(late, next)
		}
		if len(run) == 0 { // the read ended at the bucket above
			section.High, section.Late = sequence, message.ID{}
			if run, err = ReadSection(ctx, w.store, section, w.field); err != nil {
				return nil, nil, false, err
			}
		}
	}
	tooHigh := len(run) > 0 && run[0].Sequence > 0 && !run[0].Floor.Less(w.bound)
	tooLow := sequence < w.head.Sequence && floor.Less(w.bound)
	return run, late, !tooHigh && !tooLow, nil
}

// down reads as many buckets below one.
func (w *walk) down(ctx context.Context, above, count uint32) error {
	more, err := ReadSection(ctx, w.store, Section{Owner: w.Owner, Low: above - min(count, above), High: above - 1, Bytes: ReadBytes}, w.field)
	if err != nil {
		return err
	}
	if len(more) == 0 || more[0].Sequence+1 < above {
		return lost(w.Owner, above-1)
	}
	return w.add(more)
}

// add adds consecutive buckets below those of run, the highest first. It fails if one is missing between two others.
func (w *walk) add(buckets []Bucket) error {
	for i, b := range buckets {
		if i > 0 && b.Sequence+1 < buckets[i-1].Sequence {
			return lost(w.Owner, buckets[i-1].Sequence-1)
		}
		w.take(b)
	}
	return nil
}

// take adds a bucket below those of run. Buckets between these have no entry of the page.
func (w *walk) take(b Bucket) {
	w.merge(b)
	w.run = append(w.run, b.Outline)
}

// merge merges the entries of a bucket into newest. Its cost does not depend on how many buckets were read before, because an entry that
// does not fit on the page is dropped. Nothing that is read later can bring such an entry back. What the bucket says has expired ends the page.
func (w *walk) merge(b Bucket) {
	w.counting.saw(b)
	if w.bottom = greater(w.bottom, b.Purged); b.Stub {
		w.bottom = greater(w.bottom, b.Last)
	}
	added := make([]Found, 0, len(b.Entries))
	for slot, e := range b.Entries {
		f := Found{Entry: e, Sequence: b.Sequence, Position: w.store.Size().Position(b.Sequence, slot)}
		if !e.ID.IsZero() && e.ID.Less(w.bound) && (w.keep == nil || w.keep(f)) {
			added, w.kept = append(added, f), w.kept+e.Size()
		}
	}
	slices.SortFunc(added, w.order)
	w.newest = w.merged(w.newest, added, w.Limit+1)
}

// merged returns the first entries of two sorted lists in order, at most limit; nil if there are none.
func (w *walk) merged(x, y []Found, limit int) []Found {
	if len(x)+len(y) == 0 {
		return nil
	}
	merged := make([]Found, 0, min(len(x)+len(y), limit))
	for len(merged) < cap(merged) {
		if len(y) == 0 || len(x) > 0 && w.order(x[0], y[0]) <= 0 {
			merged, x = append(merged, x[0]), x[1:]
		} else {
			merged, y = append(merged, y[0]), y[1:]
		}
	}
	return merged
}

// enough reports whether the page has so many bytes that it has to end, and has come so far that the next one begins at another place.
func (w *walk) enough() bool { return w.kept >= ReadBytes && w.least().Next().Less(w.bound) }

// lower reports whether a lower bucket may hold an entry of this page or a later one.
func (w *walk) lower() bool { return w.lowest().Sequence > 0 && w.bottom.Less(w.lowest().Floor) }

// least returns the id above which the buckets that were read have all entries of the page. It is not below bottom.
func (w *walk) least() message.ID {
	if w.lower() {
		return w.lowest().Floor
	}
	return w.bottom
}

func (w *walk) lowest() Outline {
	if len(w.run) == 0 {
		return Outline{}
	}
	return w.run[len(w.run)-1]
}

// held returns the entries of the buckets that may be shown already: those above the floor of the lowest bucket and above bottom. It
// returns at most Limit and one more, the newest first.
func (w *walk) held() []Found {
	n, _ := slices.BinarySearchFunc(w.newest, w.least(), func(f Found, least message.ID) int { return least.Compare(f.ID) })
	return w.newest[:n]
}

// highestBelow returns the highest bucket that was read with a floor below id, unless buckets are being added that hold
// older messages.
func (w *walk) highestBelow(id message.ID) uint32 {
	if w.Growing {
		return Unlocated
	}
	for _, b := range w.run {
		if b.Floor.Less(id) {
			return b.Sequence
		}
	}
	return w.lowest().Sequence
}

func greater(x, y message.ID) message.ID {
	if x.Less(y) {
		return y
	}
	return x
}
