package buckettest

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/bucket"
)

// rangesOfField compares buckets that were read with one field, or less, with whole ones: of entries, tombstones, expired entries and stubs.
func (s suite) rangesOfField(t *testing.T) {
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
			for _, section := range []bucket.Section{
				{Low: low, High: 2}, {Low: low, High: math.MaxUint32, Limit: 2}, {Low: low, High: 0}, {Low: low, High: low, Late: id(1000)},
			} {
				section.Owner = owner
				whole := read(t, store, section, bucket.AllFields)
				for _, field := range []bucket.Field{bucket.FieldFrom, bucket.FieldAttrs, bucket.NoFields, bucket.NoEntries, bucket.NoBody} {
					got := read(t, store, section, field)
					require.Len(t, got, len(whole))
					for i, b := range whole {
						if field == bucket.NoEntries {
							got[i].Purged = b.Purged // it may be missing
						}
						require.Equal(t, without(b, field), without(got[i], bucket.AllFields), "%+v", section)
					}
				}
			}
		}
	}
	require.Empty(t, read(t, store, bucket.Section{Owner: "an", High: math.MaxUint32}, bucket.FieldFrom), "nobody else's buckets")
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
		Owner: r.owner, Hint: r.hint, Purged: r.purgePoint(), Field: field, Limit: limit,
		Absent: absent, Buckets: buckets, Messages: messages, OnRead: r.absent.search,
	})
	require.NoError(t, err)
	require.LessOrEqual(t, got.Messages, messages)
	require.LessOrEqual(t, got.Buckets, buckets+r.unbudgeted(t))
	want := live[:min(limit, len(live))]
	require.LessOrEqual(t, len(got.Found), len(want))
	for i, f := range got.Found {
		require.Equal(t, entry(live[i]).Only(field), f.Entry, "one field only")
		require.Equal(t, !slices.Contains(r.arrived, live[i]), f.Absent)
		require.Equal(t, r.seen[live[i]], r.mark.Says(f, gaps), "%d is read", live[i])
	}
	if buckets == math.MaxInt32 && messages == math.MaxInt32 {
		require.Len(t, got.Found, len(want))
		require.Equal(t, len(want) == len(live), got.Whole)
	}
	require.Equal(t, IDs(entries(want[:len(got.Found)]...)), foundIDs(got.Found), "none is left out between")
	require.False(t, got.Whole && len(got.Found) < len(live), "there are more")
}
