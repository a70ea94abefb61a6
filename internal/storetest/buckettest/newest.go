package buckettest

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// rangesOnly compares the entries that have one field with whole ones: of entries, tombstones, expired entries and stubs.
func (s suite) rangesOnly(t *testing.T) {
	t.Parallel()
	store := s.expiring(t).Store
	var full []bucket.Entry
	for _, e := range entries(numbers(2000, 10, 20)...) {
		e.ContentType, e.Attrs, e.Recovered = "text/plain", json.RawMessage(`{"a":1}`), true
		full = append(full, e)
	}
	require.True(t, pushOne(t, store, bucket.Push{Owner: owner, Sequence: 2, Entries: full, Guard: true}))
	require.NoError(t, store.Delete(t.Context(), owner, 2, id(2050)))
	for _, emptied := range []int{0, 300, 500} {
		if emptied > 0 {
			empty(t, store, 0, 0, emptied)
		}
		for low := range uint32(4) {
			for _, limit := range []int{0, 1, 2, 10} {
				for _, high := range []uint32{0, 2, math.MaxUint32} {
					want, err := store.Range(t.Context(), owner, low, high, limit, bucket.AllFields)
					require.NoError(t, err)
					for _, field := range []bucket.Field{bucket.FieldFrom, bucket.FieldAttrs} {
						only := slices.Clone(want)
						for i, b := range only {
							only[i].Entries = nil
							for _, e := range b.Entries {
								require.True(t, e.ContentType == "" || e.Attrs != nil)
								only[i].Entries = append(only[i].Entries, e.Only(field))
							}
						}
						got, err := store.Range(t.Context(), owner, low, high, limit, field)
						require.NoError(t, err)
						for i, b := range got {
							if got[i].Entries = nil; len(b.Entries) > 0 {
								got[i].Entries = b.Entries
							}
						}
						require.Equal(t, only, got, "%d to %d", low, high)
					}
				}
			}
		}
	}
	none, err := store.Range(t.Context(), "an", 0, math.MaxUint32, 100, bucket.FieldFrom)
	require.NoError(t, err)
	require.Empty(t, none, "nobody else's buckets")
}

// drawNewest reads the newest messages of the buckets and gaps, and compares them with the model. What a rehydration is still going to append is
// not among them.
func (r *reader) drawNewest(t *rapid.T) {
	live := slices.DeleteFunc(ordered(append(r.absent.inGaps(), r.arrived...)), func(n int) bool {
		return r.deleted[n] || r.blanked[n] || n <= r.purged
	})
	live = slices.Compact(live)
	slices.Reverse(live)
	limit := rapid.SampledFrom([]int{1, 7, 50, len(live), len(live) + 1, 1000}).Draw(t, "limit")
	buckets := rapid.SampledFrom([]int{2, 5, math.MaxInt32}).Draw(t, "buckets")
	messages := rapid.SampledFrom([]int{2, 20, math.MaxInt32}).Draw(t, "messages")
	field := rapid.SampledFrom([]bucket.Field{bucket.FieldFrom, bucket.FieldAttrs}).Draw(t, "field")
	gaps := r.absent.counted()
	var absent []bucket.Stretch
	for _, gap := range gaps {
		absent = append(absent, gap.Stretch())
	}
	got, err := bucket.ReadNewest(t.Context(), r.store, bucket.NewestRequest{
		Owner: r.owner, Hint: r.hint, Purged: r.purgePoint(), Field: field, Limit: limit, Capacity: r.newCapacity,
		Absent: absent, Buckets: buckets, Messages: messages, OnRead: r.absent.search,
	})
	require.NoError(t, err)
	require.LessOrEqual(t, got.Messages, messages)
	require.LessOrEqual(t, got.Buckets, buckets+r.unbudgeted(t))
	want := live[:min(limit, len(live))]
	require.LessOrEqual(t, len(got.Found), len(want))
	ids := []message.ID{}
	for i, f := range got.Found {
		ids = append(ids, f.Entry.ID)
		require.Equal(t, entry(live[i]).Only(field), f.Entry, "one field only")
		require.Equal(t, !slices.Contains(r.arrived, live[i]), f.Absent)
		require.Equal(t, r.seen[live[i]], r.mark.Says(f, gaps), "%d is read", live[i])
	}
	if buckets == math.MaxInt32 && messages == math.MaxInt32 {
		require.Len(t, got.Found, len(want))
		require.Equal(t, len(want) == len(live), got.Whole)
	}
	require.Equal(t, idsOf(entries(want[:len(got.Found)]...)), ids, "none is left out between")
	require.False(t, got.Whole && len(got.Found) < len(live), "there are more")
}
