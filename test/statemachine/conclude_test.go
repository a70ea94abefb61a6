package statemachine_test

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/message"
)

// soon is a clock by which a plan ends as soon as it is over.
const soon = retention.PlanStays + 10*time.Second

// conclude ends the plans that are over.
func (m *machine) conclude(t *rapid.T) {
	found, err := m.rig.Progress.List(t.Context(), message.ID{}, message.MaxID, 1)
	require.NoError(t, err)
	if len(found) == 0 {
		t.Skip("there is no plan")
	}
	concluder := m.rig.Walker(m.worker(t).skew + soon)
	m.call(t, 6, nil, func(ctx context.Context) error {
		_, err := concluder.Conclude(ctx)
		return err
	}, func(*rapid.T, error) {})
}

// outcome demands that a message is done, and returns its counts. They never change.
func (m *machine) outcome(t *rapid.T, ref message.Ref) message.Ending {
	endings, err := m.rig.Messages.Endings(t.Context(), []message.Ref{ref})
	require.NoError(t, err)
	require.True(t, endings[0].Concluded, "%s", ref.ID)
	if before, known := m.endings[ref.ID]; known {
		require.Equal(t, before, endings[0], "the counts of %s have changed", ref.ID)
	}
	m.endings[ref.ID] = endings[0]
	return endings[0]
}

// checkEnd ends all plans, and demands that none is left and the counts stay.
func (m *machine) checkEnd(t *rapid.T) {
	before := make(map[message.ID]message.Ending)
	for _, s := range m.model.messages {
		if !s.Void {
			before[s.ID] = m.outcome(t, s.Ref())
		}
	}
	_, err := m.rig.Walker(soon).Conclude(t.Context())
	require.NoError(t, err)
	for _, s := range m.model.messages {
		if _, err := m.rig.Progress.Get(t.Context(), s.ID); !errors.Is(err, progress.ErrNotFound) {
			require.NoError(t, err)
			require.Fail(t, "a plan is left", s.ID)
		}
		if !s.Void {
			require.Equal(t, before[s.ID], m.outcome(t, s.Ref()))
		}
	}
}
