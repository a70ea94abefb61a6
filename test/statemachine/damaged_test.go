package statemachine_test

import (
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/deadletter"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// damage damages the record or the inbox of a user while the queues are worked on for some rounds, and mends it.
func (m *machine) damage(t *rapid.T) {
	user := rapid.SampledFrom(m.model.users).Draw(t, "user")
	if rapid.Bool().Draw(t, "inbox") {
		m.rig.Damage.Inbox(user)
	} else {
		m.rig.Damage.State(user)
	}
	m.damaged[user] = true
	m.overtake(t)
	m.rig.Damage.Mend(user)
}

// redrive redrives the dead letters of damaged users, and delivers what they have missed.
func (m *machine) redrive(t *rapid.T) {
	if m.redriven(t) == 0 {
		t.Skip("there are no dead letters")
	}
}

func (m *machine) redriven(t *rapid.T) int {
	letters, err := m.rig.Bus.DeadLetters(t.Context(), 0, 100)
	require.NoError(t, err)
	service := deadletter.New(deadletter.Parts{
		Bus: m.rig.Bus, Progress: m.rig.Progress, Messages: m.rig.Messages, Users: m.rig.Users, Buckets: m.rig.Inbox, Round: m.rig.Stores().Round,
	}, deadletter.Options{
		Rules: func() userstate.Rules { return m.rig.Rules },
		Now:   m.clock.Now, Logger: zerolog.Nop(),
	})
	for _, letter := range letters {
		require.Equal(t, event.ReasonDamaged, letter.Reason)
		require.NoError(t, service.Redrive(t.Context(), letter.ID))
	}
	m.payDebts(t)
	return len(letters)
}
