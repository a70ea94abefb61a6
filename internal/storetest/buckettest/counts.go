package buckettest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// deletionsFrom returns the lowest bucket whose tombstones counting needs.
func (r *reader) deletionsFrom() uint32 {
	switch {
	case r.purged >= 0:
		return r.oldest
	case len(r.absent.counted()) > 0:
		return 0
	}
	return r.mark.Sequence
}

// wantCounts returns the counts by the model: the total is the number of messages that are not deleted and have not expired; unread are
// those of them that were not seen when the mark was set.
func (r *reader) wantCounts() (want bucket.Counted) {
	for _, n := range ordered(append(r.absent.inGaps(), r.arrived...)) {
		if r.deleted[n] || r.blanked[n] || n <= r.purged {
			continue
		}
		want.Total++
		if !r.seen[n] {
			want.Unread++
		}
	}
	return want
}

// requireCounted counts inboxes together, and compares the counts with the models: also if it is not known where the messages begin that
// have not expired.
func requireCounted(t tester, store bucket.Store, readers ...*reader) {
	t.Helper()
	for _, known := range []bool{true, false} {
		requests, want := make([]bucket.CountRequest, len(readers)), make([]bucket.Counted, len(readers))
		for i, r := range readers {
			want[i] = r.wantCounts()
			requests[i] = bucket.CountRequest{
				Owner: r.owner, Hint: r.hint, ReadMark: r.mark, Gaps: r.absent.counted(), Purged: r.purgePoint(), DeletionsFrom: r.deletionsFrom(),
			}
			if known {
				requests[i].Oldest = r.oldest
			}
		}
		got, err := bucket.ReadCounts(t.Context(), store, requests)
		require.NoError(t, err)
		require.Equal(t, want, got, "with the oldest bucket: %v", known)
	}
}

// outlines compares outlines with buckets, of inboxes that have lost buckets, that messages came late to, and that are empty.
func (s suite) outlines(t *testing.T) {
	t.Parallel()
	store := s.expiring(t).Store
	prefill(t, store, "anna", append(numbers(10, 10, 300), 5, 1005), 10, 20, 100)
	empty(t, store, 0, 0, 500)
	for _, high := range []uint32{0, 1, 2, 3, 9} {
		for low := range high + 1 {
			for _, late := range []message.ID{{}, id(5).Next(), id(995), id(996), id(5000)} {
				spans := []bucket.Span{
					{Owner: "anna", Low: low, High: high, Late: late},
					{Owner: "nobody", Low: low, High: high, Late: late},
					{Owner: owner, Low: low, High: high, Late: late},
				}
				got, err := store.Outlines(t.Context(), spans)
				require.NoError(t, err)
				require.Len(t, got, len(spans))
				for i, span := range spans {
					requireOutlines(t, store, span, got[i])
				}
			}
		}
	}
	none, err := store.Outlines(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

// requireOutlines compares the outlines of a span with its buckets.
func requireOutlines(t *testing.T, store bucket.Store, span bucket.Span, got []bucket.Outline) {
	t.Helper()
	buckets, err := store.Range(t.Context(), span.Owner, span.Low, span.High, 100, bucket.AllFields)
	require.NoError(t, err)
	above := len(got) - len(buckets)
	require.GreaterOrEqual(t, above, 0, "%+v", span)
	for i, b := range buckets {
		require.Equal(t, outlineOf(b), withoutEmpty(got[above+i]), "%+v", span)
	}
	require.True(t, slices.IsSortedFunc(got, func(x, y bucket.Outline) int { return int(y.Sequence) - int(x.Sequence) }), "%+v", span)
	if span.Late.IsZero() {
		require.Zero(t, above, "%+v", span)
		return
	}
	late, err := store.Overlapping(t.Context(), span.Owner, span.High, span.Late)
	require.NoError(t, err)
	for _, b := range late {
		require.Contains(t, got[:above], b.Outline(), "%+v", span)
	}
	for _, o := range got[:above] {
		require.Greater(t, o.Sequence, span.High)
		whole, err := store.Range(t.Context(), span.Owner, o.Sequence, o.Sequence, 1, bucket.AllFields)
		require.NoError(t, err)
		require.Equal(t, outlineOf(whole[0]), withoutEmpty(o))
	}
}

func outlineOf(b bucket.Bucket) bucket.Outline { return withoutEmpty(b.Outline()) }

// withoutEmpty returns an outline that has no empty list: a stub may have one.
func withoutEmpty(o bucket.Outline) bucket.Outline {
	if len(o.IDs) == 0 {
		o.IDs = nil
	}
	return o
}

// deletionsOfMany compares the deletions of several inboxes with those of each.
func (s suite) deletionsOfMany(t *testing.T) {
	t.Parallel()
	store := s.expiring(t).Store
	prefill(t, store, "anna", numbers(10, 10, 70), 10, 20, 100)
	for sequence, n := range []int{20, 150, 690} {
		require.NoError(t, store.Delete(t.Context(), "anna", uint32(sequence), id(n)))
	}
	for anna := range uint32(4) {
		for ann := range uint32(4) {
			refs := []bucket.Ref{{Owner: "anna", Sequence: anna}, {Owner: "nobody", Sequence: 2}, {Owner: owner, Sequence: ann}}
			got, err := store.Deletions(t.Context(), refs)
			require.NoError(t, err)
			require.Len(t, got, len(refs))
			for i, ref := range refs {
				want, err := bucket.ReadDeletions(t.Context(), store, ref.Owner, ref.Sequence)
				require.NoError(t, err)
				require.Equal(t, want.Total, got[i].Total, "%+v", ref)
				require.ElementsMatch(t, want.Recent, got[i].Recent, "%+v", ref)
			}
		}
	}
	none, err := store.Deletions(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

// countsOfMany counts inboxes of many buckets together, of which some expired far above their oldest bucket as it is known.
func (s suite) countsOfMany(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	var readers []*reader
	for i, purged := range []int{-1, 5, 10, 700, 1495, 1500, 9000} {
		r := newReader(store, message.UserID("owner-"+string(rune('a'+i))))
		r.arrived = append(numbers(10, 10, 150), 3, 703)
		prefill(t, store, r.owner, r.arrived, 3, 7, 1, 20, 20, 2, 2, 2, 2, 10)
		readers = append(readers, r)
		r.delete(t, 30)
		r.setMark(t, 1200)
		r.delete(t, 720)
		r.blank(t, 703)
		if purged >= 0 {
			r.purge(t, purged)
		}
		requireCounted(t, store, r)
		if i%2 == 0 {
			_, err := store.Empty(t.Context(), r.owner, 0, 3, r.purgePoint())
			require.NoError(t, err)
		}
	}
	readers = append(readers, newReader(store, "nobody"))
	requireCounted(t, store, readers...)
}
