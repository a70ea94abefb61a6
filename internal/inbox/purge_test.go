package inbox_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// at returns when message n is sent.
func at(n int) time.Time { return rig.Epoch.Add(time.Duration(n) * time.Millisecond) }

// purged is an inbox of ann with a model.
type purged struct {
	*world
	live, read map[int]bool
	p          int // the messages up to this one have expired
}

// purge purges up to message n, and requires the number of those that expire.
func (w *purged) purge(t *testing.T, n int) {
	t.Helper()
	var want int64
	for m := range w.live {
		if w.p < m && m <= n {
			want++
		}
	}
	before := w.State(t.Context(), t, "ann")
	got, err := w.Purge(t.Context(), "ann", at(n), true)
	require.NoError(t, err)
	require.Equal(t, want, got, "what a purge would do")
	require.Equal(t, before, w.State(t.Context(), t, "ann"), "a dry run changes nothing")
	for _, want := range []int64{want, 0} {
		got, err = w.Purge(t.Context(), "ann", at(n).Add(999*time.Microsecond), false)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	w.p = max(w.p, n)
}

func (w *purged) requireModel(t *testing.T) {
	t.Helper()
	want := []message.ID{}
	unread := 0
	for _, n := range slices.Sorted(maps.Keys(w.live)) {
		if n > w.p {
			want = append([]message.ID{id(n)}, want...)
			if !w.read[n] {
				unread++
			}
		}
	}
	w.requireShown(t, unread, want)
}

// arrive lets ann come back, who has missed messages. At most two of them are appended.
func (w *purged) arrive(t *testing.T) {
	t.Helper()
	horizon := w.State(t.Context(), t, "ann").Horizon
	if horizon.IsZero() {
		horizon = rig.Epoch
	}
	first := int(horizon.Sub(rig.Epoch)/time.Millisecond) + 1
	if now := horizon.Add(rig.Slack / 2); w.Clock.Now().Before(now) {
		w.Clock.Advance(now.Sub(w.Clock.Now()))
	}
	w.send(t, "ann", first, first+7)
	for n := first; n < first+7; n++ {
		w.live[n] = true
	}
	_, err := w.rehydrator.Arrive(t.Context(), "ann", w.Clock.Now())
	require.NoError(t, err)
	w.work(t)
}

// deliver delivers messages that were sent while ann was active.
func (w *purged) deliver(t *testing.T, random *rand.Rand) {
	t.Helper()
	state := w.State(t.Context(), t, "ann")
	late := int(state.LastViewed.Sub(rig.Epoch)/time.Millisecond) + 1 // above all gaps
	w.Clock.Advance(time.Second)
	for range random.IntN(60) {
		if n := late + random.IntN(900); !w.live[n] && n > w.p-100 {
			if _, known := w.live[n]; known {
				continue
			}
			w.fill(t, "ann", n, n+1)
			w.live[n] = true
		}
	}
}

// TestPurge compares an inbox with the list of its messages, some of which are in gaps, after purges and everything else.
func TestPurge(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 7))
		w := &purged{world: newWorldWith(t, func(opts *rehydrate.Options) { opts.Limit = 2 }), live: map[int]bool{}, read: map[int]bool{}, p: -1}
		w.arrive(t)
		for range 12 {
			all := slices.Sorted(maps.Keys(w.live))
			some := all[random.IntN(len(all))]
			switch random.IntN(6) {
			case 0:
				w.deliver(t, random)
			case 1:
				if len(w.live) < 200 {
					w.arrive(t)
				}
			case 2:
				require.NoError(t, w.Delete(t.Context(), "ann", id(some)), "seed %d", seed)
				if some > w.p {
					w.live[some] = false
				}
			case 3:
				require.NoError(t, w.MarkRead(t.Context(), "ann", id(some)))
				if w.State(t.Context(), t, "ann").ReadMark.UpTo == id(some) {
					for n := range w.live {
						w.read[n] = w.read[n] || n <= some
					}
				}
			default:
				w.purge(t, some+random.IntN(3)-1)
			}
			maps.DeleteFunc(w.live, func(_ int, live bool) bool { return !live })
			if len(w.live) == 0 {
				break
			}
			w.requireModel(t)
		}
	}
}

func TestPurgeRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, until := range []time.Time{w.Clock.Now().Add(1), time.UnixMilli(0)} {
		_, err := w.Purge(t.Context(), "ann", until, false)
		require.ErrorAs(t, err, new(*message.InvalidError))
	}
	_, err := w.Purge(t.Context(), "ann", w.Clock.Now(), false)
	require.ErrorIs(t, err, userstate.ErrNotFound)
	require.False(t, w.State(t.Context(), t, "ann").Known())
}

// A message that arrives at or below the purge point has expired.
func TestPurgedOnArrival(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	w.fill(t, "ann", 0, 120)
	w.Clock.Advance(time.Second)
	n, err := w.Purge(t.Context(), "ann", at(150), false)
	require.NoError(t, err)
	require.EqualValues(t, 120, n)
	w.requireShown(t, 0, []message.ID{})
	w.fill(t, "ann", 120, 160)
	w.requireShown(t, 9, ids(151, 160))
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(140)), "there is nothing to mark")
	require.Zero(t, w.State(t.Context(), t, "ann").ReadMark)
	require.NoError(t, w.Delete(t.Context(), "ann", id(140)))
	require.NoError(t, w.Delete(t.Context(), "ann", id(149)))
	w.requireShown(t, 9, ids(151, 160))
	n, err = w.Purge(t.Context(), "ann", at(152), false)
	require.NoError(t, err)
	require.EqualValues(t, 2, n, "what came late has not expired twice")
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(155)))
	w.fill(t, "ann", 160, 260)
	w.requireShown(t, 104, ids(153, 260))
}

// A cursor of a page below the purge point gives an empty last page.
func TestPurgedCursor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	w.fill(t, "ann", 0, 300)
	w.Clock.Advance(time.Second)
	page, err := w.Read(t.Context(), "ann", inbox.Request{Limit: 100})
	require.NoError(t, err)
	for _, until := range []int{150, 199, 200, 250, 299} {
		_, err := w.Purge(t.Context(), "ann", at(until), false)
		require.NoError(t, err)
		next, err := w.Read(t.Context(), "ann", inbox.Request{Before: page.Next, Limit: 100})
		require.NoError(t, err)
		require.Len(t, next.Entries, max(0, 199-until))
		require.Empty(t, next.Next)
		require.Equal(t, int64(299-until), next.Total)
		require.Equal(t, next.Total, next.Unread)
	}
}

// A read mark that was computed before a purge is not stored, because its numbers are of the gaps as they were.
func TestReadMarkDuringAPurge(t *testing.T) {
	t.Parallel()
	w := limited(t, 5, 20)
	w.work(t)
	service, users := w.interrupted(func() {
		n, err := w.Purge(t.Context(), "ann", at(4), false)
		require.NoError(t, err)
		require.EqualValues(t, 5, n)
	})
	require.NoError(t, service.MarkRead(t.Context(), "ann", id(9)))
	require.Equal(t, 2, users.sets)
	w.requireShown(t, 10, ids(5, 20))
	require.EqualValues(t, 5, w.State(t.Context(), t, "ann").ReadMark.InGap)
}

// The purge point rises at any step of a rehydration, and the other way round.
func TestPurgeDuringARehydration(t *testing.T) {
	t.Parallel()
	for _, until := range []int{4, 33, 34, 37} {
		for _, purgeStalls := range []bool{false, true} {
			for after, done := 0, false; !done; after++ {
				w := limited(t, 5, 40)
				work := func(ctx context.Context) error {
					w.rehydrator.Work(ctx)
					return nil
				}
				purge := func(ctx context.Context) error {
					_, err := w.Purge(ctx, "ann", at(until), false)
					return err
				}
				if purgeStalls {
					work, purge = purge, work
				}
				stalled := rig.Start(t.Context(), rig.StallBefore, after, work)
				done = stalled.Finished()
				require.NoError(t, purge(t.Context()))
				stalled.Resume(rig.None, 0)
				require.NoError(t, stalled.Err())
				w.work(t)
				state := w.State(t.Context(), t, "ann")
				require.False(t, state.Rehydrating())
				for _, gap := range state.Gaps {
					require.False(t, gap.Stretch().After.Less(state.Purged), "it begins above the purge point")
				}
				for _, limit := range []int{7, 50} {
					shown, page := w.ReadInbox(t.Context(), t, "ann", limit)
					require.Equal(t, ids(until+1, 40), shown, "after %v", stalled.Trace())
					require.Equal(t, []int{39 - until, 39 - until}, []int{int(page.Total), int(page.Unread)}, "after %v", stalled.Trace())
				}
			}
		}
	}
}

// A rehydration appends nothing that has expired.
func TestRehydrationAbovePurged(t *testing.T) {
	t.Parallel()
	for until, slots := range map[int]int{10: 29, 37: 2, 39: 0} {
		w := limited(t, 0, 40)
		_, err := w.Purge(t.Context(), "ann", at(until), false)
		require.NoError(t, err)
		w.work(t)
		buckets, err := bucket.ReadSection(t.Context(), w.Inbox, bucket.Section{Owner: "ann", High: 9}, bucket.AllFields)
		require.NoError(t, err)
		held := []bucket.Entry{}
		for _, b := range buckets {
			held = append(held, b.Entries...)
		}
		require.Len(t, held, slots)
	}
}

// Messages expire, and buckets are emptied, at any step of a page. The page leaves out nothing that has not expired, and shows nothing that was
// emptied.
func TestPageDuringAPurge(t *testing.T) {
	t.Parallel()
	for _, first := range []int{0, 30} {
		for _, until := range []int{40, 99, 100, 109} {
			for after, done := 0, false; !done; after++ {
				w := newWorld(t)
				require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
				w.fill(t, "ann", 0, 120)
				w.Clock.Advance(time.Second)
				cursor := ""
				if first > 0 {
					page, err := w.Read(t.Context(), "ann", inbox.Request{Limit: first, Peek: true})
					require.NoError(t, err)
					cursor = page.Next
				}
				var page inbox.Page
				reader := rig.Start(t.Context(), rig.StallBefore, after, func(ctx context.Context) (err error) {
					page, err = w.Read(ctx, "ann", inbox.Request{Before: cursor, Limit: 100, Peek: true})
					return err
				})
				done = reader.Finished()
				_, err := w.Purge(t.Context(), "ann", at(until), false)
				require.NoError(t, err)
				emptying := bucket.NewEmptying(w.Inbox, "ann", bucket.Hint{}, w.State(t.Context(), t, "ann").Purged)
				_, more, err := emptying.Step(t.Context(), 10)
				require.NoError(t, err)
				require.False(t, more)
				reader.Resume(rig.None, 0)
				require.NoError(t, reader.Err(), "after %v", reader.Trace())
				shown := []message.ID{}
				for _, e := range page.Entries {
					require.NotEmpty(t, e.Body, "%s was emptied, after %v", e.ID, reader.Trace())
					shown = append(shown, e.ID)
				}
				live := append([]message.ID{}, ids(until+1, 120-first)...)
				require.GreaterOrEqual(t, len(shown), len(live))
				require.Equal(t, live, shown[:len(live)], "after %v", reader.Trace())
			}
		}
	}
}

// A page of a user without a purge point costs as much as ever. That of another user reads the oldest bucket with messages, and those to which
// messages came late.
func TestPurgedPageCosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	w.fill(t, "ann", 0, 620)
	w.Clock.Advance(time.Second)
	read := func(cursor string) (trace []string, next string) {
		page := inbox.Page{}
		a := rig.Start(t.Context(), rig.None, 0, func(ctx context.Context) (err error) {
			page, err = w.Read(ctx, "ann", inbox.Request{Before: cursor, Limit: 50, Peek: true})
			return err
		})
		require.NoError(t, a.Err())
		return a.Trace(), page.Next
	}
	first, next := read("")
	require.Equal(t, []string{"Lookup", "Newest"}, first)
	second, _ := read(next)
	for until, more := range map[int][]string{120: {"Range"}, 560: {"Range"}, 619: {}} {
		state := w.State(t.Context(), t, "ann")
		_, err := w.Purge(t.Context(), "ann", at(until), false)
		require.NoError(t, err)
		got, _ := read("")
		require.Equal(t, append(slices.Clone(first), more...), got, "up to %d", until)
		if until == 120 {
			got, _ = read(next)
			require.Equal(t, append(slices.Clone(second), more...), got)
		}
		purged := w.State(t.Context(), t, "ann")
		state.LastViewed = purged.LastViewed
		stepped, err := w.Users.Step(t.Context(), []userstate.Step{{From: purged, To: state}})
		require.NoError(t, err)
		require.True(t, stepped[0].Applied)
	}
}
