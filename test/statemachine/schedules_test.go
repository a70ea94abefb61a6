package statemachine_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

var (
	seeds = flag.Uint64("seeds", 0, "how many schedules TestSchedules runs on each store; 0 is what is quick")
	seed  = flag.Uint64("seed", 0, "the schedule that TestSchedules begins with")
)

const (
	// picks is how often a schedule picks the next actor: enough for all actors to end in most schedules.
	picks = 100
	// burst bounds how far they do. Some move a single operation at a time, others do a lot while one stands still.
	burst = 40
)

// TestSchedules runs publishers, deliverers, rehydrators, logins and a follow, each on a clock of its own, around the
// moment at which a user becomes dormant. Exactly one of them moves at a time, by single operations on the store or the
// bus, in an order that is drawn from a seed; some die. At the end the user has to have what their twin has, who was never
// dormant. With -seed and -seeds=1 a schedule that fails does so again. On MongoDB, an operation may be several commands, and
// everybody moves by single commands.
func TestSchedules(t *testing.T) {
	t.Parallel()
	onEachStore(t, rig.NewMongoDBByCommand, func(t *testing.T, w world) {
		t.Helper()
		if *seeds > 0 {
			w.schedules = *seeds
		}
		for n := range w.schedules {
			runSchedule(t, w, *seed+n)
		}
	})
}

// schedule is one order in which players move.
type schedule struct {
	*rig.Rig
	random      *rand.Rand
	players     []*player
	follower    *player
	rehydrators []*rehydrate.Service
	twins       rig.Twins
	// moves tells who moved, in order.
	moves []string
}

// player makes calls, one after the other, and each of them an operation at a time.
type player struct {
	name string
	// next returns the next call, and what is to be done when it has ended; or nothing, if there is nothing to do now.
	next func(t *testing.T) (do func(ctx context.Context) error, end func())
	// mortal tells that the player may die in the middle of a call.
	mortal bool

	actor *rig.Actor
	began time.Time // of the call, by the rig's clock
	end   func()
}

func runSchedule(t *testing.T, w world, seed uint64) {
	t.Helper()
	require.NoError(t, w.bus.Clear(t.Context()))
	s := &schedule{
		random: rand.New(rand.NewPCG(seed, 0)),
		twins:  *rig.NewTwins("ann", "twin"),
	}
	var err error
	s.Rig, err = rig.OpenOn(t.Context(), w.from(tableEntries[seed%uint64(len(tableEntries))]), rig.NewClock(), w.bus, nil)
	require.NoError(t, err)
	defer func() {
		if t.Failed() {
			t.Logf("-run %s -seed %d -seeds 1, in %d moves: %s", t.Name(), seed, len(s.moves), strings.Join(s.moves, ", "))
		}
		require.NoError(t, s.Close())
	}()
	s.set(t)
	for range picks {
		p := s.players[s.random.IntN(len(s.players))]
		for range 1 + s.random.IntN(1+s.random.IntN(burst)) {
			s.move(t, p)
		}
	}
	for _, p := range s.players {
		for p.actor != nil {
			s.move(t, p)
		}
	}
	s.rest(t)
}

// set lets ann be at the edge of her horizon, with authors and hosts around her.
func (s *schedule) set(t *testing.T) {
	t.Helper()
	edge := time.Duration(s.random.IntN(4000)-2000) * time.Millisecond
	require.NoError(t, storetest.See(t.Context(), s.Users, rig.Epoch.Add(edge-rig.DormantAfter), rig.DormantAfter, s.twins.User))
	require.NoError(t, storetest.See(t.Context(), s.Users, rig.Epoch.AddDate(10, 0, 0), rig.DormantAfter, s.twins.Twin))
	_, err := s.Edges.Follow(t.Context(), s.pairs("author"), rig.Epoch.Add(-time.Hour))
	require.NoError(t, err)
	const ahead, behind = 900 * time.Millisecond, -900 * time.Millisecond
	limit := s.random.IntN(4) // 0 is none
	s.rehydrators = []*rehydrate.Service{s.Rehydrator(ahead, limit), s.Rehydrator(behind, limit)}
	s.follower = &player{name: "follower", next: s.follow(1, ahead)}
	s.players = []*player{
		{name: "clock", next: s.passTime(40)},
		{name: "publisher-1", next: s.publish(6, "author", s.Publisher(behind))},
		{name: "publisher-2", next: s.publish(6, "other", s.Publisher(ahead))},
		s.follower,
		{name: "deliverer-1", next: s.fanOut(ahead), mortal: true},
		{name: "deliverer-2", next: s.fanOut(behind), mortal: true},
		{name: "login-1", next: s.login(2, s.rehydrators[0], ahead), mortal: true},
		{name: "login-2", next: s.login(2, s.rehydrators[1], behind), mortal: true},
		{name: "rehydrator-1", next: s.rehydrate(s.rehydrators[0], ahead), mortal: true},
		{name: "rehydrator-2", next: s.rehydrate(s.rehydrators[1], behind), mortal: true},
	}
	s.players = append(s.players, s.players[4:]...) // who has more to do moves more often
}

func (s *schedule) pairs(author message.UserID) []follow.Pair {
	return []follow.Pair{{Follower: s.twins.User, Followee: author.Source()}, {Follower: s.twins.Twin, Followee: author.Source()}}
}

// move lets a player go on by one operation, or begin a call, or die.
func (s *schedule) move(t *testing.T, p *player) {
	t.Helper()
	name := p.name
	switch {
	case p.actor == nil:
		do, end := p.next(t)
		if do == nil {
			return
		}
		p.began = s.Clock.Now()
		p.actor, p.end = rig.Start(t.Context(), rig.StallBefore, 0, do), end
	case p.mortal && s.random.IntN(100) == 0:
		name += " dies"
		p.actor.Kill()
	default:
		p.actor.Resume(rig.StallBefore, 0)
	}
	s.moves = append(s.moves, name)
	if !p.actor.Finished() {
		return
	}
	if !p.actor.Died() {
		require.NoError(t, p.actor.Err(), p.name)
	}
	p.end()
	p.actor = nil
}

// times limits how often a player calls.
func times(n int, do func(ctx context.Context) error) func(*testing.T) (func(context.Context) error, func()) {
	return func(*testing.T) (func(context.Context) error, func()) {
		if n == 0 {
			return nil, nil
		}
		n--
		return do, func() {}
	}
}

// passTime lets time pass, but not while a Follow is running: the system assumes that an edge becomes visible within the
// slack after its start.
func (s *schedule) passTime(n int) func(*testing.T) (func(context.Context) error, func()) {
	const soon = rig.Slack - rig.ClockTolerance
	steps := []time.Duration{time.Millisecond, 200 * time.Millisecond, time.Second, rig.Lease / 2, rig.Slack / 2}
	return func(t *testing.T) (func(context.Context) error, func()) {
		t.Helper()
		if n == 0 {
			return nil, nil
		}
		n--
		step := steps[s.random.IntN(len(steps))]
		for s.follower.actor != nil && s.Clock.Now().Add(step).Sub(s.follower.began) > soon {
			s.move(t, s.follower)
		}
		return func(context.Context) error {
			s.Clock.Advance(step)
			return nil
		}, func() {}
	}
}

func (s *schedule) publish(n int, author message.UserID, by *publish.Service) func(*testing.T) (func(context.Context) error, func()) {
	return times(n, func(ctx context.Context) error {
		draft := message.Draft{From: author, Body: "body", Audience: message.AudienceFollowers}
		if s.random.IntN(3) == 0 {
			draft.To = []message.UserID{s.twins.User, s.twins.Twin}
		}
		// One that is stored too late is void, and published again; in the end it may be refused.
		by.Publish(ctx, []publish.Request{{Draft: draft}})
		return nil
	})
}

func (s *schedule) follow(n int, skew time.Duration) func(*testing.T) (func(context.Context) error, func()) {
	return times(n, func(ctx context.Context) error { return s.Following(skew).Follow(ctx, s.pairs("other")) })
}

func (s *schedule) login(n int, by *rehydrate.Service, skew time.Duration) func(*testing.T) (func(context.Context) error, func()) {
	return times(n, func(ctx context.Context) error {
		_, err := by.Login(ctx, s.twins.User, s.Clock.Skewed(skew)(), 0)
		return unlessLate(err)
	})
}

// fanOut routes what is published, or works on a batch.
func (s *schedule) fanOut(skew time.Duration) func(*testing.T) (func(context.Context) error, func()) {
	opts := s.FanoutOptions(skew)
	router, deliverer := fanout.NewRouter(s.Stores(), s.Bus, opts), fanout.NewDeliverer(s.Stores(), s.Bus, opts)
	return func(t *testing.T) (func(context.Context) error, func()) {
		t.Helper()
		published, tasks, err := s.Bus.Queued(t.Context())
		require.NoError(t, err)
		if published == 0 && len(tasks) == 0 {
			return nil, nil
		}
		unclaimed, err := s.Bus.Unclaimed(t.Context())
		require.NoError(t, err)
		if unclaimed > 0 {
			var received []bus.Received
			route := func(ctx context.Context) (err error) {
				if received, err = s.Bus.TryFetch(ctx, 4); err != nil {
					return err
				}
				return router.Route(ctx, received)
			}
			return route, func() { require.NoError(t, s.Bus.Expire(received)) }
		}
		for _, lane := range event.Lanes() {
			for p := range rig.Partitions {
				held, err := s.Bus.TryTake(t.Context(), lane, p)
				require.NoError(t, err)
				if held != nil {
					return func(ctx context.Context) error { return deliverer.Deliver(ctx, held) },
						func() { require.NoError(t, held.Expire(t.Context())) }
				}
			}
		}
		return nil, nil
	}
}

// rehydrate runs a waiting rehydration, or takes over one that no actor works on.
func (s *schedule) rehydrate(by *rehydrate.Service, skew time.Duration) func(*testing.T) (func(context.Context) error, func()) {
	return func(*testing.T) (func(context.Context) error, func()) {
		if by.Load().Waiting == 0 {
			return func(ctx context.Context) error { return by.Reap(ctx, s.Clock.Skewed(skew)()) }, func() {}
		}
		return func(ctx context.Context) error {
			by.Work(ctx)
			return nil
		}, func() {}
	}
}

// rest lets everything come to its end, ann come back, and compares her with her twin.
func (s *schedule) rest(t *testing.T) {
	t.Helper()
	do := func(p *player) (worked bool) {
		for {
			call, end := p.next(t)
			if call == nil {
				return worked
			}
			require.NoError(t, call(t.Context()))
			end()
			worked = true
		}
	}
	do(&player{next: s.fanOut(0)})
	resumer := fanout.NewResumer(s.Stores(), s.Bus, s.FanoutOptions(0))
	for {
		unfinished, err := s.Messages.Unfinished(t.Context(), message.ID{}, message.MaxID, 100)
		require.NoError(t, err)
		if len(unfinished) == 0 {
			break
		}
		s.Clock.Advance(rig.ResumeAfter + rig.ClockTolerance)
		_, err = resumer.Resume(t.Context())
		require.NoError(t, err)
		require.True(t, do(&player{next: s.fanOut(0)}), "messages remain unfinished: %v", unfinished)
	}
	by := s.rehydrators[0]
	_, err := by.Login(t.Context(), s.twins.User, s.Clock.Now(), 0)
	require.NoError(t, err)
	for worked := true; worked; {
		s.Clock.Advance(rig.Lease + rig.ClockTolerance)
		require.NoError(t, by.Reap(t.Context(), s.Clock.Now()))
		worked = false
		for by.Work(t.Context()) {
			worked = true
		}
	}
	s.RequireAlike(t.Context(), t, s.twins, 3)
}
