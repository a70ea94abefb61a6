package bucket_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

func TestStretch(t *testing.T) {
	t.Parallel()
	s := bucket.Stretch{After: id(3), Before: id(7)}
	for n, holds := range map[int]bool{2: false, 3: false, 4: true, 6: true, 7: false, 8: false} {
		require.Equal(t, holds, s.Holds(id(n)), "message %d", n)
	}
	for _, test := range []struct{ other, want bucket.Stretch }{
		{bucket.Stretch{Before: message.MaxID}, s},
		{bucket.Stretch{After: id(4), Before: id(6)}, bucket.Stretch{After: id(4), Before: id(6)}},
		{bucket.Stretch{After: id(1), Before: id(5)}, bucket.Stretch{After: id(3), Before: id(5)}},
		{bucket.Stretch{After: id(5), Before: id(9)}, bucket.Stretch{After: id(5), Before: id(7)}},
	} {
		require.Equal(t, test.want, s.Within(test.other))
		require.Equal(t, test.want, test.other.Within(s))
	}
	require.False(t, s.Empty())
	require.True(t, s.Within(bucket.Stretch{After: id(7), Before: id(9)}).Empty())
	require.True(t, bucket.Stretch{}.Empty())
	require.True(t, bucket.Stretch{After: id(3), Before: id(3).Next()}.Empty(), "neighbours")
	require.False(t, bucket.Stretch{After: id(3), Before: id(3).Next().Next()}.Empty())
}

// canonical answers for the messages from the first to the last, and notes what it was asked for.
type canonical struct {
	first, last int
	asked       []bucket.Stretch
	limits      []int
}

func (c *canonical) onRead(_ context.Context, s bucket.Stretch, limit int) ([]bucket.Entry, error) {
	c.asked, c.limits = append(c.asked, s), append(c.limits, limit)
	all := entries(c.first, c.last-c.first+1)
	slices.Reverse(all)
	all = slices.DeleteFunc(all, func(e bucket.Entry) bool { return !s.Holds(e.ID) })
	return all[:min(limit, len(all))], nil
}

func pageIDs(p bucket.Page) []message.ID {
	var ids []message.ID
	for _, e := range p.Entries {
		ids = append(ids, e.ID)
	}
	return ids
}

// The stretch of a rehydration under way holds the gap that it has decided upon: what is newest is shown first all the same.
func TestReadPageOfOverlappingStretches(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, 3)})
	c := &canonical{first: 6, last: 40}
	gap, open := bucket.Stretch{After: id(9), Before: id(30)}, bucket.Stretch{After: id(9), Before: message.MaxID}
	inside, reaching := bucket.Stretch{After: id(12), Before: id(14)}, bucket.Stretch{After: id(5), Before: id(20)}
	for _, test := range []struct {
		absent []bucket.Stretch
		first  int
	}{
		{[]bucket.Stretch{gap, open}, 10},
		{[]bucket.Stretch{open, gap}, 10},
		{[]bucket.Stretch{inside, open, reaching}, 6},
		{[]bucket.Stretch{reaching, inside, gap, open}, 6},
	} {
		absent := test.absent
		page, err := bucket.ReadPage(t.Context(), seam, bucket.PageRequest{Owner: "ann", Limit: 2, Absent: absent, OnRead: c.onRead})
		require.NoError(t, err)
		require.Equal(t, []message.ID{id(40), id(39)}, pageIDs(page))
		require.Equal(t, []message.ID{id(40), id(39)}, page.Absent)
		rest, err := bucket.ReadPage(t.Context(), seam, bucket.PageRequest{Owner: "ann", Before: page.Next, Limit: 100, Absent: absent, OnRead: c.onRead})
		require.NoError(t, err)
		require.Len(t, rest.Entries, 3+39-test.first, "each once")
		require.Nil(t, rest.Next)
	}
}

// Fan out on read is asked for no more than the page can show: nothing below its last entry, and one message more than fits.
func TestReadPageAsksForWhatItShows(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(100, 60)})
	gaps := []bucket.Stretch{{After: id(10), Before: id(20)}, {After: id(149), Before: id(156)}, {After: id(30), Before: id(40)}}
	c := &canonical{first: 1, last: 200}
	page, err := bucket.ReadPage(t.Context(), seam, bucket.PageRequest{Owner: "ann", Limit: 5, Absent: gaps, OnRead: c.onRead})
	require.NoError(t, err)
	require.Equal(t, []bucket.Stretch{{After: id(155), Before: id(156)}}, c.asked)
	require.Equal(t, []int{6}, c.limits)
	require.Empty(t, page.Absent)

	c = &canonical{first: 1, last: 200}
	page, err = bucket.ReadPage(t.Context(), seam, bucket.PageRequest{Owner: "ann", Limit: 65, Absent: gaps, OnRead: c.onRead})
	require.NoError(t, err)
	require.Equal(t, []bucket.Stretch{gaps[1], gaps[2], gaps[0]}, c.asked, "the newest first")
	require.Equal(t, []int{64, 60, 51}, c.limits, "no more than is missing, or than are read at a time")
	require.Len(t, page.Entries, 65)
	require.Equal(t, []message.ID{id(39), id(38), id(37), id(36), id(35)}, page.Absent)
	require.Equal(t, &bucket.Cursor{ID: id(35), Sequence: 0}, page.Next)
}

func TestReadPageReturnsErrorsOfOnRead(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	broken := errors.New("broken")
	_, err := bucket.ReadPage(t.Context(), seam, bucket.PageRequest{
		Owner: "ann", Limit: 5, Absent: []bucket.Stretch{{Before: message.MaxID}},
		OnRead: func(context.Context, bucket.Stretch, int) ([]bucket.Entry, error) { return nil, broken },
	})
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "page of ann")
}

// While a stretch is being appended, no bucket can be named by a cursor: those above it may yet come to hold what is older.
func TestReadPageWhileAStretchIsAppended(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, 50)})
	c := &canonical{first: 60, last: 159}
	req := bucket.PageRequest{
		Owner: "ann", Limit: 10, Absent: []bucket.Stretch{{After: id(55), Before: id(200)}}, Growing: true, OnRead: c.onRead,
	}
	var shown []message.ID
	for first := 60; ; first += 10 {
		page, err := bucket.ReadPage(t.Context(), seam, req)
		require.NoError(t, err)
		shown = append(shown, pageIDs(page)...)
		if page.Next == nil {
			break
		}
		require.EqualValues(t, bucket.Unlocated, page.Next.Sequence)
		req.Before = page.Next
		if first < 160 {
			appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(first, 10)})
		}
	}
	var want []message.ID
	for n := 159; n >= 60; n-- {
		want = append(want, id(n))
	}
	for n := 50; n >= 1; n-- {
		want = append(want, id(n))
	}
	require.Equal(t, want, shown)
}

// An entry that was blanked is counted by the id that it had, as long as anybody counts.
func TestReadMarkOfBlankedEntries(t *testing.T) {
	t.Parallel()
	for name, upTo := range map[string]int{"below": 54, "at": 55, "above": 56} {
		for _, first := range []bool{true, false} {
			seam, _, _ := watched()
			appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, 60)})
			blank := func() { require.NoError(t, seam.Blank(t.Context(), "ann", 1, 4, id(55))) }
			if first {
				blank()
			}
			mark, err := bucket.NewReadMark(t.Context(), seam, "ann", bucket.Hint{}, id(upTo), math.MaxInt64)
			require.NoError(t, err)
			require.EqualValues(t, upTo, mark.Read)
			if !first {
				blank()
			}
			deletions, err := bucket.ReadDeletions(t.Context(), seam, "ann", mark.Sequence)
			require.NoError(t, err)
			got := bucket.Counts(bucket.Inventory{Slots: 60, Deletions: deletions, Basis: bucket.Basis{ReadMark: mark}})
			want := bucket.Tally{Total: 59, Unread: map[int]int64{54: 5, 55: 5, 56: 4}[upTo], Unseen: 59}
			require.Equal(t, want, got, "%s, blanked first: %v", name, first)
		}
	}
}

func TestCountsWithGaps(t *testing.T) {
	t.Parallel()
	gaps := []bucket.Gap{
		{After: id(100).Time(), Before: id(201).Time(), Messages: 100},
		{After: id(300).Time(), Before: id(311).Time(), Messages: 10},
	}
	marked := func(upTo, gaps int, inGap int64) bucket.ReadMark {
		return bucket.ReadMark{UpTo: id(upTo), Slots: 20, Gaps: gaps, Read: 20, InGap: inGap}
	}
	tombstones := func(slot int, ns ...int) bucket.Deletions {
		d := bucket.Deletions{Total: int64(len(ns))}
		for i, n := range ns {
			d.Recent = append(d.Recent, bucket.Tombstone{Slot: slot + i, Position: int64(slot + i), ID: id(n)})
		}
		return d
	}
	for _, test := range []struct {
		name          string
		slots         int64
		deletions     bucket.Deletions
		mark          bucket.ReadMark
		total, unread int64
	}{
		{"nothing read", 20, bucket.Deletions{}, bucket.ReadMark{}, 130, 130},
		{"read into the first gap", 20, bucket.Deletions{}, marked(150, 1, 50), 130, 60},
		{"one of a gap that was read is deleted", 21, tombstones(20, 120), marked(150, 1, 50), 129, 60},
		{"one of a gap that was not read is deleted", 21, tombstones(20, 151), marked(150, 1, 50), 129, 59},
		{"one of a gap that came later is deleted", 21, tombstones(20, 305), marked(150, 1, 50), 129, 59},
		{"one of a bucket is deleted", 20, tombstones(3, 50), marked(150, 1, 50), 129, 60},
		{"one that came later is deleted", 22, tombstones(21, 50), marked(150, 1, 50), 131, 61},
		{"everything in gaps is deleted", 22, tombstones(20, 305, 120), marked(150, 1, 50), 128, 59},
		{"read below the gaps", 20, bucket.Deletions{}, marked(100, 2, 0), 130, 110},
		{"read in the first gap", 20, bucket.Deletions{}, marked(150, 2, 50), 130, 60},
		{"read in a gap that came later", 20, bucket.Deletions{}, marked(305, 1, 0), 130, 10},
		{"read at the end of the first gap", 20, bucket.Deletions{}, marked(200, 2, 99), 130, 11},
		{"read above the first gap", 20, bucket.Deletions{}, marked(250, 2, 0), 130, 10},
		{"read in the second gap", 20, bucket.Deletions{}, marked(305, 2, 5), 130, 5},
		{"read above both", 20, bucket.Deletions{}, marked(500, 2, 0), 130, 0},
		{"read above a gap that came later", 20, bucket.Deletions{}, marked(500, 1, 0), 130, 10},
		{"both listed, and one that was read is deleted", 21, tombstones(20, 120), marked(150, 2, 50), 129, 60},
		{"both listed, and one that was not read is deleted", 21, tombstones(20, 151), marked(150, 2, 50), 129, 59},
		{"read above all, and one is deleted", 21, tombstones(20, 305), marked(500, 2, 0), 129, 0},
	} {
		got := bucket.Counts(bucket.Inventory{Slots: test.slots, Deletions: test.deletions, Basis: bucket.Basis{ReadMark: test.mark, Gaps: gaps}})
		require.Equal(t, []int64{test.total, test.unread}, []int64{got.Total, got.Unread}, test.name)
	}
}

// A message in a gap that was made after the mark counts as unread, even if it is older, because the user has not seen it.
func TestCountsOfAGapMadeAfterTheMark(t *testing.T) {
	t.Parallel()
	mark := bucket.ReadMark{UpTo: id(500), Slots: 20, Read: 20}
	gaps := []bucket.Gap{{After: id(100).Time(), Before: id(111).Time(), Messages: 10}}
	in := bucket.Inventory{Slots: 20, Basis: bucket.Basis{ReadMark: mark, Gaps: gaps}}
	require.Equal(t, bucket.Tally{Total: 30, Unread: 10, Unseen: 20}, bucket.Counts(in))
	in.Slots, in.Deletions = 21, bucket.Deletions{Total: 1, Recent: []bucket.Tombstone{{Slot: 20, Position: 20, ID: id(105)}}}
	require.Equal(t, bucket.Tally{Total: 29, Unread: 9, Unseen: 20}, bucket.Counts(in))
}
