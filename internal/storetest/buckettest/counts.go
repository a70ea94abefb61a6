package buckettest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
)

// basis returns what the counts rest on.
func (r *reader) basis() bucket.Basis {
	return bucket.Basis{
		ReadMark: r.mark, Gaps: r.absent.counted(), Purged: r.purgePoint(), Oldest: r.oldest, Seen: int64(r.slotsSeen), Flags: r.record,
	}
}

// wantCounts returns the counts by the model, of the messages that are not deleted and have not expired. Without flags, those are unread that were not
// seen when the mark was set.
func (r *reader) wantCounts() (want bucket.Tally) {
	for position, n := range append(slices.Clone(r.arrived), r.absent.inGaps()...) {
		if r.deleted[n] || r.blanked[n] || n <= r.purged {
			continue
		}
		if r.flags[n].Archived() {
			want.Archived++
			continue
		}
		want.Total++
		if !r.flags[n].Read(r.seen[n]) {
			want.Unread++
		}
		if r.slotsSeen <= position && position < len(r.arrived) {
			want.Unseen++
		}
	}
	return want
}

// drawFlags gives some messages flags, also such as are deleted or have expired, and moves what the owner has seen.
func (r *reader) drawFlags(t *rapid.T) {
	r.slotsSeen = rapid.IntRange(0, len(r.arrived)).Draw(t, "slots seen")
	places, absent := map[flag.Place]flag.Flags{}, map[message.ID]flag.Flags{}
	all := append(slices.Clone(r.arrived), r.absent.inGaps()...)
	for range min(len(all), 4) {
		n := rapid.SampledFrom(all).Draw(t, "flagged")
		f := rapid.SampledFrom([]flag.Flags{0, flag.Read, flag.Unread}).Draw(t, "read") | rapid.SampledFrom([]flag.Flags{0, flag.Archived}).Draw(t, "archived")
		r.flags[n] = f
		if position := slices.Index(r.arrived, n); position >= 0 {
			size := int(r.store.Size())
			places[flag.Place{Sequence: uint32(position / size), Slot: position % size}] = f //nolint:gosec // it is a sequence
		} else {
			absent[id(n)] = f
		}
	}
	var err error
	r.record, _, err = r.record.With(places, absent, 0, message.ID{})
	require.NoError(t, err)
}

// requireCounted counts inboxes together, and compares the counts with the models: also if it is not known where the messages begin that
// have not expired.
func requireCounted(t tester, store bucket.Store, readers ...*reader) {
	t.Helper()
	for _, known := range []bool{true, false} {
		requests, want := make([]bucket.CountRequest, len(readers)), make([]bucket.Counted, len(readers))
		for i, r := range readers {
			want[i].Tally = r.wantCounts()
			requests[i] = bucket.CountRequest{Owner: r.owner, Hint: r.hint, Basis: r.basis()}
			if !known {
				requests[i].Oldest = 0
			}
		}
		got, err := bucket.ReadCounts(t.Context(), store, requests)
		require.NoError(t, err)
		for i, r := range readers {
			head, err := bucket.ReadHead(t.Context(), store, r.owner, r.hint)
			require.NoError(t, err)
			deletions, err := bucket.ReadDeletions(t.Context(), store, r.owner, 0)
			require.NoError(t, err)
			want[i].Slots, want[i].Deleted = head.End(store.Size()), deletions.Ever
		}
		require.Equal(t, want, got, "with the oldest bucket: %v", known)
	}
}

// rangesOfMany compares the buckets of several sections with those of each. An inbox has lost buckets, one has late messages, and one is
// empty.
func (s suite) rangesOfMany(t *testing.T) {
	t.Parallel()
	store := s.expiring(t).Store
	prefill(t, store, "anna", append(numbers(10, 10, 300), 5, 1005))
	empty(t, store, 0, 0, 500)
	for _, high := range []uint32{0, 2, 9} {
		for low := range high + 2 {
			for _, limit := range []int{0, 1} {
				for _, late := range []message.ID{{}, id(5).Next(), id(996)} {
					sections := []bucket.Section{
						{Owner: "anna", Low: low, High: high, Late: late},
						{Owner: "nobody", Low: low, High: high, Late: late},
						{Owner: owner, Low: low, High: high, Limit: limit, Late: late},
					}
					for _, field := range []bucket.Field{bucket.AllFields, bucket.NoFields} {
						got, err := store.Range(t.Context(), sections, field)
						require.NoError(t, err)
						require.Len(t, got, len(sections))
						for i, section := range sections {
							require.Equal(t, read(t, store, section, field), got[i], "%+v", section)
						}
					}
				}
			}
		}
	}
	none, err := store.Range(t.Context(), nil, bucket.AllFields)
	require.NoError(t, err)
	require.Empty(t, none)
}

// deletionsOfMany compares the deletions of several inboxes with those of each.
func (s suite) deletionsOfMany(t *testing.T) {
	t.Parallel()
	store := s.expiring(t).Store
	prefill(t, store, "anna", numbers(10, 10, 130))
	for sequence, n := range []int{20, 550, 1290} {
		require.NoError(t, store.Delete(t.Context(), "anna", uint32(sequence), id(n)))
	}
	for anna := range uint32(4) {
		for ann := range uint32(4) {
			from := []bucket.Head{{Owner: "anna", Hint: bucket.Hint{Sequence: anna}}, {Owner: "nobody"}, {Owner: owner, Hint: bucket.Hint{Sequence: ann}}}
			got, err := store.Deletions(t.Context(), from)
			require.NoError(t, err)
			require.Len(t, got, len(from))
			for i, f := range from {
				want, err := bucket.ReadDeletions(t.Context(), store, f.Owner, f.Hint.Sequence)
				require.NoError(t, err)
				require.Equal(t, want.Total, got[i].Total, "%+v", f)
				require.ElementsMatch(t, want.Recent, got[i].Recent, "%+v", f)
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
	store := s.sized(t, 10).Store
	var readers []*reader
	for i, purged := range []int{-1, 5, 10, 700, 1495, 1500, 9000} {
		r := newReader(store, message.UserID("owner-"+string(rune('a'+i))))
		r.arrived = append(numbers(10, 10, 150), 3, 703)
		prefill(t, store, r.owner, r.arrived)
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
