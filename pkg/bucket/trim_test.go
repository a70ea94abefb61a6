package bucket_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// trims is an inbox with buckets of few slots, in which messages are in the order of their arrival.
type trims struct {
	*buckettest.Seam
	t   *testing.T
	req bucket.TrimRequest
}

// newTrims returns an inbox with buckets of a size that keeps the newest messages.
func newTrims(t *testing.T, newest int64, size bucket.Size) *trims {
	t.Helper()
	seam := &buckettest.Seam{Store: buckettest.NewModel(size), Hints: &recorder{}}
	return &trims{Seam: seam, t: t, req: bucket.TrimRequest{Owner: "ann", Newest: newest}}
}

// arrive appends messages one by one.
func (w *trims) arrive(ns ...int) *trims {
	w.t.Helper()
	appender := bucket.NewAppender(w.Store, w.Hints)
	for _, n := range ns {
		results, err := appender.Append(w.t.Context(), []bucket.Append{{Owner: "ann", Entries: entries(n, 1)}})
		require.NoError(w.t, err)
		require.Equal(w.t, 1, results[0].New)
	}
	return w
}

func (w *trims) delete(ns ...int) *trims {
	w.t.Helper()
	for _, n := range ns {
		require.NoError(w.t, bucket.Delete(w.t.Context(), w.Store, "ann", bucket.Hint{}, id(n)))
	}
	return w
}

// bury deletes a message in a gap.
func (w *trims) bury(n int) *trims {
	w.t.Helper()
	appender := bucket.NewAppender(w.Store, w.Hints)
	_, err := appender.Append(w.t.Context(), []bucket.Append{{Owner: "ann", Entries: []bucket.Entry{{ID: id(n), Deleted: true}}}})
	require.NoError(w.t, err)
	return w
}

// gap adds a gap with the messages from one to another. It counts them, and some that nobody sees.
func (w *trims) gap(low, high int, unseen int64) *trims {
	w.req.Gaps = append(w.req.Gaps, bucket.Gap{After: id(low - 1).Time(), Before: id(high + 1).Time(), Messages: int64(high-low+1) + unseen})
	w.req.OnRead = func(_ context.Context, s bucket.Stretch, limit int) (found []bucket.Entry, err error) {
		for n := high; n >= low && len(found) < limit; n-- {
			if s.Holds(id(n)) {
				found = append(found, bucket.EntryOf(messagetest.Message(n, "author")))
			}
		}
		return found, nil
	}
	return w
}

// requireKept demands that the messages from one on are kept; 0 stands for all.
func (w *trims) requireKept(n int) bucket.Trim {
	w.t.Helper()
	trim, err := bucket.ReadTrim(w.t.Context(), w, w.req)
	require.NoError(w.t, err)
	want := message.ID{}
	if n > 0 {
		want = message.LastBefore(id(n).Time())
	}
	require.Equal(w.t, want, trim.UpTo)
	return trim
}

func TestTrimKeepsTheNewest(t *testing.T) {
	t.Parallel()
	w := newTrims(t, 3, 2)
	w.requireKept(0)
	w.arrive(1, 2).requireKept(0)
	w.arrive(3).requireKept(1)
	w.arrive(4, 5).requireKept(3)
	w.arrive(7, 8, 6).requireKept(6) // 6 comes late
}

// The bounds of all later buckets are those of a message from a clock that is ahead. Nobody may take them for the N-th message.
func TestTrimOfAnInboxWithAMessageFromTheFuture(t *testing.T) {
	t.Parallel()
	w := newTrims(t, 1, 1).arrive(900, 1, 2)
	w.requireKept(900)
	w.req.Newest = 2
	w.requireKept(2)
	w.arrive(3, 4).requireKept(4)
}

func TestTrimDoesNotCountTombstones(t *testing.T) {
	t.Parallel()
	newTrims(t, 2, 1).arrive(1, 2, 3).delete(2).requireKept(1)
	newTrims(t, 2, 2).arrive(1, 2, 3).delete(2, 3).requireKept(0)
}

func TestTrimCountsGaps(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		inbox *trims
		from  int
	}{
		"as a block":                {newTrims(t, 4, 2).arrive(1, 2).gap(3, 4, 0).arrive(5), 2},
		"into which the last falls": {newTrims(t, 2, 2).arrive(1, 2).gap(3, 5, 0).arrive(6), 5},
		"whole, without any entry":  {newTrims(t, 2, 2).gap(1, 5, 0), 4},
		"without what was deleted": {
			newTrims(t, 2, 1).arrive(1).gap(2, 3, 0).bury(2), 1,
		},
		"without what was deleted where the last falls": {newTrims(t, 2, 1).gap(1, 3, 0).bury(2), 1},
		"without a tombstone that is below the head": {
			newTrims(t, 2, 1).gap(2, 3, 0).bury(2).arrive(1), 1,
		},
		"without an entry in them":         {newTrims(t, 2, 1).arrive(1, 2).gap(3, 3, 0).arrive(3), 2},
		"that have fewer than they say":    {newTrims(t, 4, 2).arrive(1, 2, 3).gap(4, 5, 7), 2},
		"that have fewer, and one is gone": {newTrims(t, 4, 2).arrive(1, 2, 3).gap(4, 5, 7).bury(4), 1},
		"more than one read returns":       {newTrims(t, 1203, 50).arrive(1).gap(10, 1900, 0).bury(1600), 1900 - 1203},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.inbox.requireKept(test.from)
		})
	}
}

// The hint may be behind the head. A tombstone above it counts.
func TestTrimBeginsAtTheHead(t *testing.T) {
	t.Parallel()
	newTrims(t, 2, 1).arrive(1).gap(2, 3, 0).bury(2).requireKept(1)
	w := newTrims(t, 2, 1).arrive(1, 2, 3, 4)
	w.req.Hint = bucket.Hint{Sequence: 2, Floor: id(2)}
	w.requireKept(3)
	w.req.Hint = bucket.Hint{Sequence: 9, Floor: id(9)}
	w.requireKept(3)
}

// What is deleted and appended during a run makes it expire nothing that N messages never stood above.
func TestTrimReadsTheHeadFirst(t *testing.T) {
	t.Parallel()
	w := newTrims(t, 3, 2).arrive(1, 2, 3)
	reads := 0
	w.After = func(context.Context, *buckettest.Op) error {
		if reads++; reads == 1 {
			w.After = nil
			w.delete(2).arrive(4)
		}
		return nil
	}
	w.requireKept(0)
}

// Below a stub, nothing is read. The gaps count all the same.
func TestTrimOfStubs(t *testing.T) {
	t.Parallel()
	for _, head := range []int{0, 1} {
		w := newTrims(t, 1, 2).arrive(1, 2, 3, 4).gap(5, 7, 0)
		w.req.Purged = message.LastBefore(id(5).Time())
		if head > 0 {
			w.req.Newest = 2
			w.arrive(9)
		}
		_, err := w.Empty(t.Context(), "ann", 0, 1, w.req.Purged)
		require.NoError(t, err)
		w.requireKept(7)
		w.req.Newest = 9
		w.requireKept(0)
	}
}

// A run reads the buckets that hold the messages it counts, and one more.
func TestTrimCosts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		newest  int64
		buckets int
	}{{1, 1}, {30, 1}, {31, 2}, {1000, 21}} {
		seam, _, methods := watched()
		appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, 100*bucket.Capacity+30)})
		*methods = nil
		trim, err := bucket.ReadTrim(t.Context(), seam, bucket.TrimRequest{Owner: "ann", Newest: test.newest})
		require.NoError(t, err)
		require.Equal(t, message.LastBefore(id(100*bucket.Capacity+31-int(test.newest)).Time()), trim.UpTo)
		require.Equal(t, test.buckets, trim.Buckets, "newest %d", test.newest)
		require.LessOrEqual(t, len(*methods), 2+test.buckets/8)
		require.Equal(t, []string{"Range"}, slices.Compact(slices.Clone(*methods)))
	}
	w := newTrims(t, 1000, 2).arrive(1, 2, 3, 4, 5).gap(6, 2000, 0).arrive(2001)
	require.Equal(t, 1, w.requireKept(1002).Buckets, "the gap has enough")
	w = newTrims(t, 1000, 2).arrive(1, 2, 3, 4, 5, 6, 7)
	w.req.Purged, w.req.Oldest = message.LastBefore(id(6).Time()), 2
	require.Equal(t, 2, w.requireKept(0).Buckets, "all below has expired")
}

// Messages of the N-th one's millisecond stay.
func TestTrimKeepsTheMillisecond(t *testing.T) {
	t.Parallel()
	w := newTrims(t, 2, 2)
	var pushed []bucket.Entry
	for n := range 5 {
		m := messagetest.ID(10)
		m[15] = byte(n)
		pushed = append(pushed, bucket.Entry{ID: m, From: "author"})
	}
	_, err := bucket.NewAppender(w.Store, w.Hints).Append(t.Context(), []bucket.Append{{Owner: "ann", Entries: append(entries(1, 3), pushed...)}})
	require.NoError(t, err)
	w.requireKept(10)
	require.Equal(t, id(10).Time().Add(-time.Millisecond), w.requireKept(10).UpTo.Time())
}

func TestTrimFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for failing := range 2 {
		w := newTrims(t, 3, 1).arrive(1, 2, 3, 4)
		reads := 0
		w.Before = func(context.Context, *buckettest.Op) error {
			if reads++; reads > failing {
				return broken
			}
			return nil
		}
		_, err := bucket.ReadTrim(t.Context(), w, w.req)
		require.ErrorIs(t, err, broken)
	}
	w := newTrims(t, 2, 2).gap(1, 3, 0)
	w.req.OnRead = func(context.Context, bucket.Stretch, int) ([]bucket.Entry, error) { return nil, broken }
	_, err := bucket.ReadTrim(t.Context(), w, w.req)
	require.ErrorIs(t, err, broken)

	w = newTrims(t, 200, 50)
	for _, sequence := range []uint32{0, 2, 4} {
		_, err := w.Push(t.Context(), []bucket.Push{{Owner: "ann", Sequence: sequence, Create: true, Floor: id(int(sequence) * 50), Entries: entries(int(sequence)*50+1, 50)}})
		require.NoError(t, err)
	}
	_, err = bucket.ReadTrim(t.Context(), w, w.req)
	require.ErrorContains(t, err, "bucket 3 is missing")
	require.ErrorIs(t, err, message.ErrCorrupt)
}
