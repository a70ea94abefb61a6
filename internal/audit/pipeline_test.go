package audit_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/following"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// pipeline is the real pipeline, and somebody who does with it what comes into their mind.
type pipeline struct {
	*rig.Rig
	random     *mathrand.Rand
	users      []message.UserID
	audit      *audit.Service
	publisher  *publish.Service
	router     *fanout.Router
	deliverer  *fanout.Deliverer
	following  *following.Service
	rehydrator *rehydrate.Service
	inboxes    *inbox.Service
}

func newPipeline(t *testing.T, bus *rig.Bus, seed uint64) *pipeline {
	t.Helper()
	require.NoError(t, bus.Clear(t.Context()))
	r, err := rig.Open(t.Context(), rig.NewClock(), bus, nil)
	require.NoError(t, err)
	rehydrator := r.Rehydrator(0, 4)
	p := &pipeline{
		Rig: r, random: mathrand.New(mathrand.NewPCG(seed, 0)),
		publisher: r.Publisher(0), following: r.Following(0), rehydrator: rehydrator, inboxes: r.InboxesWith(rehydrator, 0),
		router:    fanout.NewRouter(r.Stores(), bus, r.FanoutOptions(0)),
		deliverer: fanout.NewDeliverer(r.Stores(), bus, r.FanoutOptions(0)),
		audit: audit.New(audit.Stores{
			Messages: r.Messages, Progress: r.Progress, Users: r.Users, Edges: r.Edges, Flags: r.Flags, Buckets: r.Inbox, Appender: r.Appender,
		}, audit.Options{
			Partitions: rig.Partitions, Rules: rig.Rules, Random: rand.Reader, Now: r.Clock.Now, Recount: rehydrator.Recount,
		}),
	}
	for n := range 10 {
		p.users = append(p.users, message.UserID(fmt.Sprintf("u%d", n)))
	}
	return p
}

func (p *pipeline) user() message.UserID { return p.users[p.random.IntN(len(p.users))] }

// act does something.
func (p *pipeline) act(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	switch p.random.IntN(13) {
	case 0, 1, 2:
		draft := message.Draft{From: p.users[p.random.IntN(2)], Audience: message.AudienceFollowers, Body: "x"}
		if p.random.IntN(3) == 0 {
			draft.To = []message.UserID{p.user(), p.user()}
		}
		results := p.publisher.Publish(ctx, []publish.Request{{Draft: draft}})
		require.NoError(t, results[0].Err)
	case 3, 4:
		p.route(t)
	case 5:
		p.deliver(t)
	case 6:
		pair := follow.Pair{Follower: p.user(), Followee: p.users[p.random.IntN(2)].Source()}
		if pair.Follower.Source() != pair.Followee {
			require.NoError(t, p.following.Follow(ctx, []follow.Pair{pair}))
		}
	case 7:
		pair := follow.Pair{Follower: p.user(), Followee: p.users[p.random.IntN(2)].Source()}
		if pair.Follower.Source() != pair.Followee {
			require.NoError(t, p.following.Unfollow(ctx, pair))
		}
	case 8:
		_, err := p.rehydrator.Arrive(ctx, p.user(), p.Clock.Now())
		require.NoError(t, err)
	case 9:
		p.rehydrator.Work(ctx)
	case 10:
		user := p.user()
		if shown, _ := p.ReadInbox(ctx, t, user, 20); len(shown) > 0 {
			require.NoError(t, p.inboxes.Delete(ctx, user, shown[p.random.IntN(len(shown))]))
		}
	case 11:
		p.Clock.Advance([]time.Duration{time.Millisecond, time.Second, rig.Slack, rig.DormantAfter / 2, 2 * rig.DormantAfter}[p.random.IntN(5)])
	case 12:
		user := p.user()
		if shown, _ := p.ReadInbox(ctx, t, user, 20); len(shown) > 0 {
			err := p.inboxes.MarkRead(ctx, user, shown[p.random.IntN(len(shown))])
			require.True(t, err == nil || errors.Is(err, rehydrate.ErrUnfinished) || errors.Is(err, userstate.ErrNotFound), "%v", err)
		}
	}
}

// route routes everything that was published.
func (p *pipeline) route(t *testing.T) (worked bool) {
	t.Helper()
	received, err := p.Bus.TryFetch(t.Context(), 100)
	require.NoError(t, err)
	require.NoError(t, p.router.Route(t.Context(), received))
	return len(received) > 0
}

// deliver works on a batch of every lane and partition.
func (p *pipeline) deliver(t *testing.T) (worked bool) {
	t.Helper()
	for _, lane := range event.Lanes() {
		for partition := range rig.Partitions {
			held, err := p.Bus.TryTake(t.Context(), lane, partition)
			require.NoError(t, err)
			if held != nil {
				worked = true
				require.NoError(t, p.deliverer.Deliver(t.Context(), held))
			}
		}
	}
	return worked
}

// TestNothingIsFoundInTheRealPipeline lets the real pipeline run, at random, and audits it all along: there is nothing to
// find at any moment.
func TestNothingIsFoundInTheRealPipeline(t *testing.T) {
	t.Parallel()
	bus := rig.NewBus(t, rig.Partitions)
	var expected, inFlight, rehydrating int64
	for seed := range uint64(6) {
		p := newPipeline(t, bus, seed)
		for range 40 {
			for range 5 {
				p.act(t)
			}
			found, summary := run(t.Context(), t, p.audit, audit.Request{})
			require.Empty(t, found, "seed %d", seed)
			inFlight += summary.InFlight
			rehydrating += summary.Rehydrating
		}
		for worked := true; worked; {
			p.Clock.Advance(rig.Lease + rig.ClockTolerance)                   // a lease that was taken over while its job waited dies
			require.NoError(t, p.rehydrator.Reap(t.Context(), p.Clock.Now())) // a message left to a gap owes a count
			worked = p.route(t) || p.deliver(t) || p.rehydrator.Work(t.Context())
		}
		found, summary := run(t.Context(), t, p.audit, audit.Request{})
		require.Empty(t, found, "seed %d", seed)
		require.Zero(t, summary.InFlight, "seed %d", seed)
		require.Zero(t, summary.Rehydrating, "seed %d", seed)
		expected += summary.Expected
		require.NoError(t, p.Close())
	}
	// What would find nothing if nothing happened has to show that something did.
	require.Positive(t, inFlight)
	require.Positive(t, rehydrating)
	require.Greater(t, expected, int64(100))
}
