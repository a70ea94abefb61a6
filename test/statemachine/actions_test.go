package statemachine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// publish publishes one or two messages.
func (m *machine) publish(t *rapid.T) {
	requests := make([]publish.Request, rapid.IntRange(1, 2).Draw(t, "messages"))
	for i := range requests {
		requests[i] = m.request(t)
	}
	w := m.worker(t)
	var results []publish.Result
	m.call(t, 4, nil, func(ctx context.Context) error {
		results = w.publisher.Publish(ctx, requests)
		return nil
	}, func(t *rapid.T, err error) {
		if err == nil {
			m.published(t, results)
		}
	})
}

func (m *machine) request(t *rapid.T) publish.Request {
	r := publish.Request{Draft: message.Draft{From: rapid.SampledFrom(m.model.users[:authorCount]).Draw(t, "author"), Body: "body"}}
	if rapid.IntRange(0, 4).Draw(t, "with key") == 0 {
		// The same key goes with the same message.
		r.Key = fmt.Sprintf("key %d %s", m.keys, r.Draft.From)
		r.Draft.Body, r.Draft.Audience = r.Key, message.AudienceFollowers
		return r
	}
	r.Draft.Topics = drawTopics(t)
	named := []int{0, 0, 1, 2, 4, 8}
	if rapid.IntRange(0, 3).Draw(t, "to followers") > 0 {
		r.Draft.Audience = message.AudienceFollowers
	} else if len(r.Draft.Topics) == 0 {
		named = named[2:]
	}
	for range rapid.SampledFrom(named).Draw(t, "named") {
		user := m.user(t, "to")
		r.Draft.To = append(r.Draft.To, user)
		if mate, ok := m.mates[user]; ok {
			r.Draft.To = append(r.Draft.To, mate)
		}
	}
	return r
}

// published requires that every accepted message is stored.
func (m *machine) published(t *rapid.T, results []publish.Result) {
	for _, r := range results {
		if r.Err != nil {
			known := errors.Is(r.Err, rig.ErrInjected) || errors.Is(r.Err, publish.ErrBusy) || errors.Is(r.Err, publish.ErrLate)
			require.True(t, known, "%v", r.Err)
			continue
		}
		i := slices.IndexFunc(m.model.messages, func(s stored) bool { return s.ID == r.Message.ID })
		require.GreaterOrEqual(t, i, 0, "message %s was accepted and not stored", r.Message.ID)
		require.False(t, m.model.messages[i].Void, "message %s was accepted and is void", r.Message.ID)
	}
}

// route routes what one fetch returns.
func (m *machine) route(t *rapid.T) {
	unclaimed, err := m.rig.Bus.Unclaimed(t.Context())
	require.NoError(t, err)
	limit := rapid.IntRange(1, 4).Draw(t, "events")
	if unclaimed <= 0 {
		t.Skip("nothing is published")
	}
	w := m.worker(t)
	var received []bus.Received
	m.call(t, 8, nil, func(ctx context.Context) (err error) {
		if received, err = m.rig.Bus.TryFetch(ctx, limit); err != nil {
			return err
		}
		return w.router.Route(ctx, received)
	}, func(t *rapid.T, _ error) {
		require.NoError(t, m.rig.Bus.Expire(received))
	})
}

// first delivers the head starts of a router, which may be late.
func (m *machine) first(t *rapid.T) {
	w := m.worker(t)
	started := 0
	m.call(t, 5, nil, func(ctx context.Context) error {
		started = w.router.DeliverHeadStarts(ctx)
		return nil
	}, func(t *rapid.T, err error) {
		if err == nil && started == 0 {
			t.Skip("there are no head starts")
		}
	})
}

// deliver works on one batch.
func (m *machine) deliver(t *rapid.T) {
	queues := m.queues(t)
	if len(queues) == 0 {
		t.Skip("there are no tasks")
	}
	at := rapid.SampledFrom(queues).Draw(t, "queue")
	held, err := m.rig.Bus.TryTake(t.Context(), at.Lane, at.Partition)
	require.NoError(t, err)
	if held == nil {
		t.Skip("somebody holds it")
	}
	w := m.worker(t)
	m.call(t, 18, held, func(ctx context.Context) error { return w.deliverer.Deliver(ctx, held) }, func(*rapid.T, error) {})
}

// queue is a lane's partition.
type queue struct {
	Lane      event.Lane
	Partition int
}

// queues returns those in which there are tasks.
func (m *machine) queues(t *rapid.T) []queue {
	_, tasks, err := m.rig.Bus.Queued(t.Context())
	require.NoError(t, err)
	var queues []queue
	for _, lane := range event.Lanes() {
		for p := range rig.Partitions {
			if tasks[fmt.Sprintf("fanmail.v1.fanout.%s.%d", lane, p)] > 0 {
				queues = append(queues, queue{lane, p})
			}
		}
	}
	return queues
}

// crash ends the process in the midst of whatever is stalled, and starts another on what is left on disk.
func (m *machine) crash(t *rapid.T) {
	for _, c := range m.stalled {
		c.actor.Kill()
	}
	m.settle(t)
	var err error
	m.rig, err = m.rig.Crash(t.Context(), rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "unsynced"), rapid.Uint64().Draw(t, "seed"))
	require.NoError(t, err)
	m.hire()
	for _, s := range m.model.messages {
		got, err := m.rig.Messages.Get(t.Context(), s.Ref())
		require.NoError(t, err)
		require.Equal(t, s.Stored, got, "a stored message after a crash")
	}
	for _, user := range m.model.users {
		require.NoError(t, m.model.crashed(m.rig.State(t.Context(), t, user)))
	}
	m.payDebts(t)
	m.rereadEdges(t)
}

// payDebts ends the sweeps of raises whose end a crash has undone. It leaves users alone of whom the model knows no view.
func (m *machine) payDebts(t *rapid.T) {
	by := m.workers[0].rehydrator
	for _, user := range m.model.users {
		if !m.model.known(user) || !m.rig.State(t.Context(), t, user).Rehydrating() {
			continue
		}
		delete(m.earlier, user) // the end of a sweep is lost together with what it appended, and the next sweep may open other buckets
		m.clock.Advance(rig.Lease + rig.ClockTolerance)
		require.NoError(t, by.Reap(t.Context(), m.clock.Now()))
		for by.Work(t.Context()) {
		}
	}
}

// dormantAfter changes after what time users become dormant. It affects later views only.
func (m *machine) dormantAfter(t *rapid.T) {
	m.rig.Rules.DormantAfter = rapid.SampledFrom([]time.Duration{rig.DormantAfter / 2, rig.DormantAfter, 2 * rig.DormantAfter}).Draw(t, "dormant_after")
	m.hire()
}

// drawBucketSize draws the size of buckets. Inboxes are short here, so most sizes are small.
func drawBucketSize(t *rapid.T) int {
	return rapid.SampledFrom([]int{1, 2, 3, 5, bucket.Capacity}).Draw(t, "bucket size")
}

// rereadEdges demands that every edge is as it was left.
func (m *machine) rereadEdges(t *rapid.T) {
	for _, user := range m.model.users {
		edges, err := m.rig.Edges.Following(t.Context(), user, "", 100)
		require.NoError(t, err)
		for _, e := range edges {
			want := m.model.edge(follow.Pair{Follower: e.Follower, Followee: e.Followee})
			require.True(t, slices.EqualFunc(e.Spans, want.Spans, sameSpan), "edge %v, wanted %v", e, want)
		}
		open := 0
		for pair := range m.model.edges {
			if pair.Follower == user {
				open++
			}
		}
		require.Len(t, edges, open, "edges of %s", user)
	}
}

// sweep looks for forgotten messages, mostly when a sweep is due.
func (m *machine) sweep(t *rapid.T) {
	if rapid.Bool().Draw(t, "wait") {
		m.clock.Advance(rig.ResumeAfter + rig.ClockTolerance)
	}
	w := m.worker(t)
	m.call(t, 5, nil, func(ctx context.Context) error {
		_, err := w.resumer.Resume(ctx)
		return err
	}, func(*rapid.T, error) {})
}

// follow lets users follow authors.
func (m *machine) follow(t *rapid.T) {
	pairs := rapid.SliceOfN(rapid.Custom(m.drawPair), 1, 3).Draw(t, "pairs")
	m.begin(t, slices.DeleteFunc(pairs, func(p follow.Pair) bool { return p.Follower.Source() == p.Followee }))
}

func (m *machine) drawPair(t *rapid.T) follow.Pair {
	return follow.Pair{
		Follower: m.user(t, "follower"),
		Followee: rapid.SampledFrom(m.model.users[:authorCount]).Draw(t, "followee").Source(),
	}
}

// unfollow ends an edge.
func (m *machine) unfollow(t *rapid.T) {
	pair := m.drawPair(t)
	if pair.Follower.Source() == pair.Followee {
		t.Skip("themselves")
	}
	m.end(t, pair)
}

// age lets time go by: so little that it is not noticed, or so much that users become dormant.
func (m *machine) age(t *rapid.T) {
	ages := []time.Duration{
		time.Millisecond, 10 * time.Millisecond, time.Second, 10 * time.Second, rig.Slack + 10*time.Second, rig.DormantAfter / 3,
	}
	m.clock.Advance(rapid.SampledFrom(ages).Draw(t, "age"))
	m.keys++
}

// duplicate repeats something that was emitted before.
func (m *machine) duplicate(t *rapid.T) {
	tasks, published := m.rig.Bus.Emitted()
	if len(published) == 0 {
		t.Skip("nothing was emitted")
	}
	if len(tasks) > 0 {
		task := tasks[rapid.IntRange(0, len(tasks)-1).Draw(t, "task")]
		task.Lane = rapid.SampledFrom(event.Lanes()).Draw(t, "lane")
		require.NoError(t, m.rig.Bus.EmitTasks(t.Context(), []event.Task{task}))
	}
	if len(tasks) == 0 || rapid.Bool().Draw(t, "published too") {
		again := published[rapid.IntRange(0, len(published)-1).Draw(t, "event")]
		require.NoError(t, m.rig.Bus.EmitPublished(t.Context(), []event.Published{again}, true))
	}
}

// lose lets the bus lose something that it had confirmed.
func (m *machine) lose(t *rapid.T) {
	if len(m.stalled) > 0 {
		t.Skip("what somebody holds must not be lost, or the bus waits for them until their lease runs out")
	}
	stream := rapid.SampledFrom([]string{"FANMAIL_PUBLISHED", "FANMAIL_FANOUT"}).Draw(t, "stream")
	require.NoError(t, m.rig.Bus.Lose(t.Context(), stream, rapid.IntRange(0, 3).Draw(t, "nth")))
}
