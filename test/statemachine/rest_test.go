package statemachine_test

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// maxRounds bounds the rounds in which everything comes to rest: no scan takes so many.
const maxRounds = 60

// rest lets all actors finish, drains the queues, sweeps until every message has been sent, and checks the result.
func (m *machine) rest(t *rapid.T) {
	m.finish(t)
	m.agrees(t)
	for _, user := range m.model.users {
		m.checkInbox(t, user)
		m.readAll(t, user, 0, 50, true)
	}
	m.checkProgress(t)
	m.checkKeys(t)
	letters, err := m.rig.Bus.DeadLetters(t.Context(), 0, 1)
	require.NoError(t, err)
	require.Empty(t, letters)
}

// finish lets all actors finish, drains the queues, and sweeps until every message has been sent.
func (m *machine) finish(t *rapid.T) {
	for len(m.stalled) > 0 {
		m.stalled[0].actor.Resume(rig.None, 0)
		m.settle(t)
	}
	for sweeps := 0; ; sweeps++ {
		m.drain(t)
		unfinished, err := m.rig.Messages.Unfinished(t.Context(), message.ID{}, message.MaxID, 1000)
		require.NoError(t, err)
		if len(unfinished) == 0 {
			m.redriven(t)
			break
		}
		require.Less(t, sweeps, 3, "messages remain unfinished: %v", unfinished)
		m.clock.Advance(rig.ResumeAfter + rig.ClockTolerance)
		_, err = m.workers[0].resumer.Resume(t.Context())
		require.NoError(t, err)
	}
}

// drain routes and delivers until nothing is queued.
func (m *machine) drain(t *rapid.T) {
	for range maxRounds {
		if !m.round(t, false) {
			return
		}
	}
	require.FailNow(t, "the queues do not run empty")
}

// round routes every published message and works on a batch of every queue that no actor holds. It reports whether any
// queue held a task. While something is away, events may fail, and come again.
func (m *machine) round(t *rapid.T, away bool) (worked bool) {
	for {
		received, err := m.rig.Bus.TryFetch(t.Context(), 100)
		require.NoError(t, err)
		if len(received) == 0 {
			break
		}
		worked = true
		if err = m.workers[0].router.Route(t.Context(), received); away && err != nil {
			require.ErrorIs(t, err, rig.ErrInjected)
			require.NoError(t, m.rig.Bus.Expire(received))
			break
		}
		require.NoError(t, err)
	}
	for _, q := range m.queues(t) {
		worked = true
		held, err := m.rig.Bus.TryTake(t.Context(), q.Lane, q.Partition)
		require.NoError(t, err)
		if held != nil {
			require.NoError(t, m.workers[0].deliverer.Deliver(t.Context(), held))
		}
	}
	return worked
}

// overtake works for some rounds on the queues that no actor holds, and passes stalled actors.
func (m *machine) overtake(t *rapid.T) {
	for range rapid.IntRange(1, 6).Draw(t, "rounds") {
		m.round(t, false)
	}
}

// away works for some rounds while a shard is away: a user, what they have sent, and who follows them.
func (m *machine) away(t *rapid.T) {
	user := m.user(t, "away")
	m.rig.Shards.Away(func(key string) bool { return key == string(user) || key == string(user.Source()) })
	for range rapid.IntRange(1, 6).Draw(t, "rounds") {
		m.round(t, true)
	}
	m.rig.Shards.Away(nil)
	m.clock.Advance(time.Minute) // so that nobody is passed over any more
}

// checkProgress demands that every message is done, and that each of its recipients was counted once.
func (m *machine) checkProgress(t *rapid.T) {
	for _, s := range m.model.messages {
		if s.Void {
			continue
		}
		var recipients, candidates, warm, late int64
		for _, user := range m.model.users {
			v := m.model.judge(s, user)
			recipients += count(v.recipient)
			candidates += count(v.candidate)
			warm += count(v.recipient && v.warm && !m.damaged[user])
			late += count(v.candidate && v.late)
		}
		counts := m.outcome(t, s.Ref())
		require.LessOrEqual(t, recipients, counts.Delivered+counts.Skipped, "recipients of %s who were not counted", s.ID)
		require.GreaterOrEqual(t, candidates, counts.Delivered+counts.Skipped, "recipients of %s who were counted in vain", s.ID)
		require.LessOrEqual(t, warm, counts.Delivered, "delivered of %s", s.ID)
		require.GreaterOrEqual(t, late, counts.Delivered, "delivered of %s", s.ID)
	}
}

func count(holds bool) int64 {
	if holds {
		return 1
	}
	return 0
}

// checkKeys demands that of the messages with one idempotency key all but one are void.
func (m *machine) checkKeys(t *rapid.T) {
	times := make(map[string]int)
	for _, s := range m.model.messages {
		if strings.HasPrefix(s.Body, "key") && !s.Void {
			times[s.Body]++
		}
	}
	for key, n := range times {
		require.Equal(t, 1, n, "messages with idempotency %s", key)
	}
}
