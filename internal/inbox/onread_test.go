package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// A page has what was sent at or after since and before until, whether it is in buckets or left to a gap or a rehydration. Both times may
// lie between two milliseconds.
func TestReadBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch.Add(-2*rig.DormantAfter), rig.DormantAfter, "ann"))
	w.fill(t, "ann", 0, 100)
	w.send(t, "ann", 100, 120)
	at := func(n int) time.Time { return rig.Epoch.Add(time.Duration(n) * time.Millisecond) }
	for name, test := range map[string]struct {
		since, until time.Time
		from, to     int
	}{
		"everything":           {from: 0, to: 120},
		"since":                {since: at(100), from: 100, to: 120},
		"until":                {until: at(30), from: 0, to: 30},
		"both":                 {since: at(49), until: at(51), from: 49, to: 51},
		"since, a bit later":   {since: at(100).Add(time.Nanosecond), from: 101, to: 120},
		"until, a bit later":   {until: at(30).Add(time.Nanosecond), from: 0, to: 31},
		"within a millisecond": {since: at(7).Add(1), until: at(7).Add(2), from: 0, to: 0},
		"in the future":        {since: at(1000), until: at(2000), from: 0, to: 0},
		"before 1970":          {since: time.Unix(-1, 0), until: at(1), from: 0, to: 1},
	} {
		var got []message.ID
		for req := (inbox.Request{Since: test.since, Until: test.until, Limit: 20, Peek: true}); ; {
			page, err := w.Read(t.Context(), "ann", req)
			require.NoError(t, err, name)
			require.GreaterOrEqual(t, page.Total, int64(100), "%s: the whole inbox counts", name)
			for _, e := range page.Entries {
				got = append(got, e.ID)
			}
			if req.Before = page.Next; page.Next == "" {
				break
			}
		}
		require.Equal(t, ids(test.from, test.to), got, name)
	}
	for _, until := range []time.Time{at(5), at(4)} {
		_, err := w.Read(t.Context(), "ann", inbox.Request{Since: at(5), Until: until, Limit: 20})
		require.ErrorAs(t, err, new(*message.InvalidError))
	}
}

// ids returns the ids of messages in the order in which an inbox shows them.
func ids(from, to int) []message.ID {
	var all []message.ID
	for n := to - 1; n >= from; n-- {
		all = append(all, id(n))
	}
	return all
}

// limited returns a world in which ann, who is new, has been sent n messages, and has opened her inbox. At most limit of
// them are going to be appended.
func limited(t *testing.T, limit, n int) *world {
	t.Helper()
	w := newWorldWith(t, func(opts *rehydrate.Options) { opts.Limit = limit })
	w.send(t, "ann", 0, n)
	w.Clock.Advance(2 * rig.Slack) // none of them can be followed by one that was sent before
	_, err := w.rehydrator.Arrive(t.Context(), "ann", w.Clock.Now())
	require.NoError(t, err)
	return w
}

// requireShown demands that the inbox shows messages, in pages of every size, and counts them.
func (w *world) requireShown(t *testing.T, unread int, want []message.ID) {
	t.Helper()
	for _, limit := range []int{1, 3, 7, 50, 200} {
		shown, page := w.ReadInbox(t.Context(), t, "ann", limit)
		require.Equal(t, want, shown, "in pages of %d", limit)
		require.Equal(t, []int{len(want), unread}, []int{int(page.Total), int(page.Unread)})
	}
	user, err := w.User(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, len(want), int(user.Total))
	w.requireCounted(t, "ann")
}

// An inbox that is being rebuilt shows each message once, wherever it is found.
func TestReadingWhileRebuilt(t *testing.T) {
	t.Parallel()
	w := limited(t, 0, 120)
	for steps := 1; ; steps++ {
		attempt := rig.Start(t.Context(), rig.DieBefore, steps*4, func(ctx context.Context) error {
			w.rehydrator.Work(ctx)
			return nil
		})
		for _, limit := range []int{1, 30, 50, 130} {
			shown, page := w.ReadInbox(t.Context(), t, "ann", limit)
			require.Equal(t, ids(0, 120), shown, "after %v, in pages of %d", attempt.Trace(), limit)
			require.Equal(t, !attempt.Died() || !w.State(t.Context(), t, "ann").Rehydrating(), page.Complete)
		}
		if !attempt.Died() {
			break
		}
		w.Clock.Advance(rig.Lease + time.Second)
		require.NoError(t, w.rehydrator.Reap(t.Context(), w.Clock.Now()))
	}
	w.requireShown(t, 120, ids(0, 120))
}

// A reader who has begun while the inbox was being rebuilt goes on in the rebuilt one where they were.
func TestPagingAcrossARebuild(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 10, 50, 60} {
		w := limited(t, 0, 120)
		page, err := w.Read(t.Context(), "ann", inbox.Request{Limit: limit, Peek: true})
		require.NoError(t, err)
		require.False(t, page.Complete)
		w.work(t)
		var shown []message.ID
		for {
			for _, e := range page.Entries {
				shown = append(shown, e.ID)
			}
			if page.Next == "" {
				break
			}
			page, err = w.Read(t.Context(), "ann", inbox.Request{Before: page.Next, Limit: limit, Peek: true})
			require.NoError(t, err)
			require.True(t, page.Complete)
		}
		require.Equal(t, ids(0, 120), shown, "in pages of %d", limit)
	}
}

// What the limit has left out is reached by paging, is counted, read and deleted as everything else.
func TestGap(t *testing.T) {
	t.Parallel()
	w := limited(t, 4, 70)
	w.work(t)
	require.Len(t, w.Buckets(t.Context(), t, "ann")[0].Entries, 4)
	require.Len(t, w.State(t.Context(), t, "ann").Gaps, 1)
	all := ids(0, 70)
	w.requireShown(t, 70, all)

	require.NoError(t, w.MarkRead(t.Context(), "ann", id(9)))
	w.requireShown(t, 60, all)
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(67)))
	w.requireShown(t, 2, all)
	for i, deleted := range []int{0, 5, 40, 68} {
		require.NoError(t, w.Delete(t.Context(), "ann", id(deleted)))
		require.NoError(t, w.Delete(t.Context(), "ann", id(deleted)), "once more")
		all = slices.DeleteFunc(all, func(m message.ID) bool { return m == id(deleted) })
		w.requireShown(t, 2-i/3, all)
	}
	require.ErrorIs(t, w.Delete(t.Context(), "ann", id(99)), bucket.ErrNotFound)
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(69)))
	w.requireShown(t, 0, all)
}

// A user is told of a message that came after they had set their read mark, also if it lies in a gap that came later.
func TestReadMarkBeforeAGap(t *testing.T) {
	t.Parallel()
	w := limited(t, 2, 5)
	w.work(t)
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(4)))
	w.Clock.Advance(2 * rig.DormantAfter)
	w.sendAt(t, w.Clock.Now().Add(-2*rig.Slack), 7)
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(4)), "a user who is dormant")
	_, err := w.rehydrator.Arrive(t.Context(), "ann", w.Clock.Now())
	require.NoError(t, err)
	w.work(t)
	require.Len(t, w.State(t.Context(), t, "ann").Gaps, 2)
	shown, page := w.ReadInbox(t.Context(), t, "ann", 5)
	require.Len(t, shown, 12)
	require.Equal(t, []int64{12, 7}, []int64{page.Total, page.Unread})
}

// sendAt stores messages to ann, whatever the time is.
func (w *world) sendAt(t *testing.T, sent time.Time, n int) {
	t.Helper()
	from := int(sent.Sub(rig.Epoch).Milliseconds())
	now := w.Clock.Now()
	w.Clock.Advance(sent.Sub(now)) // a message that is stored too late is void
	w.send(t, "ann", from, from+n)
	w.Clock.Advance(now.Sub(sent))
}

// A message that is only found by fan out on read so far is deleted for good.
func TestDeleteBeforeTheRebuild(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 2} {
		w := limited(t, limit, 10)
		for _, deleted := range []int{3, 9} {
			require.NoError(t, w.Delete(t.Context(), "ann", id(deleted)))
		}
		want := slices.DeleteFunc(ids(0, 10), func(m message.ID) bool { return m == id(3) || m == id(9) })
		shown, _ := w.ReadInbox(t.Context(), t, "ann", 3)
		require.Equal(t, want, shown)
		w.work(t)
		w.requireShown(t, 8, want)
	}
}

// A user whose recorded time is so old that they are dormant all the same has an inbox that shows everything once, before
// and after they come back.
func TestSeenLongAgo(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 2, 7} {
		w := newWorldWith(t, func(opts *rehydrate.Options) { opts.Limit = limit })
		ago := rig.Epoch.Add(-rig.DormantAfter)
		w.send(t, "ann", 0, 5)
		for n := range 4 {
			w.Clock.Advance(3 * rig.Slack)
			require.ErrorIs(t, w.seen(t, "ann", ago.Add(time.Duration(n+1)*time.Millisecond)), rehydrate.ErrUnfinished)
			w.work(t)
			require.False(t, w.State(t.Context(), t, "ann").Rehydrating())
			for _, size := range []int{1, 3, 50} {
				shown, page := w.ReadInbox(t.Context(), t, "ann", size)
				require.Len(t, shown, 5+n, "after %d times, in pages of %d", n, size)
				require.False(t, page.Complete)
			}
			w.sendAt(t, w.Clock.Now(), 1)
		}
		w.Clock.Advance(3 * rig.Slack)
		_, err := w.rehydrator.Arrive(t.Context(), "ann", w.Clock.Now())
		require.NoError(t, err)
		w.work(t)
		shown, _ := w.ReadInbox(t.Context(), t, "ann", 50)
		require.Len(t, shown, 9)
		w.requireShown(t, 9, shown)
		st := w.State(t.Context(), t, "ann")
		for _, b := range w.Buckets(t.Context(), t, "ann") {
			for _, e := range b.Entries {
				require.False(t, st.InGap(e.Sent()), "%v is in a bucket and in one of %v", e.ID, st.Gaps)
			}
		}
	}
}

// gapped returns a world in which ann has a gap with most of her ten messages, and one of those. It is the last to become visible if late
// is set: after the gap was counted, and before its fan-out.
func gapped(t *testing.T, late bool) (w *world, victim message.ID) {
	t.Helper()
	w = newWorldWith(t, func(opts *rehydrate.Options) { opts.Limit = 2 })
	w.send(t, "ann", 0, 5)
	w.send(t, "ann", 6, 10)
	if !late {
		w.send(t, "ann", 5, 6)
	}
	w.Clock.Advance(2 * rig.Slack)
	_, err := w.rehydrator.Arrive(t.Context(), "ann", w.Clock.Now())
	require.NoError(t, err)
	w.work(t)
	if late {
		w.sendAt(t, rig.Epoch.Add(5*time.Millisecond), 1)
	}
	require.True(t, w.State(t.Context(), t, "ann").InGap(id(5).Time()))
	return w, id(5)
}

// A deletion in a gap dies or fails before or after any of its operations. Then the message is shown and counted, or deleted and not
// counted. No entry is left in the gap. The next deletion succeeds.
func TestEveryFaultOfADeletionInAGap(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]rig.Fault{
		"dies before": rig.DieBefore, "dies after": rig.DieAfter, "fails before": rig.FailBefore, "fails after": rig.FailAfter,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, late := range []bool{false, true} {
				operations := deleteInAGap(t, late, rig.None, 0)
				for after := range operations {
					deleteInAGap(t, late, fault, after)
				}
			}
		})
	}
}

// deleteInAGap deletes a message in a gap, which a fault befalls, and deletes it again. It returns how many operations that took.
func deleteInAGap(t *testing.T, late bool, fault rig.Fault, after int) int {
	t.Helper()
	w, victim := gapped(t, late)
	a := rig.Start(t.Context(), fault, after, func(ctx context.Context) error { return w.Delete(ctx, "ann", victim) })
	require.True(t, a.Finished())
	how := fmt.Sprintf("late: %v, after %v", late, a.Trace())
	if fault == rig.None {
		require.NoError(t, a.Err())
	}

	shown, page := w.ReadInbox(t.Context(), t, "ann", 3)
	uncounted := 0
	if late && slices.Contains(shown, victim) && int(page.Total) < len(shown) {
		uncounted = 1 // its fan-out has not come, and neither has the deletion
	}
	require.Len(t, shown, int(page.Total)+uncounted, how)
	for _, b := range w.Buckets(t.Context(), t, "ann") {
		for _, e := range b.Entries {
			require.False(t, !e.Deleted && w.State(t.Context(), t, "ann").InGap(e.Sent()), "an entry lies in the gap: %s", how)
		}
	}

	for range 2 {
		require.NoError(t, w.Delete(t.Context(), "ann", victim), how)
		w.requireShown(t, 9, slices.DeleteFunc(ids(0, 10), func(m message.ID) bool { return m == victim }))
	}
	return len(a.Trace())
}

// An entry in a gap, as a deletion in two writes has left it behind, is shown once and counts twice. Its user deletes it, and the counts
// are right.
func TestDeletionOfAnEntryInAGap(t *testing.T) {
	t.Parallel()
	w, victim := gapped(t, false)
	w.fill(t, "ann", 5, 6)
	shown, page := w.ReadInbox(t.Context(), t, "ann", 3)
	require.Equal(t, ids(0, 10), shown)
	require.EqualValues(t, 11, page.Total)
	require.NoError(t, w.Delete(t.Context(), "ann", victim))
	w.requireShown(t, 9, slices.DeleteFunc(ids(0, 10), func(m message.ID) bool { return m == victim }))
}
