package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

// earlier stores a message as a release without verdicts did, so long before the time in its id.
func (h messageStore) earlier(t *testing.T, m message.Message, ahead time.Duration) {
	t.Helper()
	_, err := h.Messages.Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
	require.NoError(t, err)
	h.Unjudge(t, m, m.Sent().Add(-ahead))
	stored, err := h.Messages.Get(t.Context(), m.Ref())
	require.NoError(t, err)
	require.Equal(t, message.Stored{Message: m, Stamp: message.Stamp{StoredAt: m.Sent().Add(-ahead)}}, stored)
	require.True(t, stored.Condemnable())
}

// requireCondemned demands that all reads of a message call it void, under every slack, and that it is finished.
func (h messageStore) requireCondemned(t *testing.T, m message.Message, ahead time.Duration) {
	t.Helper()
	h.requireVerdict(t, true, m.Sent().Add(-ahead), m)
	unfinished, err := h.Messages.Unfinished(t.Context(), message.ID{}, 100)
	require.NoError(t, err)
	require.NotContains(t, unfinished, m.Ref())
}

func (s messageSuite) condemn(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	for n, ahead := range []time.Duration{time.Millisecond, time.Hour, 200 * 365 * 24 * time.Hour} {
		m := fullMessage(n, message.UserID(rune('a'+n)))
		h.earlier(t, m, ahead)
		for range 2 {
			condemned, err := h.Messages.Condemn(t.Context(), m.Ref())
			require.NoError(t, err)
			require.Equal(t, message.Stored{Message: m, Stamp: message.Stamp{StoredAt: m.Sent().Add(-ahead), Verdict: message.Void}}, condemned)
			require.True(t, condemned.FromFuture())
			h.requireCondemned(t, m, ahead)
		}
		naming, err := h.Messages.Naming(t.Context(), "zoë", message.ID{}, message.MaxID, message.OldestFirst, 10)
		require.NoError(t, err)
		require.Len(t, naming, n+1, "readers find it, and see that it is void")
		require.Equal(t, message.Void, naming[n].Verdict)
		stamps, err := h.Messages.Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
		require.NoError(t, err)
		require.Equal(t, message.Void, stamps[0].Verdict, "a repeated insert does not judge it")
	}
}

func (s messageSuite) condemnJudged(t *testing.T) {
	t.Parallel()
	h, after := s.openAt(t)
	for n, at := range []time.Duration{0, time.Hour, -time.Hour} { // valid, late, from the future
		m := messagetest.Message(0, message.UserID(rune('a'+n)))
		m.ID[15] = byte(n)
		after.Store(int64(at))
		_, err := h.Messages.Insert(t.Context(), []message.Message{m}, rules(2*time.Minute).Timing())
		require.NoError(t, err)
		before, err := h.Messages.Get(t.Context(), m.Ref())
		require.NoError(t, err)
		unfinished, err := h.Messages.Unfinished(t.Context(), message.ID{}, 100)
		require.NoError(t, err)
		got, err := h.Messages.Condemn(t.Context(), m.Ref())
		require.NoError(t, err)
		require.Equal(t, before, got)
		h.requireVerdict(t, n > 0, epoch.Add(at), m)
		still, err := h.Messages.Unfinished(t.Context(), message.ID{}, 100)
		require.NoError(t, err)
		require.Equal(t, unfinished, still)
	}
}

func (s messageSuite) condemnUnknown(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	m := messagetest.Message(0, "ann")
	_, err := h.Messages.Condemn(t.Context(), m.Ref())
	require.ErrorIs(t, err, message.ErrNotFound)
	h.earlier(t, m, time.Hour)
	_, err = h.Messages.Condemn(t.Context(), message.Ref{From: "bob", ID: m.ID})
	require.ErrorIs(t, err, message.ErrNotFound)
	stored, err := h.Messages.Get(t.Context(), m.Ref())
	require.NoError(t, err)
	require.Equal(t, message.Undecided, stored.Verdict)
}

func (s messageSuite) condemnSurvives(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	m := fullMessage(0, "ann")
	h.earlier(t, m, time.Hour)
	_, err := h.Messages.Condemn(t.Context(), m.Ref())
	require.NoError(t, err)
	h = h.Reopen(t)
	h.requireCondemned(t, m, time.Hour)
}
