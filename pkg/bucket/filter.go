package bucket

import (
	"context"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// Filter selects the entries of a page, and bounds what ReadPage reads to find them. A page with a filter may end before it is full. Then its
// Next names the last place that was examined: the page may be empty, and only a page without Next is the last one.
type Filter struct {
	// Keep reports whether an entry belongs to the page. ReadPage calls it with no tombstone.
	Keep func(Found) bool
	// Buckets is how many buckets the page reads at most. If these do not lead to another place, because their floors are the same, or because
	// messages came late to others, the page reads more.
	Buckets int
	// Messages is how many messages the page reads at most to answer for absent stretches; at least 2. It reads fewer if it takes many calls.
	Messages int
	// OnRead reads the newest messages of a stretch, at most twice the limit. It returns those that are for the owner, descending, and the
	// part of the stretch that it has not examined. Read counts the messages that it has read: at least one, unless no part is left.
	OnRead func(ctx context.Context, s Stretch, limit int) (entries []Entry, left Stretch, read int, err error)
	// Search finds the buckets that may have entries of the page; nil reads all.
	Search *Search
}

// Found is an entry, and where it was found.
type Found struct {
	Entry

	// Absent reports whether the entry was in no bucket. If so, it has neither Sequence nor Position.
	Absent   bool
	Sequence uint32
	Position int64
}

const (
	// filteredAtOnce bounds how many slots of buckets a filtered page reads at a time, and with them its memory.
	filteredAtOnce = 32 * Capacity
	// searchedAtOnce is how many messages a filtered page asks for at a time.
	searchedAtOnce = 64
	// searchesPerPage is how often a filtered page calls OnRead. An inbox may have many small gaps, and each needs a call.
	searchesPerPage = 32
)

// filtering reads a filtered page.
type filtering struct {
	*walk

	// examined are the ids in the buckets that were read, tombstones included. They are kept only if there are absent stretches.
	examined map[message.ID]bool
	absent   []Found // of absent stretches, in no bucket that was read, that belong to the page, the newest first
	// unread is the id below which absent stretches were not examined, or zero.
	unread message.ID
	// found are the ids of all messages that absent stretches have, and buckets do not.
	found []message.ID
	// messages counts the messages that were read, and calls how often OnRead was called.
	messages, calls int

	index indexed
	// whole says that the entries that are added have bodies. bodies has the bucket of each entry of the page without one.
	whole  bool
	bodies map[message.ID]uint32
}

// readFiltered reads a page of the entries that a filter keeps, within its budget. It reads the bodies of these only.
func readFiltered(ctx context.Context, w *walk) (Page, error) {
	r := newFiltering(w)
	w.field, r.bodies = NoBody, make(map[message.ID]uint32)
	err := r.beginFiltered(ctx)
	var page Page
	if err == nil {
		page, err = r.read(ctx)
	}
	if err == nil {
		err = r.readBodies(ctx, &page)
	}
	return page, err
}

// beginFiltered is begin without bodies.
func (r *filtering) beginFiltered(ctx context.Context) (err error) {
	if r.Before != nil {
		return r.begin(ctx)
	}
	if err = r.readDeletions(ctx); err != nil {
		return err
	}
	return r.beginWithout(ctx)
}

// readBodies reads the bodies of a page. If they reach ReadBytes, the page ends there. It leaves out entries that have gone since.
func (r *filtering) readBodies(ctx context.Context, page *Page) error {
	wanted := make(map[uint32]bool) // buckets
	for _, e := range page.Entries {
		if sequence, lacks := r.bodies[e.ID]; lacks {
			wanted[sequence] = true
		}
	}
	read, bytes := make(map[message.ID]string), 0
	kept := page.Entries[:0]
	for i, e := range page.Entries {
		sequence, lacks := r.bodies[e.ID]
		if lacks && wanted[sequence] && bytes >= ReadBytes {
			end := page.Entries[i-1].ID
			page.Next = &Cursor{ID: end, Sequence: r.highestBelow(end)}
			page.Absent = slices.DeleteFunc(page.Absent, func(id message.ID) bool { return id.Less(end) })
			break
		}
		if lacks && wanted[sequence] {
			low := sequence
			for low > 0 && wanted[low-1] {
				low--
			}
			buckets, err := ReadSection(ctx, r.store, Section{Owner: r.Owner, Low: low, High: sequence, Bytes: ReadBytes}, AllFields)
			if err != nil {
				return err
			}
			delete(wanted, sequence) // also if the bucket has gone
			for _, b := range buckets {
				delete(wanted, b.Sequence)
				for _, found := range b.Entries {
					if _, lacks := r.bodies[found.ID]; lacks && !found.Deleted && !found.Expired {
						read[found.ID], bytes = found.Body, bytes+len(found.Body)
					}
				}
			}
		}
		there := true
		if lacks {
			e.Body, there = read[e.ID]
		}
		if there {
			kept = append(kept, e)
		}
	}
	page.Entries = kept
	return nil
}

func newFiltering(w *walk) *filtering {
	r := &filtering{walk: w}
	w.keep = r.keeps
	return r
}

// keeps reports whether an entry of a bucket belongs to the page.
func (r *filtering) keeps(f Found) bool {
	if len(r.Absent) > 0 {
		if r.examined == nil {
			r.examined = make(map[message.ID]bool)
		}
		r.examined[f.ID] = true
	}
	kept := !f.Deleted && r.Filter.Keep(f)
	if kept && r.bodies != nil && !r.whole {
		r.bodies[f.ID] = f.Sequence
	}
	return kept
}

// read reads what the page needs, after its first buckets. It searches the absent stretches as far as the buckets reach before it reads
// more buckets. What lies below an unread part of a stretch belongs to a later page.
func (r *filtering) read(ctx context.Context) (Page, error) {
	part := Stretch{After: r.least(), Before: r.bound}
	for {
		if err := r.searchAbsent(ctx, part); err != nil {
			return Page{}, err
		}
		if r.ends() {
			break
		}
		if err := r.readBelow(ctx); err != nil {
			return Page{}, err
		}
		part = Stretch{After: r.least(), Before: part.After.Next()}
	}
	if err := r.raiseBottom(ctx); err != nil {
		return Page{}, err
	}
	return r.page(), nil
}

// ends reports whether the page is full, or complete, or its budget spent.
func (r *filtering) ends() bool {
	full := len(r.held())+len(r.absent) >= r.Limit || r.enough()
	return full || !r.unread.IsZero() || !r.lower() || !r.mayRead()
}

// mayRead reports whether the page may read another bucket. One whose next page would begin at the same place must.
func (r *filtering) mayRead() bool {
	return r.buckets() < r.Filter.Buckets || !r.least().Next().Less(r.bound)
}

// readBelow reads the next buckets, which an index may find.
func (r *filtering) readBelow(ctx context.Context) error {
	if r.searches() {
		if found, err := r.readIndexed(ctx); found || err != nil {
			return err
		}
	}
	return r.down(ctx, r.above(), r.more())
}

// more returns how many buckets are read at a time.
func (r *filtering) more() uint32 {
	atOnce := max(1, filteredAtOnce/int(r.store.Size()))
	if r.field != NoBody { // nothing is left out but tombstones
		atOnce = min(atOnce, max(1, int(bucketsFor(r.Limit-len(r.held()), r.store.Size()))))
	}
	return uint32(min(max(1, r.Filter.Buckets-r.buckets()), atOnce)) //nolint:gosec // it is small
}

// searchAbsent searches the absent stretches in a part of the inbox, until the page is full or its budget spent.
func (r *filtering) searchAbsent(ctx context.Context, part Stretch) error {
	for _, s := range union(r.Absent) {
		for s = s.Within(part); !s.Empty() && len(r.absent)+r.heldFrom(s.Before) <= r.Limit; {
			limit := min((r.Filter.Messages-r.messages)/2, searchedAtOnce)
			if limit < max(1, min(r.Filter.Messages/2, searchedAtOnce)/4) || r.calls == searchesPerPage || r.calls > 0 && r.kept >= ReadBytes {
				r.unread = s.Before
				return nil
			}
			entries, left, read, err := r.Filter.OnRead(ctx, s, limit)
			if err != nil {
				return err
			}
			r.messages += read
			r.calls++
			for _, e := range entries {
				if r.examined[e.ID] {
					continue
				}
				r.found = append(r.found, e.ID)
				if f := (Found{Entry: e, Absent: true}); r.Filter.Keep(f) {
					r.absent, r.kept = append(r.absent, f), r.kept+e.Size()
				}
			}
			s = left
		}
	}
	return nil
}

// heldFrom counts the entries of the buckets that may be shown already, from an id on.
func (r *filtering) heldFrom(id message.ID) int {
	n, _ := slices.BinarySearchFunc(r.held(), id, func(f Found, id message.ID) int {
		if f.ID.Less(id) {
			return 1
		}
		return -1
	})
	return n
}

// page returns the page of what was read.
func (r *filtering) page() Page {
	page := Page{Messages: r.messages, Entries: r.merged(r.held(), r.absent, r.Limit+1)}
	end := r.unread
	for n := len(page.Entries); n > 0 && page.Entries[n-1].ID.Less(end); n-- {
		page.Entries = page.Entries[:n-1]
	}
	if r.lower() && end.IsZero() {
		end = r.least().Next()
	}
	if len(page.Entries) > r.Limit {
		page.Entries = page.Entries[:r.Limit]
		end = page.Entries[r.Limit-1].ID
	}
	if !end.IsZero() {
		page.Next = &Cursor{ID: end, Sequence: r.highestBelow(end)}
	}
	for _, id := range r.found {
		if !id.Less(end) {
			page.Absent = append(page.Absent, id)
		}
	}
	return page
}
