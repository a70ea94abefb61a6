package buckettest

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// expiring returns a store in which the inbox of ann has two full buckets and a head with 30 slots. Some messages were deleted, and one of
// them, 995, came late, and is in the head.
func (s suite) expiring(t *testing.T) Harness {
	t.Helper()
	h := s.open(t)
	prefill(t, h.Store, owner, append(numbers(10, 10, 129), 995))
	for sequence, n := range []int{20, 510, 1010} {
		require.NoError(t, h.Store.Delete(t.Context(), owner, uint32(sequence), id(n)))
	}
	require.NoError(t, h.Store.Blank(t.Context(), owner, 0, 3, id(40)))
	return h
}

func empty(t tester, store bucket.Store, low, high uint32, purged int) bucket.Emptied {
	t.Helper()
	before, err := bucket.ReadDeletions(t.Context(), store, owner, 0)
	require.NoError(t, err)
	freed, err := store.Empty(t.Context(), owner, low, high, id(purged))
	require.NoError(t, err)
	after, err := bucket.ReadDeletions(t.Context(), store, owner, 0)
	require.NoError(t, err)
	require.Equal(t, before.Ever, after.Ever, "deletions that there ever were")
	require.True(t, freed.Entries == 0 || freed.Bytes > 0)
	freed.Bytes = 0
	return freed
}

// emptyMakesStub empties full buckets, and reads what is left of them.
func (s suite) emptyMakesStub(t *testing.T) {
	t.Parallel()
	h := s.expiring(t)
	before := readInbox(t, h.Store, owner)
	require.Equal(t, bucket.Emptied{Buckets: 1, Stubs: 1, Entries: 48}, empty(t, h.Store, 0, 0, 500))
	for range 2 {
		in := readInbox(t, h.Store, owner)
		require.NoError(t, in.check())
		stub := bucket.Bucket{Owner: owner, Outline: bucket.Outline{Slots: 50, Last: id(500), Stub: true}, Purged: in[0].Purged}
		require.Equal(t, stub, in[0])
		require.Equal(t, before[1:], in[1:], "the others are as before")
		require.Equal(t, stub, readInbox(t, h.Store, owner)[0])
		d := s.deletions(t, h.Store, 0)
		require.EqualValues(t, 2, d.Total, "those of the stub do not count")
		require.Len(t, d.Recent, 2)
		require.Zero(t, empty(t, h.Store, 0, 0, 500), "it is done")
		require.Zero(t, empty(t, h.Store, 0, 1, 300), "with an older purge point")
		require.NoError(t, h.Store.Persist(t.Context()))
		h = h.Reopen(t)
	}
	require.Equal(t, bucket.Emptied{Buckets: 2, Stubs: 1, Entries: 49 + 1}, empty(t, h.Store, 0, 2, 1000))
	in := readInbox(t, h.Store, owner)
	require.NoError(t, in.check())
	require.True(t, in[len(in)-2].Stub)
	require.EqualValues(t, 100, in[len(in)-2].End(h.Store.Size()))
	above := read(t, h.Store, late(owner, 0, message.MaxID), bucket.AllFields)
	require.Len(t, above, 1)
	require.Equal(t, bucket.Entry{ID: id(995), Expired: true}, above[0].Entries[29])
	require.NoError(t, bucket.Check(t.Context(), h.Store, owner), "nothing is missing")
	for _, low := range []uint32{0, 1} {
		buckets := read(t, h.Store, one(owner, low), bucket.AllFields)
		require.Len(t, buckets, 1)
		require.True(t, buckets[0].Stub, "bucket %d", low)
		buckets, _, err := h.Store.Newest(t.Context(), owner, low, 2, 0)
		require.NoError(t, err)
		require.True(t, buckets[1].Stub)
	}
}

// emptyKeepsIDs empties a bucket with room, and pushes onto it.
func (s suite) emptyKeepsIDs(t *testing.T) {
	t.Parallel()
	h := s.expiring(t)
	want := readInbox(t, h.Store, owner)
	require.Equal(t, bucket.Emptied{Buckets: 1, Entries: 20}, empty(t, h.Store, 2, 2, 1200))
	for slot, e := range want[2].Entries {
		if !e.Deleted && !id(1200).Less(e.ID) {
			want[2].Entries[slot] = bucket.Entry{ID: e.ID, Expired: true}
		}
	}
	for range 2 {
		in := readInbox(t, h.Store, owner)
		require.False(t, in[2].Purged.Less(id(1200)))
		want[2].Purged = in[2].Purged
		require.Equal(t, want, in)
		require.Zero(t, empty(t, h.Store, 2, 2, 1200))
		require.Zero(t, empty(t, h.Store, 2, 2, 1100), "with an older purge point")
		require.NoError(t, h.Store.Persist(t.Context()))
		h = h.Reopen(t)
	}
	push := func(p bucket.Push) bool {
		p.Owner, p.Sequence = owner, 2
		return pushOne(t, h.Store, p)
	}
	require.False(t, push(bucket.Push{Entries: entries(1100), Guard: true}), "it is there")
	require.False(t, push(bucket.Push{Entries: entries(995)}), "it is there")
	require.False(t, push(bucket.Push{Entries: entries(1010)}), "its tombstone is there")
	require.True(t, push(bucket.Push{Entries: entries(1105), Guard: true}), "an id between those that have expired")
	require.True(t, push(bucket.Push{Entries: entries(numbers(2000, 1, 18)...)}))
	require.False(t, push(bucket.Push{Entries: entries(3000, 3001)}), "it has room for one")
	require.True(t, push(bucket.Push{Entries: entries(3000)}))
	in := readInbox(t, h.Store, owner)
	require.Equal(t, []message.ID{id(1105), id(2000)}, []message.ID{in[2].Entries[30].ID, in[2].Entries[31].ID}, "slots are as they were")
	require.Equal(t, 1, appendAll(t, h.Store, owner, bucket.Hint{}, []int{1100, 1105, 1200, 3000, 4000}))
}

// emptyConditions empties buckets that become no stubs.
func (s suite) emptyConditions(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	prefill(t, store, owner, append([]int{9000}, numbers(10, 10, 101)...))
	before := readInbox(t, store, owner)
	require.Zero(t, empty(t, store, 0, 2, 5), "nothing has expired")
	require.Zero(t, empty(t, store, 3, 9, 9999), "no such buckets")
	require.Zero(t, empty(t, store, 2, 1, 9999), "no buckets")
	freed, err := store.Empty(t.Context(), "an", 0, 9, id(9999))
	require.NoError(t, err)
	require.Zero(t, freed)
	require.Equal(t, before, readInbox(t, store, owner))
	require.Equal(t, bucket.Emptied{Buckets: 2, Entries: 49 + 50}, empty(t, store, 0, 1, 990), "their last is that of a message that has not expired")
	in := readInbox(t, store, owner)
	require.NoError(t, in.check())
	require.Equal(t, entry(9000), in[0].Entries[0])
	require.Equal(t, before[2], in[2])
	require.False(t, pushOne(t, store, bucket.Push{Owner: owner, Sequence: 1, Entries: entries(5)}), "it is full")
	require.Equal(t, bucket.Emptied{Buckets: 3, Stubs: 2, Entries: 1 + 2}, empty(t, store, 0, 2, 9000))
	require.NoError(t, readInbox(t, store, owner).check())
}

// pushesAfterEmpty pushes onto buckets that were emptied, with everything that a writer may believe of them.
func (s suite) pushesAfterEmpty(t *testing.T) {
	t.Parallel()
	h := s.expiring(t)
	empty(t, h.Store, 0, 1, 1000)
	for range 2 {
		before := readEverything(t, h.Store, owner)
		for _, n := range []int{5, 10, 20, 500, 505, 1000, 1005, 1010, 5000} {
			for sequence, floor := range []message.ID{{}, id(500)} {
				for _, entries := range [][]bucket.Entry{entries(n), tombstone(n)} {
					for _, push := range []bucket.Push{{}, {Guard: true}, {Create: true, Floor: floor}, {Create: true, Floor: id(1000)}} {
						push.Owner, push.Sequence, push.Entries = owner, uint32(sequence), entries
						require.False(t, pushOne(t, h.Store, push), "%+v", push)
					}
				}
			}
		}
		require.Equal(t, before, readEverything(t, h.Store, owner))
		for _, hint := range []bucket.Hint{{}, {Sequence: 1, Floor: id(500)}, {Sequence: 2, Floor: id(1000)}} {
			require.Zero(t, appendAll(t, h.Store, owner, hint, []int{5, 10, 20, 500, 505, 999, 1000, 1010}), "all that has expired counts as delivered")
		}
		require.Equal(t, before, readEverything(t, h.Store, owner))
		require.NoError(t, h.Store.Persist(t.Context()))
		h = h.Reopen(t)
	}
	require.Equal(t, 2, appendAll(t, h.Store, owner, bucket.Hint{}, []int{5, 1005, 1010, 5000}))
	require.NoError(t, readInbox(t, h.Store, owner).check())
}

// emptyFullHead empties a head that is full. Whether it becomes a stub or not, the inbox goes on above it.
func (s suite) emptyFullHead(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	prefill(t, h.Store, owner, numbers(10, 10, 100))
	freed := empty(t, h.Store, 0, 1, 1000)
	require.Equal(t, []int{2, 100}, []int{freed.Buckets, freed.Entries})
	head := head(t, h.Store, owner)
	require.Equal(t, []any{uint32(1), 50, id(500), id(1000)}, []any{head.Sequence, head.Slots, head.Floor, head.Last})
	require.True(t, head.Holds(id(700)))
	page, err := bucket.ReadPage(t.Context(), h.Store, bucket.PageRequest{Owner: owner, Limit: 50})
	require.NoError(t, err)
	require.Empty(t, page.Entries)
	require.Nil(t, page.Next)
	require.EqualValues(t, 100, page.Slots)
	require.Zero(t, appendAll(t, h.Store, owner, bucket.Hint{}, []int{10, 700, 1000}))
	require.Equal(t, 2, appendAll(t, h.Store, owner, bucket.Hint{}, []int{1000, 2000, 2010}))
	in := readInbox(t, h.Store, owner)
	require.NoError(t, in.check())
	require.Equal(t, id(1000), in[len(in)-1].Floor)
	require.EqualValues(t, 2, in[len(in)-1].Sequence)
	empty(t, h.Store, 1, 1, 1000)
	in = readInbox(t, h.Store, owner)
	require.NoError(t, in.check())
	require.True(t, in[len(in)-2].Stub)
}

// emptyInAnyOrder empties the buckets of an inbox from above, and then from below.
func (s suite) emptyInAnyOrder(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	prefill(t, store, owner, numbers(10, 10, 260))
	for sequence := uint32(5); sequence > 0; sequence-- {
		empty(t, store, sequence, sequence, 1990)
		require.NoError(t, readInbox(t, store, owner).check())
	}
	empty(t, store, 0, 5, 1000)
	require.Zero(t, appendAll(t, store, owner, bucket.Hint{}, []int{5, 700, 1500, 1990, 2000}))
	empty(t, store, 0, 5, 1990)
	in := readInbox(t, store, owner)
	require.NoError(t, in.check())
	require.Len(t, in.entries(), 110, "three buckets are left, which were full but for one")
	require.Equal(t, 2, appendAll(t, store, owner, bucket.Hint{}, []int{5, 1500, 1995, 3000}))
}

// changesAfterEmpty changes what was emptied.
func (s suite) changesAfterEmpty(t *testing.T) {
	t.Parallel()
	h := s.expiring(t)
	ctx := t.Context()
	empty(t, h.Store, 0, 2, 1200)
	before := readEverything(t, h.Store, owner)
	require.ErrorIs(t, h.Store.Delete(ctx, owner, 0, id(10)), bucket.ErrNotFound)
	for _, at := range []struct{ slot, n int }{{0, 10}, {1, 20}, {7, 5000}} {
		require.ErrorIs(t, h.Store.Blank(ctx, owner, 0, at.slot, id(at.n)), bucket.ErrNotFound)
	}
	require.ErrorIs(t, h.Store.Blank(ctx, owner, 0, 7, message.ID{}), bucket.ErrNotFound, "a stub has lost no slot")
	for _, n := range []int{10, 20, 700, 1100, 995} {
		require.NoError(t, bucket.Delete(ctx, h.Store, owner, bucket.Hint{}, id(n)), "%d has expired", n)
	}
	require.ErrorIs(t, bucket.Delete(ctx, h.Store, owner, bucket.Hint{}, id(5000)), bucket.ErrNotFound)
	require.Equal(t, before, readEverything(t, h.Store, owner))

	require.NoError(t, h.Store.Delete(ctx, owner, 2, id(1100)), "a deletion under way")
	require.NoError(t, h.Store.Blank(ctx, owner, 2, 10, id(1110)))
	in := readInbox(t, h.Store, owner)
	head := in[len(in)-1]
	require.Equal(t, []bucket.Entry{{ID: id(1100), Deleted: true}, {Deleted: true}}, head.Entries[9:11])
	after := s.deletions(t, h.Store, 0)
	require.Equal(t, []int64{before.Deletions.Total + 2, before.Deletions.Ever + 2}, []int64{after.Total, after.Ever})
	require.Greater(t, after.Ever, after.Total)
	require.NoError(t, bucket.Delete(ctx, h.Store, owner, bucket.Hint{}, id(1250)), "it has not expired")
	require.Zero(t, empty(t, h.Store, 2, 2, 1200))
	require.Equal(t, bucket.Emptied{Buckets: 1, Entries: 8}, empty(t, h.Store, 2, 2, 1290))
}

// emptySteps empties an inbox step by step, and counts what that costs.
func (s suite) emptySteps(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	ns := numbers(10, 10, 1020)
	ns[910] = 5 // late, in bucket 18
	prefill(t, store, owner, ns)
	var methods []string
	seam := &Seam{Store: store, Before: func(_ context.Context, op *Op) error {
		methods = append(methods, op.Method)
		return nil
	}}
	hint := bucket.Hint{Sequence: 20, Floor: id(10_000)}
	steps := func(purged, limit int) (freed bucket.Emptied, steps int) {
		methods = nil
		e := bucket.NewEmptying(seam, owner, hint, id(purged))
		for more := true; more; steps++ {
			part, still, err := e.Step(t.Context(), limit)
			require.NoError(t, err)
			require.LessOrEqual(t, part.Buckets, limit)
			freed.Add(part)
			more = still
		}
		freed.Bytes = 0
		return freed, steps
	}
	freed, n := steps(7200, 4)
	require.Equal(t, []any{bucket.Emptied{Buckets: 16, Stubs: 14, Entries: 720 + 1}, 4}, []any{freed, n})
	require.LessOrEqual(t, len(methods), 24, "it finds where to begin by a search")
	in := readInbox(t, store, owner)
	require.NoError(t, in.check())
	require.Len(t, in.entries(), 1020-14*50)
	freed, n = steps(7200, 4)
	require.Equal(t, []any{bucket.Emptied{}, 1}, []any{freed, n})
	require.LessOrEqual(t, len(methods), 14, "it reads few of the stubs: %v", methods)
	freed, _ = steps(7100, 4)
	require.Zero(t, freed, "with an older purge point")
	freed, _ = steps(5, 4)
	require.Zero(t, freed, "with a much older purge point")
	freed, _ = steps(8005, 1)
	require.Equal(t, bucket.Emptied{Buckets: 2, Stubs: 2, Entries: 80}, freed)
	freed, n = steps(8005, 3)
	require.Equal(t, []any{bucket.Emptied{}, 1}, []any{freed, n})
}

// pagesAfterEmpty reads pages of an inbox that was emptied after the reader had read the purge point.
func (s suite) pagesAfterEmpty(t *testing.T) {
	t.Parallel()
	store := s.expiring(t).Store
	read := func(before *bucket.Cursor, above message.ID, limit int) bucket.Page {
		page, err := bucket.ReadPage(t.Context(), store, bucket.PageRequest{Owner: owner, Before: before, Above: above, Limit: limit})
		require.NoError(t, err)
		return page
	}
	all := read(nil, message.ID{}, 200).Entries
	require.Len(t, all, 126)
	shown := func(above int, below message.ID) []message.ID {
		return foundIDs(slices.DeleteFunc(slices.Clone(all), func(f bucket.Found) bool { return !id(above).Less(f.ID) || !f.ID.Less(below) }))
	}
	first := read(nil, message.ID{}, 20)
	old := read(first.Next, message.ID{}, 90)
	for _, test := range []struct{ purged, above int }{
		{300, 300}, {700, 700}, {999, 999}, {1000, 1000}, {1150, 1150}, {1190, 1150}, {1290, 1290},
	} {
		empty(t, store, 0, 2, test.purged)
		for _, above := range []message.ID{{}, id(5), id(test.above)} {
			got := read(nil, above, 200)
			require.Equal(t, shown(test.purged, message.MaxID), foundIDs(got.Entries), "purged up to %d", test.purged)
			require.Nil(t, got.Next)
			got = read(first.Next, above, 200)
			require.Equal(t, shown(test.purged, first.Next.ID), foundIDs(got.Entries), "purged up to %d", test.purged)
			require.Nil(t, got.Next)
			got = read(old.Next, above, 200)
			require.Equal(t, shown(test.purged, old.Next.ID), foundIDs(got.Entries), "purged up to %d", test.purged)
			require.Nil(t, got.Next)
			got = read(&bucket.Cursor{ID: id(505), Sequence: bucket.Unlocated}, above, 200)
			require.Equal(t, shown(test.purged, id(505)), foundIDs(got.Entries))
			require.EqualValues(t, 130, got.Slots)
		}
	}
}

// marksAfterEmpty sets read marks in an inbox that was emptied.
func (s suite) marksAfterEmpty(t *testing.T) {
	t.Parallel()
	store := s.expiring(t).Store
	ctx := t.Context()
	twin, err := bucket.NewReadMark(ctx, store, owner, bucket.Hint{}, id(1100), math.MaxInt64)
	require.NoError(t, err)
	for _, purged := range []int{500, 1000, 1050} {
		empty(t, store, 0, 2, purged)
		mark, err := bucket.NewReadMark(ctx, store, owner, bucket.Hint{}, id(1100), math.MaxInt64)
		require.NoError(t, err)
		require.Equal(t, twin, mark)
		if purged >= 1000 {
			mark, err = bucket.NewReadMark(ctx, store, owner, bucket.Hint{}, id(1000), math.MaxInt64)
			require.NoError(t, err)
			require.EqualValues(t, 101, mark.Read, "all slots of the stubs, and the late one")
		}
	}
}
