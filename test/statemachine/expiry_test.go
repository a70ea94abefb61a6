package statemachine_test

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// jumped returns the walker of a host whose clock may have jumped, by up to 40 days. The store's clock has not.
func (m *twins) jumped(t *rapid.T) *retention.Walker {
	const far = 40 * 24 * time.Hour
	return m.rig.Walker(m.worker(t).skew + rapid.SampledFrom(append([]time.Duration{0, far, -far}, jumps...)).Draw(t, "jump of the clock"))
}

// walk lets a round begin, or continues one, in which messages expire.
func (m *twins) walk(t *rapid.T) {
	walker := m.jumped(t)
	m.call(t, 40, nil, func(ctx context.Context) error { return walker.Walk(ctx, ctx) }, func(*rapid.T, error) {})
}

// retention changes after what time messages expire, and how many an inbox keeps. What has expired stays expired.
func (m *twins) retention(t *rapid.T) {
	age := rapid.SampledFrom([]time.Duration{0, rig.DormantAfter / 4, rig.DormantAfter, 2 * rig.DormantAfter}).Draw(t, "max age")
	newest := rapid.SampledFrom([]int64{0, 1, 2, 4, 9, 60}).Draw(t, "newest")
	m.rig.Retention.Store(&userstate.Retention{MaxAge: age, Newest: newest})
}

// trim lets the oldest messages of a user or their twin expire.
func (m *twins) trim(t *rapid.T) {
	w := m.draw(t)
	user := rapid.SampledFrom([]message.UserID{w.User, w.Twin}).Draw(t, "whose")
	trimmer := m.jumped(t)
	m.call(t, 8, nil, func(ctx context.Context) error { return trimmer.TrimUser(ctx, user) }, func(*rapid.T, error) {})
}

// requireFew demands that of messages, the newest first, no more are left than an inbox keeps with slack, and those of the last one's
// millisecond. Those that may not have settled may be left, too.
func requireFew(t *rapid.T, shown []message.ID, newest int64, settled message.ID) {
	if newest == 0 {
		return
	}
	for i, id := range shown {
		if i := int64(i); i >= newest+newest/4 && !settled.Less(id) {
			require.Equal(t, shown[newest-1].Time(), id.Time(), "%d are shown, and %d are kept", len(shown), newest)
		}
	}
}

// expireAlike lets the messages of a user and their twin expire up to the same time, if a purge of one of them came to nothing or the walk came
// to one of them before the age of messages was changed.
func (m *twins) expireAlike(t *rapid.T, w *rig.Twins) {
	user, twin := m.rig.State(t.Context(), t, w.User).Purged, m.rig.State(t.Context(), t, w.Twin).Purged
	if user == twin {
		return
	}
	to := user
	if user.Less(twin) {
		to = twin
	}
	for _, user := range []message.UserID{w.User, w.Twin} {
		_, err := m.rig.Inboxes(0).Purge(t.Context(), user, to.Time(), false)
		require.NoError(t, err)
		require.Equal(t, to, m.rig.State(t.Context(), t, user).Purged)
	}
}

// finishRounds ends the round under way, and a whole one. The latter lets everything expire that is old enough.
func (m *twins) finishRounds(t *rapid.T) {
	var round retention.Round
	for number := int64(-1); number < 0 || round.Number < number+2 || !round.Ended; {
		m.clock.Advance(2 * time.Minute) // longer than a lease
		require.NoError(t, m.rig.Walker(0).Walk(t.Context(), t.Context()))
		var err error
		round, err = m.rig.DB.Walk.Load(t.Context())
		require.NoError(t, err)
		if number < 0 {
			number = round.Number
		}
	}
	keep := *m.rig.Retention.Load()
	if keep.MaxAge > 0 {
		require.Equal(t, round.Target, round.LowWater)
		require.False(t, round.LowWater.Less(message.LastBefore(round.Began.Add(-max(keep.MaxAge, rig.Slack+rig.ClockTolerance)))))
	} else {
		require.Zero(t, round.LowWater)
	}
	for _, w := range m.users {
		for _, user := range []message.UserID{w.User, w.Twin} {
			shown, _ := m.rig.ReadInbox(t.Context(), t, user, 50)
			requireFew(t, shown, keep.Newest, m.rig.Rules.Settled(m.clock.Now()))
			for _, id := range shown {
				require.True(t, round.LowWater.Less(id), "%s of %s is at or below the low-water mark %s", id, user, round.LowWater)
			}
		}
	}
}
