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
	// OnRead reads the newest messages of a stretch, at most twice the limit. It returns those that are for the owner, descending, the part of the
	// stretch that it has not examined, and how many messages it has read: at least one, unless no part is left.
	OnRead func(ctx context.Context, s Stretch, limit int) (entries []Entry, left Stretch, read int, err error)
	// Search finds the buckets that may have entries of the page; nil reads all.
	Search *Search
}

// Found is an entry, and where ReadPage found it.
type Found struct {
	Entry Entry
	// Absent reports whether the entry was in no bucket. If so, it has neither Sequence nor Position.
	Absent   bool
	Sequence uint32
	Position int64
}

const (
	// filteredAtOnce bounds how many slots of buckets a filtered page reads at a time, and with them its memory.
	filteredAtOnce = 32 * Capacity
	// searchedAtOnce is how many messages a filtered page asks for at a time.
	searchedAtOnce = 250
	// searchesPerPage is how often a filtered page calls OnRead. An inbox may have many small gaps, and each needs a call.
	searchesPerPage = 32
)

// searching is what a filtered page has examined.
type searching struct {
	// examined are the ids in the buckets that were read, tombstones included. They are kept only if there are absent stretches.
	examined map[message.ID]bool
	// unread is the id below which absent stretches were not examined, or zero.
	unread message.ID
	// absent are the ids of all messages that absent stretches have, and buckets do not.
	absent []message.ID
	// messages counts the messages that were read, and calls how often OnRead was called.
	messages, calls int
	found           found
}

// takes reports whether an entry of a bucket belongs to a filtered page.
func (r *reading) takes(b *Bucket, slot int) bool {
	e := b.Entries[slot]
	if len(r.Absent) > 0 {
		if r.search.examined == nil {
			r.search.examined = make(map[message.ID]bool)
		}
		r.search.examined[e.ID] = true
	}
	return !e.Deleted && r.Filter.Keep(Found{Entry: e, Sequence: b.Sequence, Position: r.store.Size().Position(b.Sequence, slot)})
}

// mayRead reports whether a filtered page may read another bucket.
func (r *reading) mayRead() bool {
	if len(r.run)+r.late < r.Filter.Buckets {
		return true
	}
	return !r.least().Next().Less(r.bound) // the next page would begin where this one did
}

// more returns how many buckets readBelow reads for a filtered page.
func (r *reading) more() uint32 {
	atOnce := max(1, filteredAtOnce/int(r.store.Size()))
	if r.field != AllFields { // nothing is left out but tombstones
		atOnce = min(atOnce, max(1, int(bucketsFor(r.Limit-len(r.held()), r.store.Size()))))
	}
	return uint32(min(max(1, r.Filter.Buckets-len(r.run)-r.late), atOnce)) //nolint:gosec // it is small
}

// fill reads what a filtered page needs, after its first buckets. It searches the absent stretches as far as the buckets reach before it reads
// more buckets: what lies below an unread part of a stretch belongs to a later page.
func (r *reading) fill(ctx context.Context) error {
	for part := (Stretch{After: r.least(), Before: r.bound}); ; part = (Stretch{After: r.least(), Before: part.After.Next()}) {
		if err := r.searchAbsent(ctx, part); err != nil {
			return err
		}
		if len(r.held())+len(r.absent) >= r.Limit || !r.search.unread.IsZero() || !r.lower() || !r.mayRead() {
			return r.raiseAbove(ctx)
		}
		if err := r.readBelow(ctx); err != nil {
			return err
		}
	}
}

// searchAbsent searches the absent stretches in a part of the inbox, until the page is full or its budget spent.
func (r *reading) searchAbsent(ctx context.Context, part Stretch) error {
	for _, s := range union(r.Absent) {
		for s = s.Within(part); !s.Empty() && len(r.absent)+r.heldFrom(s.Before) <= r.Limit; {
			limit := min((r.Filter.Messages-r.search.messages)/2, searchedAtOnce)
			if limit < max(1, min(r.Filter.Messages/2, searchedAtOnce)/4) || r.search.calls == searchesPerPage {
				r.search.unread = s.Before
				return nil
			}
			entries, left, read, err := r.Filter.OnRead(ctx, s, limit)
			if err != nil {
				return err
			}
			r.search.messages += read
			r.search.calls++
			for _, e := range entries {
				if r.search.examined[e.ID] {
					continue
				}
				r.search.absent = append(r.search.absent, e.ID)
				if r.Filter.Keep(Found{Entry: e, Absent: true}) {
					r.absent = append(r.absent, e)
				}
			}
			s = left
		}
	}
	return nil
}

// heldFrom counts the entries of the buckets that may be shown already, from an id on.
func (r *reading) heldFrom(id message.ID) int {
	n, _ := slices.BinarySearchFunc(r.held(), id, func(e Entry, id message.ID) int {
		if e.ID.Less(id) {
			return 1
		}
		return -1
	})
	return n
}

// filteredPage is page for a filtered page.
func (r *reading) filteredPage() Page {
	page := Page{Buckets: len(r.run) + r.late, Messages: r.search.messages, Slots: r.head.End(r.store.Size()), Deletions: r.deletions, Expired: r.expired}
	page.Entries = r.merged(r.held(), r.absent, r.Limit+1)
	end := r.search.unread
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
	for _, id := range r.search.absent {
		if !id.Less(end) {
			page.Absent = append(page.Absent, id)
		}
	}
	return page
}
