package statemachine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// TestAuditAfterPlansEnded publishes and delivers messages, ends their plans, and routes and delivers repetitions of their events and tasks. The
// audit and the status of each message stay as they were.
func TestAuditAfterPlansEnded(t *testing.T) {
	t.Parallel()
	onEachStore(t, rig.NewMongoDB, func(t *testing.T, w world) {
		t.Helper()
		r, err := rig.OpenOn(t.Context(), w.from(1), rig.NewClock(), w.bus, nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		e := &ended{t: t, Rig: r}
		e.populate()
		var messages []message.Message
		for n := range 20 {
			messages = append(messages, e.publish(n))
		}
		e.drain()
		before := e.statuses(messages)
		e.requireClean(messages)
		_, err = r.Edges.Follow(t.Context(), []follow.Pair{{Follower: "late", Followee: "author"}}, r.Clock.Now())
		require.NoError(t, err)
		for _, m := range messages {
			require.NoError(t, r.Bus.EmitPublished(t.Context(), []event.Published{event.NewPublished(m.Ref())}, true))
			task := event.Task{Version: event.Version, ID: m.ID, From: m.From, Lane: event.Medium, Partition: m.ID.Time().Second() % rig.Partitions}
			require.NoError(t, r.Bus.EmitTasks(t.Context(), []event.Task{task}))
		}
		e.drain()
		require.Equal(t, before, e.statuses(messages))
		e.requireClean(messages)
		for _, m := range messages {
			_, err := r.Progress.Get(t.Context(), m.ID)
			require.ErrorIs(t, err, progress.ErrNotFound)
		}
	})
}

// ended is a rig with active and dormant followers of an author.
type ended struct {
	t *testing.T
	*rig.Rig
	users []message.UserID
}

func (e *ended) populate() {
	t := e.t
	t.Helper()
	var pairs []follow.Pair
	for n := range 12 {
		user := message.UserID(fmt.Sprintf("user-%02d", n))
		e.users = append(e.users, user)
		pairs = append(pairs, follow.Pair{Follower: user, Followee: "author"})
	}
	_, err := e.Edges.Follow(t.Context(), pairs, e.Clock.Now().Add(-time.Minute))
	require.NoError(t, err)
	require.NoError(t, storetest.See(t.Context(), e.Users, e.Clock.Now(), rig.DormantAfter, e.users[:9]...)) // the others were never seen
}

func (e *ended) publish(n int) message.Message {
	t := e.t
	t.Helper()
	draft := message.Draft{From: "author", Audience: message.AudienceFollowers, Body: "body"}
	if n%3 == 0 {
		draft = message.Draft{From: "author", To: e.users[:1+n%7], Body: "body"}
	}
	results := e.Publisher(0).Publish(t.Context(), []publish.Request{{Draft: draft}})
	require.NoError(t, results[0].Err)
	e.Clock.Advance(time.Second)
	return results[0].Message
}

// drain routes and delivers until nothing is queued.
func (e *ended) drain() {
	t := e.t
	t.Helper()
	router := fanout.NewRouter(e.Stores(), e.Bus, e.FanoutOptions(0))
	deliverer := fanout.NewDeliverer(e.Stores(), e.Bus, e.FanoutOptions(0))
	for worked, rounds := true, 0; worked; rounds++ {
		require.Less(t, rounds, maxRounds, "the queues do not run empty")
		worked = false
		received, err := e.Bus.TryFetch(t.Context(), 7)
		require.NoError(t, err)
		if len(received) > 0 {
			worked = true
			require.NoError(t, router.Route(t.Context(), received))
		}
		for _, lane := range event.Lanes() {
			for p := range rig.Partitions {
				held, err := e.Bus.TryTake(t.Context(), lane, p)
				require.NoError(t, err)
				if held != nil {
					worked = true
					require.NoError(t, deliverer.Deliver(t.Context(), held))
				}
			}
		}
	}
}

func (e *ended) statuses(messages []message.Message) (all []publish.Status) {
	t := e.t
	t.Helper()
	reporter := publish.NewReporter(e.Messages, e.Progress, e.Edges, e.Users, publish.ReporterOptions{Partitions: rig.Partitions, Waits: progress.Waits{ResumeAfter: rig.ResumeAfter}, Now: e.Clock.Now})
	for _, m := range messages {
		status, err := reporter.Status(t.Context(), m.ID)
		require.NoError(t, err)
		require.Equal(t, message.StateDone, status.State)
		all = append(all, status)
	}
	return all
}

// requireClean demands that the audit finds nothing, and knows of each message that it is delivered or left to a rehydration.
func (e *ended) requireClean(messages []message.Message) {
	t := e.t
	t.Helper()
	service := newAuditor(e.Rig)
	summary, err := service.Audit(t.Context(), audit.Request{}, func(audit.Event) error { return nil })
	require.NoError(t, err)
	require.Empty(t, summary.Found)
	require.Zero(t, summary.InFlight)
	require.Positive(t, summary.Expected)
	for _, user := range e.users {
		explained, err := service.Explain(t.Context(), user, messages[1].ID)
		require.NoError(t, err)
		require.Contains(t, []verdict.Verdict{verdict.Delivered, verdict.Dormant}, explained.Verdict, explained.Sentence)
	}
}
