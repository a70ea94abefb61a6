package buckettest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// future is the number of an id far ahead of all others: that of a message from the future.
const future = 90_000

// poisoned returns a store in which the inbox of ann has an id from the future in bucket 0, and 11 slots in bucket 1.
func (s suite) poisoned(t *testing.T) Harness {
	t.Helper()
	h := s.open(t)
	prefill(t, h.Store, owner, append([]int{future}, numbers(10, 10, 60)...))
	return h
}

// healed is the outline of bucket 1 of that inbox, with the bounds that it would have without the message from the future.
func healed(o bucket.Outline) bucket.Outline {
	o.Floor, o.Last = id(490), id(600)
	return o
}

func outline(t tester, store bucket.Store, sequence uint32) bucket.Outline {
	t.Helper()
	buckets, err := store.Range(t.Context(), owner, sequence, sequence, 1)
	require.NoError(t, err)
	require.Len(t, buckets, 1)
	return buckets[0].Outline()
}

func lower(t tester, store bucket.Store, as bucket.Outline, floor, last message.ID) bool {
	t.Helper()
	applied, err := store.Lower(t.Context(), owner, as, floor, last)
	require.NoError(t, err)
	return applied
}

func (s suite) lowerConditions(t *testing.T) {
	for name, test := range map[string]struct {
		as      func(*bucket.Outline)
		applied bool
	}{
		"as it is":                        {as: func(*bucket.Outline) {}, applied: true},
		"with fewer slots than it has":    {as: func(o *bucket.Outline) { o.IDs = o.IDs[1:] }},
		"with more slots than it has":     {as: func(o *bucket.Outline) { o.IDs = append(o.IDs, id(610)) }},
		"with another floor":              {as: func(o *bucket.Outline) { o.Floor = id(future - 1) }},
		"without its floor":               {as: func(o *bucket.Outline) { o.Floor = message.ID{} }},
		"with another last":               {as: func(o *bucket.Outline) { o.Last = id(future + 1) }},
		"that is the next one":            {as: func(o *bucket.Outline) { o.Sequence++ }},
		"that is the one before it":       {as: func(o *bucket.Outline) { o.Sequence-- }},
		"of the greatest number there is": {as: func(o *bucket.Outline) { o.Sequence = math.MaxUint32 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := s.poisoned(t).Store
			before := readInbox(t, store, owner)
			as := outline(t, store, 1)
			test.as(&as)
			require.Equal(t, test.applied, lower(t, store, as, id(490), id(600)))
			after := readInbox(t, store, owner)
			if test.applied {
				require.Equal(t, healed(before[1].Outline()), after[1].Outline())
				before[1].Floor, before[1].Last = id(490), id(600)
			}
			require.Equal(t, before, after, "nothing else changes")
		})
	}
}

// lowerNeverRaises lowers each bound by itself, raises neither, and lowers those of a bucket with one slot.
func (s suite) lowerNeverRaises(t *testing.T) {
	t.Parallel()
	h := s.poisoned(t)
	require.True(t, lower(t, h.Store, outline(t, h.Store, 1), id(490), id(future+5)))
	as := outline(t, h.Store, 1)
	require.Equal(t, []message.ID{id(490), id(future)}, []message.ID{as.Floor, as.Last})
	require.True(t, lower(t, h.Store, as, id(500), id(600)))
	require.Equal(t, healed(as), outline(t, h.Store, 1))
	require.True(t, lower(t, h.Store, outline(t, h.Store, 1), message.ID{}, id(600)))
	as = outline(t, h.Store, 1)
	require.Equal(t, []message.ID{{}, id(600)}, []message.ID{as.Floor, as.Last}, "a floor of zero")

	require.True(t, pushOne(t, h.Store, bucket.Push{Owner: owner, Sequence: 1, Entries: entries(numbers(1000, 1, 39)...)}))
	require.True(t, pushOne(t, h.Store, bucket.Push{Owner: owner, Sequence: 2, Entries: entries(2000), Create: true, Floor: id(future)}))
	require.True(t, lower(t, h.Store, outline(t, h.Store, 2), id(1038), id(2000)))
	want := bucket.Outline{Sequence: 2, Cap: 50, Base: 100, Floor: id(1038), Last: id(2000), IDs: idsOf(entries(2000))}
	require.Equal(t, want, outline(t, h.Store, 2), "of a bucket with one slot")
	require.NoError(t, h.Store.Persist(t.Context()))
	require.Equal(t, want, outline(t, h.Reopen(t).Store, 2))
}

// pushesAfterLower pushes onto a bucket whose bounds were lowered.
func (s suite) pushesAfterLower(t *testing.T) {
	t.Parallel()
	store := s.poisoned(t).Store
	late, err := store.Overlapping(t.Context(), owner, 0, message.MaxID)
	require.NoError(t, err)
	require.NoError(t, store.Delete(t.Context(), owner, 0, id(future)))
	require.True(t, lower(t, store, outline(t, store, 0), message.ID{}, id(490)))
	require.True(t, lower(t, store, outline(t, store, 1), id(490), id(600)))
	still, err := store.Overlapping(t.Context(), owner, 0, message.MaxID)
	require.NoError(t, err)
	require.Len(t, late, 1)
	require.Len(t, still, 1, "what came late stays marked")

	push := func(p bucket.Push) bool {
		p.Owner, p.Sequence = owner, 1
		return pushOne(t, store, p)
	}
	require.False(t, push(bucket.Push{Entries: entries(490), Guard: true}), "at the new floor")
	require.True(t, push(bucket.Push{Entries: entries(491), Guard: true}), "above the new floor, below the old one")
	require.False(t, push(bucket.Push{Entries: entries(600)}), "it is there")
	require.True(t, push(bucket.Push{Entries: entries(610)}))
	heads, err := store.Heads(t.Context(), []bucket.Ref{{Owner: owner}})
	require.NoError(t, err)
	require.Equal(t, id(610), heads[0].Last)
	require.False(t, push(bucket.Push{Entries: entries(700), Create: true, Floor: id(future)}), "with the old floor")
	require.True(t, push(bucket.Push{Entries: entries(700), Create: true, Floor: id(490)}))
}

// deleteAboveLast pushes the message from the future again, onto the bucket that has its tombstone. Whether the store applies that or not,
// Delete leaves no entry of it behind.
func (s suite) deleteAboveLast(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	prefill(t, store, owner, []int{future, 10})
	require.NoError(t, store.Delete(t.Context(), owner, 0, id(future)))
	require.True(t, lower(t, store, outline(t, store, 0), message.ID{}, id(10)))
	applied := pushOne(t, store, bucket.Push{Owner: owner, Entries: entries(future), Guard: true})
	in := readInbox(t, store, owner)
	require.Equal(t, applied, in[0].Slots() == 3)
	require.NoError(t, store.Delete(t.Context(), owner, 0, id(future)))
	require.NoError(t, store.Delete(t.Context(), owner, 0, id(future)))
	for _, e := range readInbox(t, store, owner).entries() {
		require.Equal(t, e.ID == id(future), e.Deleted)
	}
	require.EqualValues(t, in[0].Slots()-1, s.deletions(t, store, 0).Total)
}
