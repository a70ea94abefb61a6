package bucket_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
)

// flagged returns a record in which the first message of each of some buckets is unread.
func flagged(t *testing.T, sequences ...uint32) flag.Record {
	t.Helper()
	places := make(map[flag.Place]flag.Flags)
	for _, sequence := range sequences {
		places[flag.Place{Sequence: sequence}] = flag.Unread
	}
	r, _, err := flag.Record{}.With(places, nil, 0, message.ID{})
	require.NoError(t, err)
	return r
}

// Flags cost reads only in buckets of which a read mark covers a part, and these are read together. What a page has read already is not read again.
func TestCountsWithFlagsCost(t *testing.T) {
	t.Parallel()
	seam, _, methods := watched()
	owners := []message.UserID{"ann", "ben"}
	for _, owner := range owners {
		appendTo(t, seam, bucket.Append{Owner: owner, Entries: entries(1, 50*bucket.Capacity)})
	}
	part := bucket.ReadMark{UpTo: id(501), Sequence: 10, Slots: 40 * bucket.Capacity, Read: 501}
	for name, test := range map[string]struct {
		mark     bucket.ReadMark
		buckets  []uint32
		unread   int64
		more     []string
		morePage []string
	}{
		"no flags":          {part, nil, 1999, nil, nil},
		"no mark":           {bucket.ReadMark{}, []uint32{0, 20, 49}, 2500, nil, nil},
		"below and above":   {part, []uint32{0, 9, 40, 49}, 2001, nil, nil},
		"in part":           {part, []uint32{10, 11, 14}, 2000, []string{"Range"}, []string{"Range"}},
		"apart":             {part, []uint32{0, 10, 20, 30, 45}, 2001, []string{"Range", "Range", "Range"}, []string{"Range", "Range", "Range"}},
		"where the page is": {bucket.ReadMark{UpTo: id(2451), Sequence: 49, Slots: 2500, Read: 2451}, []uint32{49}, 50, []string{"Range"}, nil},
	} {
		basis := bucket.Basis{ReadMark: test.mark, Seen: 2000, Flags: flagged(t, test.buckets...)}
		want := bucket.Tally{Total: 2500, Unread: test.unread, Unseen: 500}
		*methods = nil
		got, err := bucket.ReadCounts(t.Context(), seam, []bucket.CountRequest{{Owner: "ann", Basis: basis}, {Owner: "ben", Basis: basis}})
		require.NoError(t, err)
		require.Equal(t, []bucket.Counted{{Tally: want, Slots: 2500}, {Tally: want, Slots: 2500}}, got, name)
		require.Equal(t, append([]string{"Deletions", "Heads"}, test.more...), *methods, name)
		*methods = nil
		page, err := bucket.ReadPage(t.Context(), seam, bucket.PageRequest{Owner: "ann", Hint: bucket.Hint{Sequence: 49}, Basis: basis, Limit: 50})
		require.NoError(t, err)
		require.Equal(t, want, page.Tally, name)
		require.Equal(t, append([]string{"Newest"}, test.morePage...), *methods, name)
	}
}

// A message that is appended and deleted while an inbox is counted does not make its counts too low, whatever the store reads first.
func TestCountsWhileAMessageIsDeleted(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Deletions", "Heads"} {
		seam, _, _ := watched()
		appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, 20)})
		seam.Before = func(ctx context.Context, op *buckettest.Op) error {
			if op.Method == method {
				_, err := seam.Store.Push(ctx, []bucket.Push{{Owner: "ann", Entries: entries(21, 1)}})
				require.NoError(t, err)
				require.NoError(t, seam.Store.Delete(ctx, "ann", 0, id(21)))
			}
			return nil
		}
		got, err := bucket.ReadCounts(t.Context(), seam, []bucket.CountRequest{{Owner: "ann"}})
		require.NoError(t, err)
		require.True(t, got[0].Possible())
		require.GreaterOrEqual(t, got[0].Total, int64(20))
	}
	late := bucket.Deletions{Total: 1, Recent: []bucket.Tombstone{{Slot: 20, Position: 20, ID: id(21)}}}
	require.Equal(t, bucket.Tally{Total: 20, Unread: 20, Unseen: 20}, bucket.Counts(bucket.Inventory{Slots: 20, Deletions: late}))
}

// In a gap, flags belong to ids. Those of a message that was deleted, or that is in no gap any more, do not count.
func TestCountsWithFlagsInGaps(t *testing.T) {
	t.Parallel()
	const both = flag.Unread | flag.Archived
	flags, _, err := flag.Record{}.With(nil, map[message.ID]flag.Flags{
		id(101): flag.Unread, id(102): flag.Archived, id(103): flag.Unread, id(104): both, id(107): flag.Read, id(108): both, id(50): both,
	}, 0, message.ID{})
	require.NoError(t, err)
	in := bucket.Inventory{
		Slots: 21, Deletions: bucket.Deletions{Total: 1, Recent: []bucket.Tombstone{{Slot: 20, Position: 20, ID: id(103)}}},
		Basis: bucket.Basis{
			ReadMark: bucket.ReadMark{UpTo: id(105), Slots: 20, Gaps: 1, Read: 20, InGap: 5}, Flags: flags,
			Gaps: []bucket.Gap{{After: id(100).Time(), Before: id(111).Time(), Messages: 10}},
		},
	}
	require.Equal(t, bucket.Tally{Total: 26, Unread: 4, Unseen: 20, Archived: 3}, bucket.Counts(in))
	in.ReadMark.Gaps, in.ReadMark.InGap = 0, 0
	require.Equal(t, bucket.Tally{Total: 26, Unread: 5, Unseen: 20, Archived: 3}, bucket.Counts(in), "the mark does not list the gap")
}

// What is unseen leaves out tombstones below the read mark.
func TestCountsOfUnseen(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, 200)})
	mark, err := bucket.NewReadMark(t.Context(), seam, "ann", bucket.Hint{}, id(200), math.MaxInt64)
	require.NoError(t, err)
	for _, n := range []int{10, 150} {
		require.NoError(t, bucket.Delete(t.Context(), seam, "ann", bucket.Hint{}, id(n)))
	}
	for seen, unseen := range map[int64]int64{0: 198, 5: 193, 20: 179, 100: 99, 160: 40, 200: 0} {
		got, err := bucket.ReadCounts(t.Context(), seam, []bucket.CountRequest{{Owner: "ann", Basis: bucket.Basis{ReadMark: mark, Seen: seen}}})
		require.NoError(t, err)
		require.Equal(t, bucket.Tally{Total: 198, Unseen: unseen}, got[0].Tally, "%d are seen", seen)
	}
}

func TestTallyThatIsImpossible(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ tally, clamped bucket.Tally }{
		{bucket.Tally{}, bucket.Tally{}},
		{bucket.Tally{Total: 3, Unread: 3, Unseen: 2, Archived: 9}, bucket.Tally{Total: 3, Unread: 3, Unseen: 2, Archived: 9}},
		{bucket.Tally{Total: -1}, bucket.Tally{}},
		{bucket.Tally{Total: 3, Unread: -1}, bucket.Tally{Total: 3}},
		{bucket.Tally{Total: 3, Unread: 4}, bucket.Tally{Total: 3, Unread: 3}},
		{bucket.Tally{Total: 3, Unseen: -1}, bucket.Tally{Total: 3}},
		{bucket.Tally{Total: 3, Unseen: 4, Archived: -1}, bucket.Tally{Total: 3, Unseen: 3}},
	} {
		require.Equal(t, test.tally == test.clamped, test.tally.Possible(), "%+v", test.tally)
		require.Equal(t, test.clamped, test.tally.Clamped())
	}
}
