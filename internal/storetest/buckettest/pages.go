package buckettest

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
)

// reader is an owner's inbox with a model: a list of messages in the order of their arrival.
type reader struct {
	store bucket.Store
	owner message.UserID
	hint  bucket.Hint

	arrived []int
	deleted map[int]bool
	blanked map[int]bool
	absent  absence
	upTo    int          // -1 while no mark is set
	seen    map[int]bool // the content of the inbox, at or below upTo, when the mark was set
	mark    bucket.ReadMark
	flags   map[int]flag.Flags
	record  flag.Record // of flags
	// slotsSeen is how many slots the owner has seen.
	slotsSeen int
	purged    int // the messages up to this one have expired; -1 if none have
	emptied   int // buckets were emptied of those up to this one
	oldest    uint32
	buckets   int // the number of buckets read for the last page

	// registry, unless it is nil, has the declarations, and knows is what the process knows of them that appends. Index is that of the store.
	registry *registry
	knows    attribute.Set
	index    bucket.Index
}

// append appends entries, and returns how many are new.
func (r *reader) append(t tester, store bucket.Store, entries []bucket.Entry) int {
	t.Helper()
	appender := r.registry.appender(store, noHints{}, &r.knows, nil)
	results, err := appender.Append(t.Context(), []bucket.Append{{Owner: r.owner, Hint: r.hint, Entries: entries}})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	return results[0].New
}

func newReader(store bucket.Store, owner message.UserID) *reader {
	return &reader{
		store: store, owner: owner, deleted: map[int]bool{}, blanked: map[int]bool{}, seen: map[int]bool{}, flags: map[int]flag.Flags{},
		upTo: -1, purged: -1, emptied: -1,
	}
}

// deliver appends messages that the inbox does not have, in one batch.
func (r *reader) deliver(t tester, ns []int) {
	t.Helper()
	ns = slices.DeleteFunc(ordered(ns), func(n int) bool { return slices.Contains(r.arrived, n) || n <= r.emptied })
	require.Equal(t, len(ns), r.append(t, r.store, entries(ns...)))
	r.arrived = append(r.arrived, ns...)
}

// moveHint sets the hint to a random one that a writer may have seen.
func (r *reader) moveHint(t *rapid.T) {
	in := readInbox(t, r.store, r.owner)
	r.hint = in.hint(rapid.IntRange(0, len(in)).Draw(t, "hint"))
}

// below returns the messages below a bound, the newest first, deleted ones included.
func (r *reader) below(bound int) []int {
	all := append(r.absent.messages(), r.arrived...)
	ns := slices.DeleteFunc(ordered(all), func(n int) bool { return n >= bound || r.blanked[n] || n <= r.purged })
	slices.Reverse(ns)
	return ns
}

// requirePage reads a page below a message, and compares it with the model. It returns the next cursor, and the message of that
// cursor.
func (r *reader) requirePage(t tester, before *bucket.Cursor, bound, limit int) (*bucket.Cursor, int) {
	t.Helper()
	held := slices.Clone(r.arrived)
	page, err := bucket.ReadPage(t.Context(), r.store, r.request(before, limit))
	require.NoError(t, err)
	r.buckets = page.Buckets
	want := r.below(bound)
	more := len(want) > limit
	want = want[:min(limit, len(want))]
	shown := slices.DeleteFunc(slices.Clone(want), func(n int) bool { return r.deleted[n] })
	require.Equal(t, IDs(entries(shown...)), foundIDs(page.Entries), "the newest below %d, at most %d, in order", bound, limit)
	require.LessOrEqual(t, int64(len(held)), page.Slots)
	require.GreaterOrEqual(t, int64(len(r.arrived)), page.Slots, "what was appended meanwhile may be counted")
	r.requireAbsent(t, page, held)
	if !more && (page.Next == nil || !r.blankBelow(want)) {
		require.Nil(t, page.Next, "nothing is left")
		return nil, 0
	}
	require.NotNil(t, page.Next, "there is more")
	last := want[len(want)-1]
	require.Equal(t, id(last), page.Next.ID)
	next, err := bucket.ParseCursor(r.owner, page.Next.Encode(r.owner))
	require.NoError(t, err)
	return &next, last
}

// blankBelow reports whether only blanked messages are left below a page. Its buckets may be too small to tell that without reading them.
func (r *reader) blankBelow(page []int) bool {
	return len(page) > 0 && slices.ContainsFunc(r.arrived, func(n int) bool { return r.blanked[n] && n < page[len(page)-1] })
}

// requireWindow reads all pages of the messages above and below two messages, both excluded, and compares them with the model.
func (r *reader) requireWindow(t tester, above, below, limit int) {
	t.Helper()
	want := slices.DeleteFunc(r.below(below), func(n int) bool { return n <= above || r.deleted[n] })
	got := []message.ID{}
	for req, pages := r.request(nil, limit), 0; ; pages++ {
		req.Above, req.Below = id(above), id(below)
		page, err := bucket.ReadPage(t.Context(), r.store, req)
		require.NoError(t, err)
		require.LessOrEqual(t, pages, len(r.arrived)+len(r.absent.missed), "the pages end")
		got = append(got, foundIDs(page.Entries)...)
		if page.Next == nil {
			break
		}
		next, err := bucket.ParseCursor(r.owner, page.Next.Encode(r.owner))
		require.NoError(t, err)
		req.Before = &next
	}
	require.Equal(t, IDs(entries(want...)), got, "above %d and below %d, %d a page", above, below, limit)
}

// drawWindow draws the bounds of a window, and reads it.
func (r *reader) drawWindow(t *rapid.T, end int) {
	above := rapid.IntRange(0, end).Draw(t, "above")
	below := rapid.IntRange(above, end+2).Draw(t, "below")
	r.requireWindow(t, above, below, rapid.SampledFrom([]int{1, 7, 50, 200}).Draw(t, "limit"))
}

func (r *reader) request(before *bucket.Cursor, limit int) bucket.PageRequest {
	return bucket.PageRequest{
		Owner: r.owner, Hint: r.hint, Before: before, Limit: limit, Basis: r.basis(),
		Absent: r.absent.stretches(), Growing: r.absent.open != nil, OnRead: r.absent.onRead,
	}
}

// requireCounts requires exact counts: see wantCounts.
func (r *reader) requireCounts(t tester) {
	t.Helper()
	requireCounted(t, r.store, r)
	page, err := bucket.ReadPage(t.Context(), r.store, r.request(nil, 60))
	require.NoError(t, err)
	require.Equal(t, r.wantCounts(), page.Tally, "by a page")
}

// purgePoint returns the last possible id of the millisecond up to which all has expired.
func (r *reader) purgePoint() message.ID {
	if r.purged < 0 {
		return message.ID{}
	}
	return message.LastBefore(id(r.purged).Time().Add(time.Millisecond))
}

func (r *reader) expired(t tester, upTo message.ID) bucket.Expired {
	t.Helper()
	expired, err := bucket.ReadExpired(t.Context(), r.store, r.owner, head(t, r.store, r.owner), upTo, r.oldest)
	require.NoError(t, err)
	return expired
}

// trim asks what has to expire so that the inbox keeps its newest messages, and compares the answer with the model.
func (r *reader) trim(t *rapid.T) {
	live := slices.DeleteFunc(ordered(append(r.absent.inGaps(), r.arrived...)), func(n int) bool {
		return r.deleted[n] || r.blanked[n] || n <= r.purged
	})
	newest := rapid.IntRange(1, max(1, len(live)+5)).Draw(t, "newest")
	trim, err := bucket.ReadTrim(t.Context(), r.store, bucket.TrimRequest{
		Owner: r.owner, Hint: r.hint, Purged: r.purgePoint(), Oldest: r.oldest, Gaps: r.absent.counted(),
		Newest: int64(newest), OnRead: r.absent.onRead,
	})
	require.NoError(t, err)
	want := r.purgePoint()
	if newest <= len(live) {
		want = message.LastBefore(id(live[len(live)-newest]).Time())
	}
	require.Equal(t, want, greatest(trim.UpTo, r.purgePoint()), "the newest %d of %d", newest, len(live))
}

// empty empties buckets of what has expired.
func (r *reader) empty(t *rapid.T) {
	e := bucket.NewEmptying(r.store, r.owner, r.hint, r.purgePoint())
	for more := true; more; {
		var err error
		_, more, err = e.Step(t.Context(), 1+rapid.IntRange(0, 3).Draw(t, "buckets"))
		require.NoError(t, err)
		if more && rapid.IntRange(0, 3).Draw(t, "crash") == 0 {
			break
		}
	}
	r.emptied = r.purged
}

// purge lets the messages up to one expire.
func (r *reader) purge(t tester, n int) {
	t.Helper()
	before := r.oldest
	r.purged = n
	r.oldest = r.expired(t, r.purgePoint()).Sequence
	require.GreaterOrEqual(t, r.oldest, before, "it only rises")
}

func (r *reader) setMark(t tester, upTo int) {
	t.Helper()
	mark, err := bucket.NewReadMark(t.Context(), r.store, r.owner, r.hint, id(upTo), math.MaxInt64)
	require.NoError(t, err)
	require.Equal(t, id(upTo), mark.UpTo)
	mark.Gaps = len(r.absent.gaps)
	for _, gap := range r.absent.gaps {
		for _, n := range r.absent.missed {
			if gap.holds(upTo) && gap.holds(n) && n <= upTo {
				mark.InGap++
			}
		}
	}
	r.mark, r.upTo, r.seen = mark, upTo, map[int]bool{}
	for _, n := range append(r.absent.inGaps(), r.arrived...) {
		if n <= upTo {
			r.seen[n] = true
		}
	}
}

// blank blanks one of the messages in the buckets.
func (r *reader) blank(t tester, n int) {
	t.Helper()
	for _, b := range readInbox(t, r.store, r.owner) {
		if slot := slotWith(&b, id(n)); slot >= 0 {
			require.NoError(t, r.store.Blank(t.Context(), r.owner, b.Sequence, slot, id(n)))
			require.ErrorIs(t, r.store.Blank(t.Context(), r.owner, b.Sequence, slot, id(n)), bucket.ErrNotFound)
		}
	}
	require.ErrorIs(t, bucket.Delete(t.Context(), r.store, r.owner, r.hint, id(n)), bucket.ErrNotFound)
	r.blanked[n] = true
}

func (r *reader) delete(t tester, n int) {
	t.Helper()
	for range 2 { // it is idempotent
		require.NoError(t, bucket.Delete(t.Context(), r.store, r.owner, r.hint, id(n)))
	}
	r.deleted[n] = true
}

// randomReaders reads pages, sets marks, counts and deletes while messages arrive, some of them late.
func (s suite) randomReaders(t *testing.T) {
	t.Parallel()
	stores, owner := s.sizes(t), owners()
	others := map[bucket.Size][]*reader{} // of earlier checks
	rapid.Check(t, func(t *rapid.T) {
		h := stores.draw(t)
		store := h.Store
		r := newReader(store, owner())
		r.registry, r.index = newRegistry(), h.Index
		others[store.Size()] = append(others[store.Size()], r)
		r.arrived = drawPrefill(t, store.Size())
		prefill(t, store, r.owner, r.arrived)
		fresh := 10_000
		var cursor *bucket.Cursor
		bound := 1 << 30
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { r.requireCounts(t) },
			"deliver new": func(t *rapid.T) {
				ns := numbers(fresh, 2, rapid.SampledFrom([]int{1, 2, 30, 49, 50, 51, 130}).Draw(t, "count"))
				fresh = ns[len(ns)-1] + 2
				r.deliver(t, ns)
			},
			"deliver late": func(t *rapid.T) {
				late := rapid.Custom(func(t *rapid.T) int { return rapid.IntRange(0, fresh/2).Draw(t, "half")*2 + 1 })
				r.deliver(t, rapid.SliceOfN(late, 1, 6).Draw(t, "late"))
			},
			"move hint": r.moveHint,
			"first page": func(t *rapid.T) {
				limit := rapid.IntRange(1, 200).Draw(t, "limit")
				cursor, bound = r.requirePage(t, nil, 1<<30, limit)
			},
			"next page": func(t *rapid.T) {
				if cursor == nil {
					t.Skip("there is no next page")
				}
				limit := rapid.IntRange(1, 200).Draw(t, "limit")
				cursor, bound = r.requirePage(t, cursor, bound, limit)
			},
			"purge": func(t *rapid.T) {
				r.purge(t, rapid.IntRange(r.purged+1, max(r.purged, fresh)+2).Draw(t, "purged"))
			},
			"empty": func(t *rapid.T) {
				if r.purged >= 0 {
					r.empty(t)
				}
			},
			"flag":    r.drawFlags,
			"trim":    r.trim,
			"window":  func(t *rapid.T) { r.drawWindow(t, fresh) },
			"filter":  r.drawFiltered,
			"newest":  r.drawNewest,
			"search":  r.drawSearched,
			"declare": r.declare,
			"mark":    func(t *rapid.T) { r.setMark(t, rapid.IntRange(r.purged+1, max(r.purged, fresh)+2).Draw(t, "up to")) },
			"delete": func(t *rapid.T) {
				if len(r.arrived) == 0 {
					return
				}
				if n := rapid.SampledFrom(r.arrived).Draw(t, "victim"); !r.blanked[n] {
					r.delete(t, n)
				}
			},
			"blank": func(t *rapid.T) {
				if len(r.arrived) == 0 {
					return
				}
				if n := rapid.SampledFrom(r.arrived).Draw(t, "blanked"); !r.blanked[n] && n > r.emptied {
					r.blank(t, n)
				}
			},
			"delete unknown": func(t *rapid.T) {
				n := rapid.IntRange(0, fresh).Draw(t, "unknown")
				if !slices.Contains(r.arrived, n) && n > r.emptied {
					require.ErrorIs(t, bucket.Delete(t.Context(), r.store, r.owner, r.hint, id(n)), bucket.ErrNotFound)
				}
			},
		})
		requireCounted(t, store, others[store.Size()]...)
	})
}

// pagesCost reads an inbox without late messages, and counts the read buckets.
func (s suite) pagesCost(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	owner := owners()
	for _, slots := range []int{1, 49, 50, 51, 99, 100, 101, 420} {
		r := newReader(store, owner())
		r.arrived = numbers(0, 1, slots)
		prefill(t, store, r.owner, r.arrived)
		for _, limit := range []int{1, 49, 50, 51, 100, 200} {
			if limit == 1 && slots > 2*bucket.Capacity+1 {
				limit = 9 // one by one, there is nothing new in more buckets
			}
			var cursor *bucket.Cursor
			for bound := 1 << 30; ; {
				cursor, bound = r.requirePage(t, cursor, bound, limit)
				require.LessOrEqual(t, r.buckets, (limit+bucket.Capacity-1)/bucket.Capacity+1, "%d slots, %d a page", slots, limit)
				if cursor == nil {
					break
				}
			}
		}
	}
}

// pagesReadLateBuckets requires that a page reads a bucket above it only if a message in that bucket came late enough.
func (s suite) pagesReadLateBuckets(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	r := newReader(store, "ann")
	r.arrived = append(numbers(10, 10, 300), 1005) // 1005 belongs into bucket 2 and is in bucket 6
	r.arrived = append(r.arrived, numbers(4000, 10, 99)...)
	prefill(t, store, r.owner, r.arrived)
	var cursor *bucket.Cursor
	bound, late := 1<<30, 0
	for {
		page, err := bucket.ReadPage(t.Context(), store, r.request(cursor, 20))
		require.NoError(t, err)
		if cursor != nil {
			extra := 0
			if cursor.Sequence < 6 && bound > 1005 {
				extra = 1
			}
			require.LessOrEqual(t, page.Buckets, 2+extra, "below message %d", bound)
			late += extra
		}
		if cursor, bound = r.requirePage(t, cursor, bound, 20); cursor == nil {
			break
		}
	}
	require.Positive(t, late)
}

// emptyInbox reads an inbox without messages.
func (s suite) emptyInbox(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	r := newReader(store, "ann")
	r.requirePage(t, nil, 1<<30, 50)
	r.setMark(t, 100)
	r.requireCounts(t)
	require.ErrorIs(t, bucket.Delete(t.Context(), store, "ann", bucket.Hint{}, id(1)), bucket.ErrNotFound)
	_, err := bucket.ReadPage(t.Context(), store, r.request(&bucket.Cursor{ID: id(1)}, 50))
	require.ErrorIs(t, err, bucket.ErrCursor)
	r.requirePage(t, &bucket.Cursor{ID: id(1), Sequence: bucket.Unlocated}, 1, 50)
	r.deliver(t, []int{7})
	r.requireCounts(t) // older than the mark, but not seen by the owner
}

// lowCursor reads below cursors with a bucket that is lower than the highest bucket whose floor is below their id.
func (s suite) lowCursor(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	r := newReader(store, "ann")
	r.arrived = numbers(10, 10, 230)
	prefill(t, store, r.owner, r.arrived)
	for _, test := range []struct {
		bound   int
		buckets uint32 // with a message below the bound
	}{{2300, 5}, {1510, 4}, {1100, 3}, {510, 2}} {
		for sequence := range test.buckets {
			r.requirePage(t, &bucket.Cursor{ID: id(test.bound), Sequence: sequence}, test.bound, 50)
			require.LessOrEqual(t, r.buckets, 3, "below %d from bucket %d", test.bound, sequence)
		}
	}
}

// foreignCursor reads below cursors that name buckets which the inbox does not have.
func (s suite) foreignCursor(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	prefill(t, store, "ann", numbers(10, 10, 60))
	foreign := &bucket.Cursor{ID: id(100), Sequence: 2}
	_, err := bucket.ReadPage(t.Context(), store, bucket.PageRequest{Owner: "ann", Before: foreign, Limit: 50})
	require.ErrorIs(t, err, bucket.ErrCursor)
}
