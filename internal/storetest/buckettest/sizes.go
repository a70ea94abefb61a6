package buckettest

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// mixed are the capacities of the buckets of an inbox that has every kind of neighbors.
var mixed = []int{bucket.Capacity, 3, bucket.Capacity, 1, bucket.MaxCapacity}

// mixedSlots are 25 slots in the last of mixed.
const mixedSlots = bucket.Capacity + 3 + bucket.Capacity + 1 + 25

// pushNamesCapacity tries pushes that name a capacity on an inbox with full buckets of 50 and 3 slots, and 2 slots in a bucket of 5. The
// ids are 10, 20 and so on.
func (s suite) pushNamesCapacity(t *testing.T) {
	for _, test := range []struct {
		name    string
		push    bucket.Push
		applied bool
	}{
		{"its own", bucket.Push{Sequence: 2, Cap: 5, Entries: entries(2000), Guard: true}, true},
		{"its own, with as many as fit", bucket.Push{Sequence: 2, Cap: 5, Entries: entries(2000, 2001, 2002)}, true},
		{"its own, with one too many", bucket.Push{Sequence: 2, Cap: 5, Entries: entries(2000, 2001, 2002, 2003)}, false},
		{"its own, with more than it has slots", bucket.Push{Sequence: 2, Cap: 5, Entries: entries(numbers(2000, 1, 6)...)}, false},
		{"a smaller one", bucket.Push{Sequence: 2, Cap: 4, Entries: entries(2000), Guard: true}, false},
		{"a larger one", bucket.Push{Sequence: 2, Cap: 6, Entries: entries(2000), Guard: true}, false},
		{"that of the format", bucket.Push{Sequence: 2, Cap: 50, Entries: entries(2000), Guard: true}, false},
		{"none", bucket.Push{Sequence: 2, Entries: entries(2000), Guard: true}, false},
		{"its own, prepared to create it", bucket.Push{Sequence: 2, Cap: 5, Entries: entries(5), Create: true, Floor: id(530), Base: 53}, true},
		{"another, prepared to create it", bucket.Push{Sequence: 2, Cap: 6, Entries: entries(2000), Create: true, Floor: id(530), Base: 53}, false},
		{"a larger one onto a full bucket", bucket.Push{Sequence: 1, Cap: 4, Entries: entries(2000)}, false},
		{"a larger one onto a full bucket of the format", bucket.Push{Sequence: 0, Cap: 51, Entries: entries(2000)}, false},
		{"a tombstone, its own", bucket.Push{Sequence: 2, Cap: 5, Entries: tombstone(2000)}, true},
		{"a tombstone, another", bucket.Push{Sequence: 2, Cap: 50, Entries: tombstone(2000)}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := s.open(t).Store
			prefill(t, store, owner, numbers(10, 10, 55), 50, 3, 5)
			before := readInbox(t, store, owner)
			test.push.Owner = owner
			outcomes, err := store.Push(t.Context(), []bucket.Push{test.push})
			require.NoError(t, err)
			require.NoError(t, outcomes[0].Err)
			require.Equal(t, test.applied, outcomes[0].Applied)
			after := readInbox(t, store, owner)
			if test.applied {
				require.NoError(t, after.check())
				require.Len(t, after.entries(), 55+len(test.push.Entries))
				return
			}
			require.Equal(t, before, after, "a push that is refused changes nothing")
			if seen, b := outcomes[0].Seen, before[test.push.Sequence]; seen.Slots > 0 {
				require.Equal(t, bucket.Extent{Slots: b.Slots(), Last: b.Last, Cap: b.Cap, Base: b.Base}, seen)
			}
		})
	}
}

// pushCreatesSized creates buckets of every size behind a bucket of every size. A bucket has the base that its creator names.
func (s suite) pushCreatesSized(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	for _, before := range []int{0, 1, 25, 50, 75, 255} {
		for _, capacity := range []int{1, 2, 49, 50, 51, 255} {
			user := message.UserID(fmt.Sprintf("after-%d-%d", before, capacity))
			push := bucket.Push{Owner: user, Cap: capacity, Entries: entries(5000), Guard: true}
			want := bucket.Bucket{Owner: user, Cap: capacity, Last: id(5000), Entries: push.Entries}
			if before > 0 {
				prefill(t, store, user, numbers(10, 10, before), before)
				push.Sequence, push.Create, push.Guard, push.Floor, push.Base = 1, true, false, id(10*before), int64(before)
				want.Sequence, want.Base, want.Floor = 1, int64(before), id(10*before)
			}
			require.True(t, pushOne(t, store, push))
			buckets, err := store.Range(t.Context(), user, push.Sequence, math.MaxUint32, 10, bucket.AllFields)
			require.NoError(t, err)
			require.Equal(t, []bucket.Bucket{want}, buckets)
			require.False(t, pushOne(t, store, push), "it is there")
			push.Create, push.Entries = false, entries(5001)
			require.Equal(t, capacity > 1, pushOne(t, store, push), "onto a bucket of %d slots", capacity)
		}
	}
}

// createWithTwoCapacities lets callers create one bucket with two capacities at the same time. One of the pushes creates it. Of the
// others, those may be applied that name the same capacity.
func (s suite) createWithTwoCapacities(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	const rounds, callers = 20, 4
	for round := range rounds {
		user := message.UserID(fmt.Sprintf("round-%d", round))
		sequence, base := uint32(0), int64(0)
		if round%2 > 0 {
			prefill(t, store, user, numbers(10, 10, 3), 3)
			sequence, base = 1, 3
		}
		applied := make([]bool, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				push := bucket.Push{
					Owner: user, Sequence: sequence, Cap: capacityOf(i), Create: sequence > 0, Floor: id(30), Base: base, Entries: entries(1000 + i),
				}
				outcomes, err := store.Push(t.Context(), []bucket.Push{push})
				applied[i] = err == nil && outcomes[0].Applied
			})
		}
		wg.Wait()
		in := readInbox(t, store, user)
		require.NoError(t, in.check())
		require.Len(t, in, int(sequence)+1)
		b := in[sequence]
		for i := range callers {
			require.True(t, !applied[i] || b.Cap == capacityOf(i), "%d slots were named, the bucket has %d", capacityOf(i), b.Cap)
			require.Equal(t, applied[i], in.holds(id(1000+i)))
		}
	}
}

// capacityOf is the capacity that a caller of createWithTwoCapacities names: that of the format or another one.
func capacityOf(caller int) int { return bucket.Capacity + caller%2*5 }

// sizesRead requires that every read tells the capacity, the base, and the position of each tombstone.
func (s suite) sizesRead(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	ns := numbers(10, 10, mixedSlots)
	ns[51], ns[110] = 5, 15 // late, in the buckets 1 and 4
	prefill(t, h.Store, owner, ns, mixed...)
	deleted := []bucket.Tombstone{
		{Sequence: 0, Slot: 49, Position: 49, ID: id(500)},
		{Sequence: 1, Slot: 1, Position: 51, ID: id(5)},
		{Sequence: 2, Slot: 0, Position: 53, ID: id(540)},
		{Sequence: 3, Slot: 0, Position: 103, ID: id(1040)},
		{Sequence: 4, Slot: 24, Position: 128, ID: id(1290)},
	}
	for i, at := range deleted {
		if i%2 == 0 {
			require.NoError(t, h.Store.Delete(t.Context(), owner, at.Sequence, at.ID))
		} else {
			require.NoError(t, h.Store.Blank(t.Context(), owner, at.Sequence, at.Slot, at.ID))
		}
	}
	require.True(t, pushOne(t, h.Store, bucket.Push{Owner: owner, Sequence: 4, Cap: bucket.MaxCapacity, Entries: tombstone(3000)}))
	deleted = append(deleted, bucket.Tombstone{Sequence: 4, Slot: 25, Position: 129, ID: id(3000)})
	for range 2 {
		in := readInbox(t, h.Store, owner)
		require.NoError(t, in.check())
		require.Len(t, in, len(mixed))
		for i, b := range in {
			require.Equal(t, mixed[i], b.Cap)
			require.Equal(t, i < len(mixed)-1, b.Full())
		}
		heads, err := h.Store.Heads(t.Context(), []bucket.Ref{{Owner: owner}, {Owner: owner, Sequence: 4}})
		require.NoError(t, err)
		require.Equal(t, []bucket.Outline{in[4].Outline(), in[4].Outline()}, heads)
		newest, d, err := h.Store.Newest(t.Context(), owner, 3, 2, 2)
		require.NoError(t, err)
		require.Equal(t, []bucket.Bucket{in[4], in[3]}, newest)
		require.ElementsMatch(t, deleted[2:], d.Recent)
		late, err := h.Store.Overlapping(t.Context(), owner, 0, message.MaxID)
		require.NoError(t, err)
		require.ElementsMatch(t, []bucket.Bucket{in[1], in[4]}, late)
		d = s.deletions(t, h.Store, 0)
		require.Equal(t, int64(len(deleted)), d.Total)
		require.ElementsMatch(t, deleted, d.Recent)
		require.NoError(t, h.Store.Persist(t.Context()))
		h = h.Reopen(t)
	}
	require.False(t, pushOne(t, h.Store, bucket.Push{Owner: owner, Sequence: 4, Cap: bucket.Capacity, Entries: entries(4000)}))
	require.True(t, pushOne(t, h.Store, bucket.Push{Owner: owner, Sequence: 4, Cap: bucket.MaxCapacity, Entries: entries(4000)}))
}

// sizesOfLostSlots asks Blank for slots that no bucket has.
func (s suite) sizesOfLostSlots(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	prefill(t, store, owner, numbers(10, 10, mixedSlots), mixed...)
	before := readInbox(t, store, owner)
	for sequence, capacity := range mixed {
		for _, slot := range []int{0, capacity, capacity + 1, math.MaxUint8, math.MaxUint16} {
			require.ErrorIs(t, store.Blank(t.Context(), owner, uint32(sequence), slot, message.ID{}), bucket.ErrNotFound, "slot %d of %d", slot, capacity)
		}
	}
	require.Equal(t, before, readInbox(t, store, owner))
	require.Zero(t, s.deletions(t, store, 0).Total)
}

// sizesChange appends with one capacity after another. Each bucket that exists keeps its own, the next one has the new one.
func (s suite) sizesChange(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	next, hint := 10, bucket.Hint{}
	for _, step := range []struct{ capacity, count int }{{3, 4}, {50, 30}, {50, 40}, {2, 32}, {60, 1}, {50, 70}, {1, 42}} {
		appender := bucket.NewAppender(h.Store, noHints{}).WithCapacity(func() int { return step.capacity })
		results, err := appender.Append(t.Context(), []bucket.Append{{Owner: owner, Hint: hint, Entries: entries(numbers(next, 10, step.count)...)}})
		require.NoError(t, err)
		require.NoError(t, results[0].Err)
		require.Equal(t, step.count, results[0].New)
		next, hint = next+10*step.count, results[0].Head
		h = h.Reopen(t)
	}
	in := readInbox(t, h.Store, owner)
	require.NoError(t, in.check())
	var capacities []int
	for _, b := range in {
		capacities = append(capacities, b.Cap)
	}
	require.Equal(t, []int{3, 3, 50, 50, 60, 50, 1, 1, 1}, capacities)
	require.Zero(t, appendSized(t, h.Store, owner, bucket.Hint{}, numbers(10, 10, 219), 7), "all are there")
}

// sizedPagesCost reads pages of an inbox whose buckets have grown and shrunk. A page reads the buckets that hold its entries, and at most
// one more. Where buckets have shrunk, it may read more of the larger ones.
func (s suite) sizedPagesCost(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	r := newReader(store, owner)
	capacities := []int{50, 50, 10, 10, 10, 10, 10, 120, 120, 50, 3, 3, 50}
	slots := 20 // of the head
	for _, capacity := range capacities[:len(capacities)-1] {
		slots += capacity
	}
	r.arrived = numbers(0, 1, slots)
	prefill(t, store, owner, r.arrived, capacities...)
	bucketOf := func(n int) (sequence int) {
		for n >= capacities[sequence] {
			n, sequence = n-capacities[sequence], sequence+1
		}
		return sequence
	}
	for _, capacity := range []int{1, 50, 200} {
		for _, limit := range []int{1, 7, 20, 49, 50} {
			var cursor *bucket.Cursor
			for bound := slots; ; {
				r.newCapacity = capacity
				next, last := r.requirePage(t, cursor, bound, limit)
				top, bottom := bucketOf(bound-1), bucketOf(max(bound-limit, 0))
				most := top - bottom + 2
				if least := slices.Min(capacities[bottom : top+1]); capacities[bottom] > least || capacities[max(bottom-1, 0)] > least {
					most *= 2 // the larger ones below are read as if they were as small
				}
				require.LessOrEqual(t, r.buckets, most, "below %d, %d a page", bound, limit)
				if cursor, bound = next, last; cursor == nil {
					break
				}
			}
		}
	}
}

// sizesAddUp has buckets of 25 and 75 slots. The next one begins where it would behind two of the format, and may be stored like one of these.
func (s suite) sizesAddUp(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	prefill(t, h.Store, owner, numbers(10, 10, 102), 25, 75, 50)
	require.NoError(t, h.Store.Delete(t.Context(), owner, 2, id(1010)))
	require.NoError(t, h.Store.Delete(t.Context(), owner, 1, id(260)))
	for range 2 {
		in := readInbox(t, h.Store, owner)
		require.NoError(t, in.check())
		require.Equal(t, []int{50, 102 - 100}, []int{in[2].Cap, in[2].Slots()})
		require.ElementsMatch(t, []bucket.Tombstone{
			{Sequence: 1, Position: 25, ID: id(260)}, {Sequence: 2, Position: 100, ID: id(1010)},
		}, s.deletions(t, h.Store, 0).Recent)
		require.NoError(t, h.Store.Persist(t.Context()))
		h = h.Reopen(t)
	}
	for round, capacity := range []int{50, 10, 75} {
		require.Equal(t, 1, appendSized(t, h.Store, owner, bucket.Hint{Sequence: 2, Floor: id(1000)}, []int{30, 2000 + round}, capacity))
	}
	require.Equal(t, 60, appendSized(t, h.Store, owner, bucket.Hint{}, numbers(3000, 1, 60), 10))
	in := readInbox(t, h.Store, owner)
	require.NoError(t, in.check())
	require.Equal(t, []int{10, 10}, []int{in[3].Cap, in[4].Cap})
	require.Equal(t, int64(150), in[3].Base)
}
