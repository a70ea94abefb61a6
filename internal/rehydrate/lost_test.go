package rehydrate_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// No message is lost when a login or an attempt dies at any step, or an operation fails or panics. This holds whether or not the user
// logs in again.
func TestEveryFaultIsSurvived(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]rig.Fault{
		"dies before": rig.DieBefore, "dies after": rig.DieAfter, "fails before": rig.FailBefore, "fails after": rig.FailAfter,
		"panics before": rig.PanicBefore, "panics after": rig.PanicAfter,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			operations := w.comeBack(t, rig.None, 0)
			for after := range operations {
				w.comeBack(t, fault, after)
			}
		})
	}
}

// comeBack lets ann become dormant, miss messages, and come back, which a fault befalls. It returns how many operations
// that took.
func (w *world) comeBack(t *testing.T, fault rig.Fault, after int) int {
	t.Helper()
	w.Clock.Advance(rig.DormantAfter + time.Minute)
	w.sendSome(t, 5)
	w.Clock.Advance(2 * rig.Slack)
	first, second := w.Rehydrator(0, 2), w.Rehydrator(0, 2)
	if fault == rig.PanicBefore || fault == rig.PanicAfter {
		second = first // a process survives a panic
	}
	a := rig.Start(t.Context(), fault, after, func(ctx context.Context) error {
		err := panics.Do(func() error { return login(ctx, w, first) }) // as the server does with the panic of a request
		if err != nil {
			return err
		}
		first.Work(ctx)
		return nil
	})
	require.True(t, a.Finished())
	if after%2 == 0 || w.State(t.Context(), t, "ann").Mark == nil {
		w.login(t, second)
	}
	w.send(t)
	w.rest(t, second)
	require.Zero(t, second.Load())
	return len(a.Trace())
}

// Between the first query and the moment at which fan-out delivers again, messages become visible that fan-out leaves to the
// rehydration. The sweep finds them, whatever their time and whatever the clock of the rehydrator says.
func TestSweepFindsWhatTheQueryMissed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		skew time.Duration                        // of the rehydrator
		slow time.Duration                        // between the query and the sweep
		sent func(query, now time.Time) time.Time // of the message, which is stored slow after the query
	}{
		"sent after the query":                  {sent: func(query, _ time.Time) time.Time { return query.Add(time.Second) }},
		"sent just after a query that was slow": {slow: 50 * time.Second, sent: func(query, _ time.Time) time.Time { return query.Add(time.Second) }},
		"stored late":                           {sent: func(query, _ time.Time) time.Time { return query.Add(-rig.Slack / 2) }},
		"stored as late as can be":              {sent: func(_, now time.Time) time.Time { return now.Add(-rig.Slack) }},
		"stored as late as can be, and the rehydrator's clock is ahead": {
			skew: rig.ClockTolerance / 2, sent: func(_, now time.Time) time.Time { return now.Add(-rig.Slack) },
		},
		"the author's clock is ahead": {
			skew: -rig.ClockTolerance / 2, sent: func(_, now time.Time) time.Time { return now.Add(rig.ClockTolerance / 2) },
		},
		"the rehydrator's clock is far ahead": {
			skew: 10 * rig.DormantAfter, sent: func(_, now time.Time) time.Time { return now },
		},
		"the rehydrator's clock was set back": {
			skew: -3 * rig.DormantAfter, sent: func(_, now time.Time) time.Time { return now },
		},
		"the author's clock and the store's are far ahead": {
			sent: func(_, now time.Time) time.Time { return now.Add(rig.DormantAfter - rig.Slack) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDormantWorld(t)
			w.Clock.Advance(rig.Slack)
			w.login(t, w.Rehydrator(0, 0)) // whose process dies
			w.Clock.Advance(rig.Lease + 2*rig.ClockTolerance)
			s := w.Rehydrator(test.skew, 0)
			require.NoError(t, s.Reap(t.Context(), w.now().Add(test.skew)))
			query := w.now()
			attempt := w.work(t, s, rig.StallBefore, changes, bound)
			w.Clock.Advance(test.slow)
			w.fanOut(t, w.store(t, test.sent(query, w.now())))
			w.Clock.Advance(2*rig.Slack - test.slow)
			attempt.Resume(rig.None, 0)
			require.NoError(t, attempt.Err())
			w.rest(t, s)
		})
	}
}

// What was there when they came back is in their inbox as soon as that counts as rebuilt, though it was sent by a clock that is ahead of
// the rehydrator's; and it is counted, though fan-out delivers it before the sweep has looked.
func TestSentByAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	s := w.Rehydrator(-rig.ClockTolerance/2, 0)
	ahead := w.store(t, w.now().Add(rig.ClockTolerance/2-time.Second))
	w.login(t, s)
	attempt := w.work(t, s, rig.StallBefore, changes, finish)
	shown, page := w.ReadInbox(t.Context(), t, "ann", 50)
	require.False(t, page.Complete, "the sweep may find more")
	require.Len(t, shown, 2)
	require.Equal(t, ahead.ID, shown[0])
	w.fanOut(t, ahead)
	attempt.Resume(rig.None, 0)
	require.NoError(t, attempt.Err())
	require.Equal(t, int64(2), w.State(t.Context(), t, "ann").Recovered)
	w.rest(t, s)
}

// A user unfollows an author after an attempt has read the edges and before it queries the messages, as in an outage of the store. A
// message that the author sends after that is not for the user.
func TestUnfollowedBetweenEdgesAndQuery(t *testing.T) {
	t.Parallel()
	for name, feed := range map[string]int{"rebuild": 0, "sweep": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDormantWorld(t)
			s := w.Rehydrator(0, 0)
			w.login(t, s)
			attempt := w.work(t, s, rig.StallAfter, "Following", feed)
			w.send(t) // still for both
			for _, user := range []message.UserID{"ann", "twin"} {
				require.NoError(t, w.Edges.Unfollow(t.Context(), follow.Pair{Follower: user, Followee: "author"}, w.now()))
			}
			w.Clock.Advance(time.Second)
			w.send(t)
			w.fanOut(t, w.store(t, w.now(), "ann", "twin"))
			attempt.Resume(rig.None, 0)
			require.NoError(t, attempt.Err())
			w.rest(t, s)
			shown, _ := w.ReadInbox(t.Context(), t, "ann", 10)
			require.Len(t, shown, 3)
		})
	}
}

// busy are messages that become more whenever they are read in pages: authors publish faster than a rehydration reads.
type busy struct {
	message.Store
	publish func()
}

func (b busy) ToFollowers(ctx context.Context, ranges []message.Range, order message.Order, limit int) ([]message.Stored, error) {
	if order == message.OldestFirst {
		b.publish()
	}
	return b.Store.ToFollowers(ctx, ranges, order, limit)
}

// A rehydration ends although authors publish faster than it reads.
func TestAuthorsPublishFasterThanARehydrationReads(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 2} {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			t.Parallel()
			const most = 1000 // ends the test if the rehydration does not
			w := newDormantWorld(t)
			w.sendSome(t, 2*rig.RehydratePage)
			var published []message.Message
			stores := w.RehydrateStores()
			stores.Messages = busy{Store: stores.Messages, publish: func() {
				for range 2 * rig.RehydratePage {
					if len(published) < most {
						published = append(published, w.store(t, w.now()))
						w.Clock.Advance(time.Millisecond)
					}
				}
			}}
			opts := w.RehydrateOptions(0)
			opts.Limit = limit
			s := rehydrate.New(stores, opts)
			w.login(t, s)
			require.True(t, s.Work(t.Context()))
			require.False(t, w.State(t.Context(), t, "ann").Rehydrating())
			require.Less(t, len(published), most)
			w.fanOut(t, published...)
			w.rest(t, s)
		})
	}
}

// A message becomes visible in a gap after the gap was counted. Fan-out leaves it to the gap, and the gap is counted again, whenever
// that was.
func TestGapIsCountedAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault     rig.Fault // of the attempt, nothing if it has ended before
		operation string
		after     int
	}{
		"before the gap is recorded":  {rig.StallBefore, changes, bound},
		"before the mark is replaced": {rig.StallBefore, changes, settle},
		"while the sweep looks":       {rig.StallAfter, "Following", 1},
		"after the sweep has counted": {rig.StallBefore, changes, finish},
		"at rest":                     {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDormantWorld(t)
			w.sendSome(t, 5)
			late := w.now()
			w.sendSome(t, 5)
			s := w.Rehydrator(0, 2)
			w.login(t, s)
			attempt := w.work(t, s, test.fault, test.operation, test.after)
			w.fanOut(t, w.store(t, late))
			attempt.Resume(rig.None, 0)
			w.rest(t, s)
			st := w.State(t.Context(), t, "ann")
			require.Len(t, st.Gaps, 1)
			require.EqualValues(t, 10, st.Gaps[0].Messages)
			require.EqualValues(t, 12, st.Recovered)
			require.False(t, st.Rehydrating())
		})
	}
}

// A follow that catches up leaves a message to a gap, too, and the gap is counted again.
func TestGapIsCountedAgainAfterAFollow(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	w.sendSome(t, 10)
	s := w.Rehydrator(0, 2)
	late := message.Message{ID: message.MinID(w.now()), From: "other", Audience: message.AudienceFollowers, Body: "late"}
	late.ID[6], late.ID[8] = 0x70, 0x80
	_, err := w.Messages.Insert(t.Context(), []message.Message{late}, rig.Rules().Timing()) // its fan-out has found no followers
	require.NoError(t, err)
	w.sendSome(t, 3)
	w.login(t, s)
	w.rest(t, s)
	pairs := []follow.Pair{{Follower: "ann", Followee: "other"}, {Follower: "twin", Followee: "other"}}
	_, err = w.Edges.Follow(t.Context(), pairs, late.Sent()) // by a host that dies before it catches up
	require.NoError(t, err)
	before := w.State(t.Context(), t, "ann").Gaps[0].Messages
	require.NoError(t, w.Following(0).Follow(t.Context(), pairs))
	w.rest(t, s)
	require.Equal(t, before+1, w.State(t.Context(), t, "ann").Gaps[0].Messages)
}

// A lease that a clock far ahead has set ends as soon as another host looks at it.
func TestLeaseFromAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	_, err := w.Rehydrator(24*time.Hour, 0).Login(t.Context(), "ann", w.now(), 0)
	require.NoError(t, err)
	s := w.Rehydrator(0, 0)
	w.login(t, s)
	require.Equal(t, 1, s.Load().Waiting)
	w.rest(t, s)

	w.Clock.Advance(rig.DormantAfter + time.Minute)
	_, err = w.Rehydrator(24*time.Hour, 0).Login(t.Context(), "ann", w.now(), 0)
	require.NoError(t, err)
	require.NoError(t, s.Reap(t.Context(), w.now()))
	require.Equal(t, 1, s.Load().Waiting)
	w.rest(t, s)
}

// An attempt failed while the clock was ahead by less than a lease may last. When the clock is right again, no user waits until the time of
// that clock: the reaper of any process takes over a lease that nobody renews.
func TestLeaseThatNobodyRenews(t *testing.T) {
	t.Parallel()
	const ahead, reaps = 20 * time.Minute, 3
	for name, other := range map[string]bool{"the same process": false, "another process": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDormantWorld(t)
			every := func(o *rehydrate.Options) { o.ReapEvery = o.Lease / (reaps - 2) }
			s := w.service(every)
			w.Clock.Advance(ahead)
			w.login(t, s)
			w.work(t, s, rig.FailBefore, "Push", 0)
			w.Clock.Advance(-ahead)
			if other {
				s = w.service(every)
			}
			for range reaps - 1 {
				require.NoError(t, s.Reap(t.Context(), w.now()))
				require.False(t, s.Work(t.Context()), "taken over too early")
			}
			require.NoError(t, s.Reap(t.Context(), w.now()))
			require.True(t, s.Work(t.Context()), "not taken over")
			w.rest(t, s)
		})
	}
}

// A lease that ends late and is renewed is that of a process with longer leases. Nobody takes it over.
func TestLongLeaseThatIsRenewed(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	long := w.service(func(o *rehydrate.Options) { o.Lease = 10 * (rig.Lease + rig.ClockTolerance) })
	w.login(t, long)
	other := w.service(func(o *rehydrate.Options) { o.ReapEvery = o.Lease })
	for range 5 {
		require.NoError(t, other.Reap(t.Context(), w.now()))
		require.NoError(t, other.Reap(t.Context(), w.now()))
		w.Clock.Advance(time.Second)
		w.renew(t, 10*(rig.Lease+rig.ClockTolerance))
	}
	require.False(t, other.Work(t.Context()), "taken over")
	require.True(t, long.Work(t.Context()))
	w.rest(t, long)
}

// renew renews the lease of ann, as its holder does.
func (w *world) renew(t *testing.T, lease time.Duration) {
	t.Helper()
	st := w.State(t.Context(), t, "ann")
	next, ok := st.Renew(st.Lease.Token, w.now().Add(lease))
	require.True(t, ok)
	stepped, err := w.Users.Step(t.Context(), []userstate.Step{{From: st, To: next}})
	require.NoError(t, err)
	require.True(t, stepped[0].Applied)
}

// A message that is stored so late that it is void counts for no user, so no rehydration has to find it.
func TestVoidMessagesAreMissedByEverybody(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	w.Clock.Advance(2 * rig.Slack)
	s := w.Rehydrator(0, 0)
	w.login(t, s)
	attempt := w.work(t, s, rig.StallBefore, changes, bound)
	w.fanOut(t, w.store(t, w.now().Add(-rig.Slack-rig.ClockTolerance-time.Second)))
	attempt.Resume(rig.None, 0)
	w.rest(t, s)
	shown, _ := w.ReadInbox(t.Context(), t, "twin", 10)
	require.Len(t, shown, 1)
}

// Fan-out delivers while the sweep is under way: the sweep does not look for what comes now.
func TestFanoutDeliversDuringTheSweep(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	s := w.Rehydrator(0, 0)
	w.login(t, s)
	attempt := w.work(t, s, rig.StallBefore, changes, finish)
	w.send(t)
	attempt.Resume(rig.None, 0)
	w.rest(t, s)
}

// Fan-out decides by what it has read after the message was stored, however long it takes over it.
func TestFanoutSkipsByAStateItHasJustRead(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	s := w.Rehydrator(0, 0)
	w.login(t, s)
	m := w.store(t, w.now(), "ann", "twin")
	deliverer := w.deliverer() // one that has seen ann dormant, and sees her active
	_, err := w.Progress.Plan(t.Context(), m.ID, "medium", []int{0, 1}, w.now())
	require.NoError(t, err)
	for p := range rig.Partitions {
		require.NoError(t, w.Bus.EmitTasks(t.Context(), []event.Task{{Version: event.Version, ID: m.ID, From: m.From, Lane: event.Bulk, Partition: p}}))
	}
	var stalled []*rig.Actor
	for p := range rig.Partitions {
		held := w.take(t, event.Bulk, p)
		stalled = append(stalled, rig.StartAt(t.Context(), rig.StallAfter, "Lookup", 0, func(ctx context.Context) error {
			return deliverer.Deliver(ctx, held)
		}))
	}
	require.True(t, s.Work(t.Context()))
	for _, a := range stalled {
		a.Resume(rig.None, 0)
		require.NoError(t, a.Err())
	}
	w.rest(t, s)

	next := w.store(t, w.now(), "ann", "twin")
	_, err = w.Progress.Plan(t.Context(), next.ID, "medium", []int{0, 1}, w.now())
	require.NoError(t, err)
	for p := range rig.Partitions {
		require.NoError(t, w.Bus.EmitTasks(t.Context(), []event.Task{{Version: event.Version, ID: next.ID, From: next.From, Lane: event.Bulk, Partition: p}}))
		require.NoError(t, deliverer.Deliver(t.Context(), w.take(t, event.Bulk, p)))
	}
	w.rest(t, s)
}

// Fan-out delivers messages sent up to and at the horizon. The rehydration delivers messages sent after it.
func TestHorizonToTheMillisecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, after := range []time.Duration{-time.Millisecond, 0, time.Millisecond, 2 * time.Millisecond} {
		for _, late := range []bool{false, true} {
			horizon := w.State(t.Context(), t, "ann").Horizon
			w.Clock.Advance(horizon.Sub(w.now()))
			m := w.store(t, horizon.Add(after))
			w.Clock.Advance(2 * rig.Slack)
			s := w.Rehydrator(0, 0)
			if late {
				w.login(t, s)
			}
			w.fanOut(t, m)
			if !late {
				w.login(t, s)
			}
			w.rest(t, s)
		}
	}
}

// A message that waits beyond the horizon before it is fanned out is delivered as it would have been in time.
func TestBacklogBeyondTheHorizon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.store(t, w.now())
	w.Clock.Advance(rig.DormantAfter + time.Hour)
	w.fanOut(t, m)
	s := w.Rehydrator(0, 0)
	w.login(t, s)
	w.rest(t, s)
}

// A second login finds a rehydration that no process works on. It continues from the same start.
func TestSecondLoginKeepsTheMark(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	w.Clock.Advance(2 * rig.Slack)
	w.login(t, w.Rehydrator(0, 0)) // whose process dies
	w.Clock.Advance(rig.Lease + time.Second)
	s := w.Rehydrator(0, 0)
	w.login(t, s)
	w.rest(t, s)
}

// A login survives a crash, also where there is nothing left to record since somebody who need not wait for the disk has.
func TestLoginSurvivesACrash(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"active": time.Minute, "dormant": rig.DormantAfter + time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Clock.Advance(away)
			s := w.Rehydrator(0, 0)
			_, err := s.ArriveLazily(t.Context(), "ann", w.now())
			require.NoError(t, err)
			arrived := w.State(t.Context(), t, "ann")
			w.login(t, s)
			w.Rig, err = w.Crash(t.Context(), 0, 0)
			require.NoError(t, err)
			require.Equal(t, arrived, w.State(t.Context(), t, "ann"))
			w.rest(t, w.Rehydrator(0, 0))
		})
	}
}

// A user who is dormant again before the sweep of their last rehydration has finished gets a normal rehydration.
func TestDormantAgainBeforeTheSweep(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 2} {
		for name, stall := range map[string]int{"before the sweep": settle, "after it": finish} {
			t.Run(fmt.Sprintf("%s, limit %d", name, limit), func(t *testing.T) {
				t.Parallel()
				w := newDormantWorld(t)
				first, second := w.Rehydrator(0, limit), w.Rehydrator(0, limit)
				w.login(t, first)
				fault := rig.StallBefore
				if stall == settle {
					fault = rig.StallAfter
				}
				attempt := w.work(t, first, fault, changes, stall)
				w.Clock.Advance(rig.DormantAfter + rig.Slack)
				w.sendSome(t, 5)
				w.Clock.Advance(2 * rig.Slack)
				_, err := second.Arrive(t.Context(), "ann", w.now()) // does not wait, so it does not take the sweep over
				require.NoError(t, err)
				attempt.Resume(rig.None, 0)
				w.send(t)
				w.rest(t, second)
			})
		}
	}
}

// A host that has lost the lease ends no rehydration, not even one that looks like its own.
func TestLostLeaseEndsNothing(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	first, second := w.Rehydrator(0, 0), w.Rehydrator(0, 0)
	w.login(t, first)
	slow := w.work(t, first, rig.StallBefore, changes, finish)
	w.Clock.Advance(rig.DormantAfter + rig.Slack)
	w.send(t)
	w.login(t, second)
	taken := w.work(t, second, rig.StallBefore, changes, bound)
	w.send(t) // is left to the sweep of the second
	taken.Resume(rig.StallAfter, 3)
	for w.State(t.Context(), t, "ann").Mark != nil {
		taken.Resume(rig.StallAfter, 0)
	}
	taken.Kill()
	slow.Resume(rig.None, 0)
	require.NotNil(t, w.State(t.Context(), t, "ann").Sweep, "nobody has swept")
	w.rest(t, second)
}

// A reaper takes over whatever was left, also if all that is left is the sweep.
func TestReaperTakesOverSweeps(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	s := w.Rehydrator(0, 0)
	w.login(t, s)
	attempt := w.work(t, s, rig.StallBefore, changes, bound)
	w.send(t)
	attempt.Kill()
	w.Clock.Advance(rig.Lease + time.Second)
	second := w.Rehydrator(0, 0)
	require.NoError(t, second.Reap(t.Context(), w.now()))
	taken := w.work(t, second, rig.StallBefore, changes, bound)
	w.send(t)
	taken.Resume(rig.StallAfter, 0)
	for w.State(t.Context(), t, "ann").Mark != nil {
		taken.Resume(rig.StallAfter, 0)
	}
	taken.Kill()
	w.rest(t, w.Rehydrator(0, 0))
}

// A user whose last look is set by others is judged by the clock, whatever the value, and comes back as if they had looked.
func TestSettingLastViewedRehydrates(t *testing.T) {
	t.Parallel()
	for name, ago := range map[string]time.Duration{
		"now": 0, "within the old horizon": rig.DormantAfter/2 + 20*time.Minute, "a while ago": rig.DormantAfter / 2,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDormantWorld(t)
			w.Clock.Advance(rig.DormantAfter / 4)
			s := w.Rehydrator(0, 0)
			errs, err := w.InboxesWith(s, 0).SetSeen(t.Context(), []inbox.Seen{{User: "ann", At: w.now().Add(-ago)}})
			require.NoError(t, err)
			require.ErrorIs(t, errs[0], rehydrate.ErrUnfinished)
			w.send(t)
			w.rest(t, s)
		})
	}
}

// A user with as many gaps as are allowed gets no further one: a rehydration copies everything.
func TestGapsAreBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ gaps, copied int }{
		"one below the limit": {userstate.MaxGaps - 1, 2},
		"at the limit":        {userstate.MaxGaps, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDormantWorld(t)
			w.sendSome(t, 4)
			from := w.State(t.Context(), t, "ann")
			to := from
			for n := range test.gaps { // of years ago, and empty
				after := rig.Epoch.AddDate(-1, 0, 0).Add(time.Duration(n) * time.Second)
				to.Gaps = append(to.Gaps, userstate.Gap{After: after, Before: after.Add(time.Millisecond * 10)})
			}
			stepped, err := w.Users.Step(t.Context(), []userstate.Step{{From: from, To: to}})
			require.NoError(t, err)
			require.True(t, stepped[0].Applied)

			s := w.Rehydrator(0, 2)
			w.login(t, s)
			require.True(t, s.Work(t.Context()))
			st := w.State(t.Context(), t, "ann")
			require.False(t, st.Rehydrating())
			require.Len(t, st.Gaps, userstate.MaxGaps)
			require.Equal(t, int64(5), st.Recovered)
			buckets, err := bucket.ReadSection(t.Context(), w.Inbox, bucket.Section{Owner: "ann", High: math.MaxUint32}, bucket.AllFields)
			require.NoError(t, err)
			require.Len(t, buckets, 1)
			require.Equal(t, test.copied, buckets[0].Slots)
		})
	}
}

// Whatever the limit leaves out can be reached by paging, and what the sweep finds is never left out.
func TestLimit(t *testing.T) {
	t.Parallel()
	for limit := range 8 {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			t.Parallel()
			w := newDormantWorld(t)
			w.sendSome(t, 4)
			w.Clock.Advance(2 * rig.Slack)
			s := w.Rehydrator(0, limit)
			w.login(t, s)
			attempt := w.work(t, s, rig.StallBefore, changes, settle)
			w.sendSome(t, 4) // more than the limit, and more than a page
			attempt.Resume(rig.None, 0)
			st := w.State(t.Context(), t, "ann")
			require.Equal(t, int64(9), st.Recovered)
			if limit == 0 || limit >= 5 {
				require.Empty(t, st.Gaps)
			} else {
				require.Len(t, st.Gaps, 1)
				require.Equal(t, int64(5-limit), st.Gaps[0].Messages)
			}
			w.rest(t, s)
		})
	}
}

// What is left to a gap is decided once, before anything is appended: another attempt, with another limit and at another
// time, does not decide it anew.
func TestGapIsDecidedBeforeAnythingIsAppended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for after := range 24 {
		w.Clock.Advance(rig.DormantAfter + time.Minute)
		w.sendSome(t, 7)
		w.Clock.Advance(2 * rig.Slack)
		first := w.Rehydrator(0, 5)
		w.login(t, first)
		attempt := rig.Start(t.Context(), rig.StallBefore, after, func(ctx context.Context) error {
			first.Work(ctx)
			return nil
		})
		attempt.Kill()
		w.sendSome(t, 2)
		w.Clock.Advance(2 * rig.Slack)
		w.rest(t, w.Rehydrator(0, 2))
	}
}

// A new limit is applied where nothing has been appended, and an earlier gap is left as it is.
func TestGapsDoNotOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.Rehydrator(0, 2)
	for n := range 3 {
		w.Clock.Advance(rig.DormantAfter + time.Minute)
		w.sendSome(t, 5)
		w.Clock.Advance(2 * rig.Slack)
		w.login(t, s)
		w.rest(t, s)
		require.Len(t, w.State(t.Context(), t, "ann").Gaps, n+1)
	}
}

// What was sent beyond the horizon is appended by nobody: if the last look is set to long ago, it is for the next
// rehydration, which finds all of it missing.
func TestNothingBeyondTheHorizon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.Rehydrator(0, 2)
	for range 3 {
		w.Clock.Advance(rig.DormantAfter + time.Minute)
		w.sendSome(t, 5)
		w.Clock.Advance(2 * rig.Slack)
		// Ann has looked, and is dormant by now all the same.
		ago := w.State(t.Context(), t, "ann").LastViewed.Add(time.Second)
		errs, err := w.InboxesWith(s, 0).SetSeen(t.Context(), []inbox.Seen{{User: "ann", At: ago}})
		require.NoError(t, err)
		require.ErrorIs(t, errs[0], rehydrate.ErrUnfinished)
		require.True(t, s.Work(t.Context()))
		require.Empty(t, w.Buckets(t.Context(), t, "ann"))
	}
	w.login(t, s)
	w.rest(t, s)
	st := w.State(t.Context(), t, "ann")
	require.Len(t, st.Gaps, 1)
	require.EqualValues(t, 13, st.Gaps[0].Messages)
	require.EqualValues(t, 15, st.Recovered)
}

// A user looks while a rehydration that ends at an earlier horizon is under way: the sweep makes up for the rest.
func TestHorizonRaisedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	w.Clock.Advance(2 * rig.Slack) // the missed messages are older than those that every sweep looks for
	s := w.Rehydrator(0, 0)
	_, err := s.Arrive(t.Context(), "ann", rig.Epoch.Add(time.Second))
	require.NoError(t, err)
	attempt := w.work(t, s, rig.StallBefore, changes, 0)
	w.login(t, s)
	attempt.Resume(rig.None, 0)
	w.rest(t, s)
}

// A job that lost its lease continues when its own process has set a new mark.
func TestNewMarkHasATokenOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	comeBack := func(s *rehydrate.Service) {
		w.Clock.Advance(rig.DormantAfter + time.Minute)
		w.sendSome(t, 5)
		w.Clock.Advance(2 * rig.Slack)
		w.login(t, s)
	}
	s := w.Rehydrator(0, 2)
	comeBack(s)
	stalled := w.work(t, s, rig.StallBefore, changes, bound)
	w.rest(t, w.Rehydrator(0, 2))
	comeBack(s)
	stalled.Resume(rig.None, 0)
	w.rest(t, w.Rehydrator(0, 2))
}

// The sweep of a rehydration that was never finished leaves alone what a later one has left to a gap.
func TestOldSweepLeavesGapsAlone(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	first := w.Rehydrator(0, 2)
	w.login(t, first)
	w.work(t, first, rig.DieAfter, changes, settle)
	w.Clock.Advance(rig.DormantAfter + rig.Slack)
	w.sendSome(t, 6)
	w.Clock.Advance(2 * rig.Slack)
	second := w.Rehydrator(0, 2)
	w.login(t, second)
	w.rest(t, second)
	require.Len(t, w.State(t.Context(), t, "ann").Gaps, 1)
}

// A message that is deleted before the rebuilding has come to it stays deleted.
func TestDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 2} {
		w := newDormantWorld(t)
		deleted := w.send(t)
		w.send(t)
		w.send(t)
		w.Clock.Advance(2 * rig.Slack)
		s := w.Rehydrator(0, limit)
		w.login(t, s)
		require.NoError(t, w.InboxesWith(s, 0).Delete(t.Context(), "ann", deleted.ID))
		w.twins.Deleted = map[message.ID]bool{deleted.ID: true}
		w.rest(t, s)
	}
}

// A deletion stalls before any of its operations, and meanwhile the user's inbox is rebuilt: the message is appended, or left to a gap.
func TestDeletionStallsDuringARebuild(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"appended": 0, "in a gap": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for after := 0; ; after++ {
				w := newDormantWorld(t)
				deleted := w.send(t)
				w.sendSome(t, 3)
				w.Clock.Advance(2 * rig.Slack)
				s := w.Rehydrator(0, limit)
				w.login(t, s)
				a := rig.Start(t.Context(), rig.StallBefore, after, func(ctx context.Context) error {
					return w.InboxesWith(s, 0).Delete(ctx, "ann", deleted.ID)
				})
				stalled := !a.Finished()
				w.work(t, s, rig.None, "", 0)
				a.Resume(rig.None, 0)
				require.NoError(t, a.Err())
				w.twins.Deleted = map[message.ID]bool{deleted.ID: true}
				w.rest(t, s)
				if !stalled {
					break
				}
			}
		})
	}
}

// A message becomes visible in a gap after the gap was counted, and is deleted before its fan-out comes. The inbox counts right as soon as
// the deletion has returned, wherever it stalled while the gap was made, and when the fan-out has come.
func TestLateMessageDeletedInAGap(t *testing.T) {
	t.Parallel()
	for after := 0; ; after++ {
		w := newDormantWorld(t)
		w.sendSome(t, 5)
		late := message.MinID(w.now())
		late[6], late[8] = 0x70, 0x80
		w.Clock.Advance(time.Millisecond)
		w.sendSome(t, 5)
		s := w.Rehydrator(0, 2)
		w.login(t, s)
		visible := message.Message{ID: late, From: "author", Audience: message.AudienceFollowers, Body: "late"}
		a := rig.Start(t.Context(), rig.StallBefore, after, func(ctx context.Context) error {
			return w.InboxesWith(s, 0).Delete(ctx, "ann", late)
		})
		stalled := !a.Finished()
		w.work(t, s, rig.None, "", 0)
		_, err := w.Messages.Insert(t.Context(), []message.Message{visible}, rig.Rules().Timing())
		require.NoError(t, err)
		a.Resume(rig.None, 0)
		if err := a.Err(); err != nil { // it had looked before the message was visible
			require.ErrorIs(t, err, bucket.ErrNotFound)
			require.NoError(t, w.InboxesWith(s, 0).Delete(t.Context(), "ann", late))
		}
		shown, page := w.ReadInbox(t.Context(), t, "ann", 50)
		require.NotContains(t, shown, late)
		require.Len(t, shown, int(page.Total), "after %v", a.Trace())
		require.Len(t, shown, int(page.Unread))
		w.fanOut(t, visible)
		w.twins.Deleted = map[message.ID]bool{late: true}
		w.rest(t, s)
		if !stalled {
			break
		}
	}
}

// A deletion in a gap stalls before any of its operations, while the fan-out of the message owes a count of the gap, and while a sweep
// counts.
func TestGapIsCountedDuringADeletion(t *testing.T) {
	t.Parallel()
	for name, sweeps := range map[string]bool{"owed": false, "swept": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for after := 0; ; after++ {
				w := newDormantWorld(t)
				w.sendSome(t, 5)
				sent := w.now()
				w.sendSome(t, 5)
				s := w.Rehydrator(0, 2)
				w.login(t, s)
				w.work(t, s, rig.None, "", 0)
				late := w.store(t, sent)
				a := rig.Start(t.Context(), rig.StallBefore, after, func(ctx context.Context) error {
					return w.InboxesWith(s, 0).Delete(ctx, "ann", late.ID)
				})
				stalled := !a.Finished()
				w.fanOut(t, late)
				if sweeps {
					require.NoError(t, s.Reap(t.Context(), w.now()))
					w.work(t, s, rig.None, "", 0)
				}
				a.Resume(rig.None, 0)
				require.NoError(t, a.Err())
				shown, page := w.ReadInbox(t.Context(), t, "ann", 50)
				require.Len(t, shown, int(page.Total), "after %v", a.Trace())
				w.twins.Deleted = map[message.ID]bool{late.ID: true}
				w.rest(t, s)
				if !stalled {
					break
				}
			}
		})
	}
}
