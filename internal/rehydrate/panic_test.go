package rehydrate_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// broken is a userstate.Store that panics, as long as it is broken, when it is asked for ann.
type broken struct {
	userstate.Store
	now atomic.Bool
}

func (s *broken) Lookup(ctx context.Context, users []message.UserID) ([]userstate.Looked, error) {
	if s.now.Load() && users[0] == "ann" {
		panic(rig.Panicking)
	}
	return s.Store.Lookup(ctx, users)
}

func (s *broken) Step(ctx context.Context, steps []userstate.Step) ([]userstate.Stepped, error) {
	if s.now.Load() && steps[0].From.User == "ann" {
		panic(rig.Panicking)
	}
	return s.Store.Step(ctx, steps)
}

func (w *world) brokenService(t *testing.T) (*rehydrate.Service, *broken) {
	t.Helper()
	users := &broken{Store: w.Users}
	stores := w.RehydrateStores()
	stores.Users = users
	opts := w.RehydrateOptions(0)
	opts.MaxAttempts = 3
	return rehydrate.New(stores, opts), users
}

// A rehydration that panics, and panics again when its lease is released, leaves nothing behind: the same process takes it over
// when its lease ends. Other users are rehydrated meanwhile.
func TestRehydrationThatPanics(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	s, users := w.brokenService(t)
	w.login(t, s)
	users.now.Store(true)
	require.True(t, s.Work(t.Context()))
	require.Zero(t, s.Load())
	w.store(t, w.now(), "ben")
	_, err := s.Login(t.Context(), "ben", w.now(), 0)
	require.NoError(t, err)
	w.Clock.Advance(rig.Lease + time.Minute)
	require.NoError(t, s.Reap(t.Context(), w.now())) // and leaves out ann
	for s.Work(t.Context()) {
	}
	require.Nil(t, w.State(t.Context(), t, "ben").Mark)
	require.NotNil(t, w.State(t.Context(), t, "ann").Mark)
	users.now.Store(false)
	w.rest(t, s)
	require.Zero(t, s.Load())
}

// A login event on which the code panics is handed out again, and a dead letter at the last attempt. Other events are recorded.
func TestLoginEventOnWhichTheCodePanics(t *testing.T) {
	t.Parallel()
	w := newDormantWorld(t)
	s, users := w.brokenService(t)
	users.now.Store(true)
	for attempt := 1; attempt <= 3; attempt++ {
		var letters []event.DeadLetter
		intake, stop := context.WithCancel(t.Context())
		acked := make([]int, 2)
		s.RunLogins(intake, t.Context(), logins{
			fetch: func(context.Context) ([]bus.Received, error) {
				stop()
				var events []bus.Received
				for i, payload := range []string{`{"user":"ann"}`, `{"user":"ben"}`} {
					delivery := event.Delivery{Payload: []byte(payload), Subject: "logins", Attempts: attempt, Stored: w.now()}
					events = append(events, received{delivery, &acked[i], nil})
				}
				return events, nil
			},
			deadLetter: func(_ context.Context, letter event.DeadLetter) error {
				letters = append(letters, letter)
				return nil
			},
		})
		require.Equal(t, 1, acked[1])
		require.True(t, w.State(t.Context(), t, "ben").Known())
		if attempt < 3 {
			require.Zero(t, acked[0])
			require.Empty(t, letters)
			continue
		}
		require.Equal(t, 1, acked[0])
		require.Len(t, letters, 1)
		require.Equal(t, event.ReasonPanic, letters[0].Reason)
		require.Contains(t, letters[0].Error, rig.Panicking)
	}
}
