package bucket_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

func TestReadsReturnErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, method := range []string{"Heads", "Range", "Newest", "Delete", "Deletions"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			seam, _, _ := watched()
			appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(10, 300)})
			seam.Before = func(_ context.Context, op *buckettest.Op) error {
				if op.Method == method {
					return broken
				}
				return nil
			}
			cursor := &bucket.Cursor{ID: id(120), Sequence: 2}
			_, first := bucket.ReadPage(t.Context(), seam, bucket.PageRequest{Owner: "ann", Limit: 50})
			_, next := bucket.ReadPage(t.Context(), seam, bucket.PageRequest{Owner: "ann", Before: cursor, Limit: 50})
			_, mark := bucket.NewReadMark(t.Context(), seam, "ann", bucket.Hint{}, id(120), math.MaxInt64)
			deleted := bucket.Delete(t.Context(), seam, "ann", bucket.Hint{}, id(120))
			search := method == "Heads" || method == "Range"
			require.Equal(t, method == "Newest", errors.Is(first, broken), "the first page asks once")
			require.Equal(t, search || method == "Deletions", errors.Is(next, broken))
			require.Equal(t, search, errors.Is(mark, broken))
			require.Equal(t, search || method == "Delete", errors.Is(deleted, broken))
		})
	}
}

func TestReadsNoticeMissingBuckets(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	for _, sequence := range []uint32{0, 4, 5, 6} {
		_, err := seam.Push(t.Context(), []bucket.Push{{Owner: "ann", Sequence: sequence, Create: true, Floor: id(int(sequence) * 50), Entries: entries(int(sequence)*50+1, 50)}})
		require.NoError(t, err)
	}
	_, err := bucket.ReadPage(t.Context(), seam, bucket.PageRequest{Owner: "ann", Hint: bucket.Hint{Sequence: 6, Floor: id(300)}, Limit: 160})
	require.ErrorContains(t, err, "bucket 3 is missing")
	require.ErrorIs(t, err, message.ErrCorrupt)
	_, err = bucket.NewReadMark(t.Context(), seam, "ann", bucket.Hint{}, id(60), math.MaxInt64)
	require.ErrorContains(t, err, "missing")
	require.ErrorIs(t, err, message.ErrCorrupt)
	for name, c := range map[string]bucket.Cursor{
		"between two that are read": {ID: id(210), Sequence: 4},
		"of the cursor":             {ID: id(190), Sequence: 3},
		"above that of the cursor":  {ID: id(20), Sequence: 0},
		"not located":               {ID: id(190), Sequence: bucket.Unlocated},
	} {
		_, err = bucket.ReadPage(t.Context(), seam, bucket.PageRequest{Owner: "ann", Hint: bucket.Hint{Sequence: 6, Floor: id(300)}, Limit: 160, Before: &c})
		require.ErrorIs(t, err, message.ErrCorrupt, name)
	}
	require.ErrorIs(t, bucket.Check(t.Context(), seam, "ann"), message.ErrCorrupt)
}

func TestReadMarkAtTheGreatestID(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(10, 120)})
	upTo := id(1000)
	for i := 9; i < 16; i++ {
		upTo[i] = 0xff // its successor carries
	}
	for _, upTo := range []message.ID{upTo, message.MaxID} {
		mark, err := bucket.NewReadMark(t.Context(), seam, "ann", bucket.Hint{}, upTo, math.MaxInt64)
		require.NoError(t, err)
		require.Equal(t, bucket.ReadMark{UpTo: upTo, Sequence: 2, Slots: 120, Read: 120}, mark)
	}
}

// A search for the bucket of an old message gallops: it reads few buckets of a long inbox.
func TestDeleteReadsFewBuckets(t *testing.T) {
	t.Parallel()
	const buckets = 200
	seam, _, methods := watched()
	appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, buckets*bucket.Capacity)})
	for _, n := range []int{1, 50, 51, 4999, 5000, 9949, buckets * bucket.Capacity} {
		*methods = nil
		require.NoError(t, bucket.Delete(t.Context(), seam, "ann", bucket.Hint{}, id(n)))
		require.LessOrEqual(t, len(*methods), 20, "message %d of %d", n, buckets*bucket.Capacity)
	}
}

// A mark below which everything is read counts the slot of a message from the future, whose tombstone is above the mark.
func TestTombstoneBelowTheReadMark(t *testing.T) {
	t.Parallel()
	mark := bucket.ReadMark{UpTo: id(60), Sequence: 1, Slots: 60, Read: 60}
	deleted := bucket.Deletions{Total: 2, Recent: []bucket.Tombstone{{Sequence: 0, Slot: 7, Position: 7, ID: id(9000)}, {Sequence: 1, Slot: 9, Position: 59, ID: id(9001)}}}
	in := bucket.Inventory{Slots: 61, Deletions: deleted, Basis: bucket.Basis{ReadMark: mark, Seen: 60}}
	require.Equal(t, bucket.Tally{Total: 59, Unseen: 1}, bucket.Counts(in), "the tombstone in the bucket of the mark is subtracted, the one below is read")
	in.Gaps = []bucket.Gap{{After: id(8000).Time(), Before: id(10_000).Time(), Messages: 2}}
	require.Equal(t, bucket.Tally{Total: 59, Unseen: 1}, bucket.Counts(in), "of a gap, both are subtracted")
}

func TestEntryOf(t *testing.T) {
	t.Parallel()
	m := messagetest.Message(7, "ann")
	m.ContentType, m.Attrs = "text/plain", []byte(`{"a":1}`)
	e := bucket.EntryOf(m)
	require.Equal(t, bucket.Entry{ID: id(7), From: "ann", Body: "message 7", ContentType: "text/plain", Attrs: m.Attrs, Audience: m.Audience}, e)
	require.Equal(t, messagetest.Epoch.Add(7*time.Millisecond), e.Sent())
}

func TestReadPageCosts(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{101, 149, 150} {
		for _, limit := range []int{50, 100} {
			seam, _, methods := watched()
			appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, slots)})
			*methods = nil
			hint := bucket.Hint{Sequence: 2, Floor: id(100)}
			page, err := bucket.ReadPage(t.Context(), seam, bucket.PageRequest{Owner: "ann", Hint: hint, Limit: limit})
			require.NoError(t, err)
			require.Len(t, page.Entries, limit)
			require.Equal(t, []string{"Newest"}, *methods, "%d slots, %d a page: one read of neighbouring buckets", slots, limit)
		}
	}
}

// A search reads the head and at most 1 + log2(n) floors of an inbox of n buckets, wherever the id is, and no bucket that the page does not need.
func TestSearchReadsFewFloors(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, 2, 3, 4, 5, 8, 9, 16, 33, 200} {
		seam, _, methods := watched()
		slots := buckets * bucket.Capacity
		appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, slots)})
		for n := 1; n <= slots+1; n += 7 {
			*methods = nil
			above := max(0, n-11)
			page, err := bucket.ReadPage(t.Context(), seam, bucket.PageRequest{Owner: "ann", Above: id(above), Below: id(n), Limit: 50})
			require.NoError(t, err)
			require.Len(t, page.Entries, min(n-1, 10))
			require.Nil(t, page.Next)
			require.LessOrEqual(t, page.Buckets, 2)
			floors := slices.DeleteFunc(slices.Clone(*methods), func(m string) bool { return m != "Floor" })
			require.LessOrEqual(t, float64(len(floors)), 1+math.Log2(float64(buckets)), "message %d in %d buckets", n, buckets)
			require.Equal(t, 1, strings.Count(strings.Join(*methods, " "), "Heads"))
			require.LessOrEqual(t, strings.Count(strings.Join(*methods, " "), "Range"), 2, "message %d in %d buckets: %v", n, buckets, *methods)
		}
	}
}

// A client can make a cursor with any id and any bucket. Its page is that of the cursor that Fanmail makes for the id, and costs few reads.
func TestForgedCursorCosts(t *testing.T) {
	t.Parallel()
	const buckets = 200
	seam, _, methods := watched()
	appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, buckets*bucket.Capacity)})
	read := func(n int, sequence uint32) bucket.Page {
		*methods = nil
		page, err := bucket.ReadPage(t.Context(), seam, bucket.PageRequest{
			Owner: "ann", Hint: bucket.Hint{Sequence: buckets - 1, Floor: id((buckets - 1) * bucket.Capacity)},
			Before: &bucket.Cursor{ID: id(n), Sequence: sequence}, Limit: 50,
		})
		require.NoError(t, err)
		return page
	}
	for _, n := range []int{1, 2, 51, 52, 5000, 9950, 9951, 10_000} {
		honest := read(n, uint32((n-1)/bucket.Capacity))
		require.Len(t, honest.Entries, min(n-1, 50))
		require.LessOrEqual(t, len(*methods), 4, "before message %d: %v", n, *methods)
		for _, sequence := range []uint32{0, 1, buckets / 2, buckets - 2, buckets - 1, bucket.Unlocated} {
			forged := read(n, sequence)
			require.Equal(t, honest.Entries, forged.Entries)
			require.Equal(t, honest.Next, forged.Next)
			require.LessOrEqual(t, forged.Buckets, 3)
			require.LessOrEqual(t, len(*methods), 20, "before message %d, in bucket %d: %v", n, sequence, *methods)
		}
	}
}

// A message from the future hides all others until it is repaired, so a page reads every bucket. The work for each bucket does not depend
// on how many there are.
func TestPageMergesEachBucketOnce(t *testing.T) {
	t.Parallel()
	cost := func(buckets int, late bool) (reads, compared int) {
		seam, _, methods := watched()
		future := id(1_000_000)
		for s := range uint32(buckets) {
			push := bucket.Push{Owner: "ann", Sequence: s, Create: true, Entries: entries(int(s)*bucket.Capacity+1, bucket.Capacity)}
			switch {
			case s == 0:
				push.Entries[0].ID = future
			case late: // descending: each bucket is above the one before
				push.Floor, push.Entries = future, entries((buckets-int(s))*bucket.Capacity, bucket.Capacity)
			default:
				push.Floor = future
			}
			_, err := seam.Push(t.Context(), []bucket.Push{push})
			require.NoError(t, err)
		}
		*methods = nil
		order := func(x, y bucket.Found) int {
			compared++
			return y.ID.Compare(x.ID)
		}
		req := bucket.PageRequest{Owner: "ann", Hint: bucket.Hint{Sequence: uint32(buckets - 1), Floor: future}, Limit: 50}
		page, err := bucket.ReadPageBy(t.Context(), seam, req, order)
		require.NoError(t, err)
		require.Len(t, page.Entries, 50)
		require.Equal(t, future, page.Entries[0].ID)
		require.Equal(t, buckets, page.Buckets)
		return len(*methods), compared
	}
	for _, late := range []bool{false, true} {
		for _, buckets := range []int{25, 400} {
			reads, compared := cost(buckets, late)
			require.Equal(t, buckets-1, reads, "two buckets at once, and then one after the other")
			require.LessOrEqual(t, compared, buckets*8*bucket.Capacity, "%d buckets", buckets)
		}
	}
}

// A message that arrives while the mark is being made counts as unread, and is not counted among those read.
func TestReadMarkWhileAMessageArrives(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(10, 20)})
	arrived := false
	seam.Before = func(ctx context.Context, op *buckettest.Op) error {
		if op.Method != "Range" || arrived {
			return nil
		}
		arrived = true
		_, err := seam.Store.Push(ctx, []bucket.Push{{Owner: "ann", Entries: entries(5, 1)}})
		return err
	}
	mark, err := bucket.NewReadMark(t.Context(), seam, "ann", bucket.Hint{}, id(19), math.MaxInt64)
	require.NoError(t, err)
	require.True(t, arrived)
	require.Equal(t, bucket.ReadMark{UpTo: id(19), Slots: 20, Read: 10}, mark)
	require.Equal(t, bucket.Tally{Total: 21, Unread: 11, Unseen: 21}, bucket.Counts(bucket.Inventory{Slots: 21, Basis: bucket.Basis{ReadMark: mark}}))
}
