package buckettest

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

func (s suite) deletions(t *testing.T, store bucket.Store, from uint32) bucket.Deletions {
	t.Helper()
	d, err := bucket.ReadDeletions(t.Context(), store, owner, from)
	require.NoError(t, err)
	return d
}

func (s suite) deleteLeavesTombstone(t *testing.T) {
	t.Parallel()
	h := s.stored(t)
	want := readInbox(t, h.Store, owner)
	for range 2 { // it is idempotent
		require.NoError(t, h.Store.Delete(t.Context(), owner, 1, id(520)))
		want[1].Entries[1] = bucket.Entry{ID: id(520), Deleted: true}
		require.Equal(t, want, readInbox(t, h.Store, owner), "only its id is left, in its slot")
	}
	h = h.Reopen(t)
	require.Equal(t, want, readInbox(t, h.Store, owner))
	require.False(t, pushOne(t, h.Store, bucket.Push{Owner: owner, Sequence: 1, Entries: entries(520)}))
	require.True(t, pushOne(t, h.Store, bucket.Push{Owner: owner, Sequence: 2, Entries: entries(2000)}))
}

func (s suite) deleteUnknown(t *testing.T) {
	t.Parallel()
	store := s.stored(t).Store
	prefill(t, store, "anna", []int{7})
	before := readInbox(t, store, owner)
	for name, where := range map[string]bucket.Tombstone{
		"id":               {Sequence: 1, ID: id(525)},
		"id in the bucket": {Sequence: 1, ID: id(20)},
		"bucket":           {Sequence: 3, ID: id(20)},
		"last of a bucket": {Sequence: 2, ID: id(1000)},
	} {
		require.ErrorIs(t, store.Delete(t.Context(), owner, where.Sequence, where.ID), bucket.ErrNotFound, name)
	}
	require.ErrorIs(t, store.Delete(t.Context(), "an", 0, id(10)), bucket.ErrNotFound)
	require.Equal(t, before, readInbox(t, store, owner))
	require.Zero(t, s.deletions(t, store, 0).Total)
}

func (s suite) deletionsCounted(t *testing.T) {
	t.Parallel()
	h := s.stored(t)
	prefill(t, h.Store, "anna", []int{7})
	require.NoError(t, h.Store.Delete(t.Context(), "anna", 0, id(7)))
	require.Zero(t, s.deletions(t, h.Store, 0).Total)
	all := []bucket.Tombstone{
		{Sequence: 0, Slot: 0, Position: 0, ID: id(10)},
		{Sequence: 0, Slot: 49, Position: 49, ID: id(500)},
		{Sequence: 1, Slot: 2, Position: 52, ID: id(530)},
		{Sequence: 2, Slot: 29, Position: 129, ID: id(1300)},
	}
	for _, tombstone := range all {
		for range 2 {
			require.NoError(t, h.Store.Delete(t.Context(), owner, tombstone.Sequence, tombstone.ID))
		}
	}
	for range 2 {
		for from, recent := range map[uint32][]bucket.Tombstone{0: all, 1: all[2:], 2: all[3:], 3: nil, math.MaxUint32: nil} {
			d := s.deletions(t, h.Store, from)
			require.Equal(t, int64(len(all)), d.Total, "all of them, from whichever bucket")
			require.ElementsMatch(t, recent, d.Recent)
		}
		h = h.Reopen(t)
	}
}

func (s suite) blankLeavesTombstone(t *testing.T) {
	t.Parallel()
	h := s.stored(t)
	want := readInbox(t, h.Store, owner)
	require.NoError(t, h.Store.Blank(t.Context(), owner, 1, 1, id(520)))
	want[1].Entries[1] = bucket.Entry{Deleted: true}
	require.NoError(t, h.Store.Delete(t.Context(), owner, 0, id(30)))
	require.NoError(t, h.Store.Blank(t.Context(), owner, 0, 2, id(30)), "a tombstone, too")
	want[0].Entries[2] = bucket.Entry{Deleted: true}
	for range 2 {
		require.Equal(t, want, readInbox(t, h.Store, owner), "only the slot is left")
		d := s.deletions(t, h.Store, 0)
		require.Equal(t, int64(2), d.Total, "each counts once")
		require.ElementsMatch(t, []bucket.Tombstone{{Sequence: 0, Slot: 2, Position: 2, ID: id(30)}, {Sequence: 1, Slot: 1, Position: 51, ID: id(520)}}, d.Recent)
		require.Empty(t, read(t, h.Store, late(owner, 0, message.MaxID), bucket.AllFields), "nothing came late")
		h = h.Reopen(t)
	}
	require.True(t, pushOne(t, h.Store, bucket.Push{Owner: owner, Sequence: 2, Entries: entries(520)}), "another copy is another entry")
	require.NoError(t, h.Store.Delete(t.Context(), owner, 2, id(520)))
	require.Equal(t, int64(3), s.deletions(t, h.Store, 0).Total)
}

func (s suite) blankRefuses(t *testing.T) {
	t.Parallel()
	store := s.stored(t).Store
	require.NoError(t, store.Blank(t.Context(), owner, 1, 0, id(510)))
	before := readInbox(t, store, owner)
	for name, at := range map[string]bucket.Tombstone{
		"another entry":        {Sequence: 1, Slot: 1, ID: id(530)},
		"no entry":             {Sequence: 2, Slot: 30, ID: id(1310)},
		"no slot":              {Sequence: 1, Slot: bucket.Capacity, ID: id(1010)},
		"a slot below zero":    {Sequence: 1, Slot: -1, ID: id(500)},
		"no bucket":            {Sequence: 3, Slot: 0, ID: id(10)},
		"what is blanked":      {Sequence: 1, Slot: 0, ID: id(510)},
		"no id, where is one":  {Sequence: 1, Slot: 1},
		"no id, where is none": {Sequence: 1, Slot: 0},
	} {
		require.ErrorIs(t, store.Blank(t.Context(), owner, at.Sequence, at.Slot, at.ID), bucket.ErrNotFound, name)
	}
	require.ErrorIs(t, store.Blank(t.Context(), "an", 0, 0, id(10)), bucket.ErrNotFound)
	require.Equal(t, before, readInbox(t, store, owner))
	require.Equal(t, int64(1), s.deletions(t, store, 0).Total)
}

// blankKeepsLast blanks the entry by which a bucket's last is known, and goes on appending.
func (s suite) blankKeepsLast(t *testing.T) {
	t.Parallel()
	store := s.stored(t).Store
	require.NoError(t, store.Blank(t.Context(), owner, 2, 29, id(1300)))
	require.Equal(t, id(1300), head(t, store, owner).Last)
	require.Equal(t, 30, head(t, store, owner).Slots)
	require.Equal(t, 60, appendAll(t, store, owner, bucket.Hint{}, numbers(1305, 5, 60)))
	in := readInbox(t, store, owner)
	require.NoError(t, in.check())
	require.Len(t, in, 4)
}

func (s suite) reopenKeepsBuckets(t *testing.T) {
	t.Parallel()
	h := s.stored(t)
	before := readInbox(t, h.Store, owner)
	for range 2 {
		h = h.Reopen(t)
		require.Equal(t, before, readInbox(t, h.Store, owner))
		require.Equal(t, without(before[2], bucket.NoFields), head(t, h.Store, owner))
	}
	require.False(t, pushOne(t, h.Store, bucket.Push{Owner: owner, Sequence: 2, Entries: entries(1010)}))
	require.True(t, pushOne(t, h.Store, bucket.Push{Owner: owner, Sequence: 2, Entries: entries(2000), Guard: true}))
}

// hammer lets goroutines push to one inbox until it has so many slots, and returns how often each message was
// applied.
func hammer(t *testing.T, writers int, push func(writer int) ([]int, error)) map[int]int {
	t.Helper()
	applied := make([][]int, writers)
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() { applied[w], errs[w] = push(w) })
	}
	wg.Wait()
	count := map[int]int{}
	for w := range writers {
		require.NoError(t, errs[w])
		for _, n := range applied[w] {
			count[n]++
		}
	}
	return count
}

// pushConcurrently lets writers fill one bucket, each with messages of its own and all with the same ones too.
func (s suite) pushConcurrently(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 20
	store := s.open(t).Store
	ctx := t.Context()
	applied := hammer(t, writers, func(w int) (done []int, err error) {
		for i := range each {
			for _, n := range []int{i, 1000 + w*each + i} {
				outcomes, err := store.Push(ctx, []bucket.Push{{Owner: owner, Entries: entries(n)}})
				if err != nil {
					return nil, err
				}
				if outcomes[0].Applied {
					done = append(done, n)
				}
			}
		}
		return done, nil
	})
	in := readInbox(t, store, owner)
	require.NoError(t, in.check())
	require.Len(t, in, 1)
	require.Equal(t, bucket.Capacity, in[0].Slots, "every slot was taken, and none twice")
	for n, times := range applied {
		require.Equal(t, 1, times, "message %d", n)
		require.True(t, in.holds(id(n)))
	}
	require.Len(t, applied, bucket.Capacity, "what was refused is not there")
}

// createConcurrently lets writers create the same bucket.
func (s suite) createConcurrently(t *testing.T) {
	t.Parallel()
	const writers = 8
	store := s.open(t).Store
	prefill(t, store, owner, numbers(10, 10, 50))
	ctx := t.Context()
	applied := hammer(t, writers, func(w int) ([]int, error) {
		ns := []int{600, 601 + w}
		outcomes, err := store.Push(ctx, []bucket.Push{{Owner: owner, Sequence: 1, Entries: entries(ns...), Create: true, Floor: id(500)}})
		if err != nil || !outcomes[0].Applied {
			return nil, err
		}
		return ns, nil
	})
	in := readInbox(t, store, owner)
	require.NoError(t, in.check())
	require.Len(t, in, 2)
	require.Equal(t, 1, applied[600])
	require.Equal(t, 2, in[1].Slots, "the others found 600 there")
}

// deleteWhilePushing deletes what is there while more comes, and reads all the time.
func (s suite) deleteWhilePushing(t *testing.T) {
	t.Parallel()
	const deleters = 2
	store := s.open(t).Store
	prefill(t, store, owner, numbers(1, 1, 20))
	ctx := t.Context()
	hammer(t, deleters+2, func(w int) ([]int, error) {
		for i := range 20 {
			switch w {
			case deleters:
				if _, err := store.Push(ctx, []bucket.Push{{Owner: owner, Entries: entries(100 + i), Guard: true}}); err != nil {
					return nil, err
				}
			case deleters + 1:
				buckets, err := bucket.ReadSection(ctx, store, one(owner, 0), bucket.AllFields)
				if err != nil {
					return nil, err
				}
				if err := inbox(buckets).check(); err != nil {
					return nil, err
				}
			default:
				if err := store.Delete(ctx, owner, 0, id(1+i)); err != nil {
					return nil, err
				}
			}
		}
		return nil, nil
	})
	in := readInbox(t, store, owner)
	require.NoError(t, in.check())
	require.Equal(t, IDs(entries(append(numbers(1, 1, 20), numbers(100, 1, 20)...)...)), IDs(in.entries()))
	for slot, e := range in.entries() {
		require.Equal(t, slot < 20, e.Deleted)
	}
	require.Equal(t, int64(20), s.deletions(t, store, 0).Total)
}

// appendConcurrently lets Appenders hammer a few inboxes in real parallel, each with everything.
func (s suite) appendConcurrently(t *testing.T) {
	t.Parallel()
	const writers, count = 6, 130
	store := s.open(t).Store
	ctx := t.Context()
	users := []message.UserID{"ann", "bob", "cid"}
	added := hammer(t, writers, func(w int) ([]int, error) {
		appender := bucket.NewAppender(store, noHints{})
		var hint bucket.Hint
		sum := 0
		for first := 0; first < count; first += 1 + w {
			var appends []bucket.Append
			ns := numbers(first, 1, min(1+w, count-first))
			for _, user := range users {
				appends = append(appends, bucket.Append{Owner: user, Hint: hint, Entries: entries(ns...)})
			}
			results, err := appender.Append(ctx, appends)
			if err != nil {
				return nil, err
			}
			for _, r := range results {
				if r.Err != nil {
					return nil, r.Err
				}
				sum += r.New
			}
		}
		return numbers(-1, 0, sum), nil // one for each that was new
	})
	require.Equal(t, count*len(users), added[-1], "every message is new to exactly one writer")
	for _, user := range users {
		in := readInbox(t, store, user)
		require.NoError(t, in.check())
		require.Len(t, in.entries(), count)
	}
}

func (s suite) newest(t *testing.T) {
	t.Parallel()
	store := s.stored(t).Store
	prefill(t, store, "anna", []int{7})
	require.NoError(t, store.Delete(t.Context(), "anna", 0, id(7)))
	requireSame := func() {
		for _, user := range []message.UserID{owner, "anna", "nobody"} {
			for _, low := range []uint32{0, 1, 2, 3} {
				for _, limit := range []int{0, 1, 2, 50} {
					for _, from := range []uint32{0, 2, math.MaxUint32} {
						var want []bucket.Bucket
						if limit > 0 {
							want = read(t, store, bucket.Section{Owner: user, Low: low, High: math.MaxUint32, Limit: limit}, bucket.AllFields)
						}
						deleted, err := bucket.ReadDeletions(t.Context(), store, user, from)
						require.NoError(t, err)
						got, deletions, err := store.Newest(t.Context(), user, low, limit, from)
						require.NoError(t, err)
						require.Equal(t, want, got, "%s from %d, %d of them", user, low, limit)
						require.Equal(t, deleted.Total, deletions.Total)
						require.ElementsMatch(t, deleted.Recent, deletions.Recent)
					}
				}
			}
		}
	}
	requireSame()
	for _, at := range []bucket.Tombstone{{Sequence: 0, ID: id(10)}, {Sequence: 1, ID: id(530)}, {Sequence: 2, ID: id(1300)}} {
		require.NoError(t, store.Delete(t.Context(), owner, at.Sequence, at.ID))
	}
	requireSame()
}
