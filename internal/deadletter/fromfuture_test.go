package deadletter_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/deadletter"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// fileFromFuture stores a message from the future, and files the only dead letter for it.
func (w *world) fileFromFuture() message.Message {
	w.t.Helper()
	w.broken = false
	require.NoError(w.t, w.service.Drop(w.t.Context(), w.letters()[0].ID))
	future := message.Message{
		ID: message.MinID(w.Clock.Now().Add(time.Hour)), From: "author", Audience: message.AudienceFollowers,
		To: []message.UserID{"fan"}, Body: "hello", ContentType: "text/plain", Attrs: []byte(`{"a":1}`),
	}
	future.ID[6], future.ID[8] = 0x70, 0x80
	_, err := w.Messages.Insert(w.t.Context(), []message.Message{future}, w.timing())
	require.NoError(w.t, err)
	require.NoError(w.t, w.Bus.FileFromFuture(w.t.Context(), future.Ref(), "an hour ahead"))
	return future
}

// TestRedriveFromFuture redrives a message from the future. The first attempt dies before the letter is removed.
func TestRedriveFromFuture(t *testing.T) {
	t.Parallel()
	var failed *failing
	w := newWorld(t, func(inner bus.DeadLetterQueue) bus.DeadLetterQueue {
		failed = &failing{DeadLetterQueue: inner}
		return failed
	})
	future := w.fileFromFuture()
	letter := w.letters()[0]
	require.Equal(t, event.ReasonFromFuture, letter.Reason)

	failed.drop = errors.New("no answer")
	for range 2 {
		require.ErrorIs(t, w.service.Redrive(t.Context(), letter.ID), deadletter.ErrBus)
	}
	failed.drop = nil
	require.NoError(t, w.service.Redrive(t.Context(), letter.ID))
	require.Empty(t, w.letters())
	w.deliver()
	shown, _ := w.ReadInbox(t.Context(), t, w.fan, 50)
	require.Len(t, shown, 1, "it is published once")
	again, err := w.Messages.Get(t.Context(), message.Ref{ID: shown[0]})
	require.NoError(t, err)
	require.NotEqual(t, future.ID, again.ID)
	require.Equal(t, future.Digest(), again.Digest())
}

// TestRedriveFromFutureIsRefused redrives a message that is larger than the limits of today. The
// letter stays.
func TestRedriveFromFutureIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, same)
	w.fileFromFuture()
	filed := w.letters()
	limits := message.DefaultLimits()
	limits.BodyBytes = len("hello") - 1
	service := deadletter.New(deadletter.Parts{
		Bus: w.Bus, Progress: w.Progress, Messages: w.Messages,
		Publisher: publish.New(w.Messages, w.Keys, w.Bus, publish.Options{
			Limits: limits, Rules: rig.Rules, KeyTTL: func() time.Duration { return rig.KeyTTL },
			Now: w.Clock.Now, Random: rig.UniqueBytes{}, Logger: zerolog.Nop(),
		}),
	}, deadletter.Options{Logger: zerolog.Nop(), Now: w.Clock.Now})

	invalid, ok := errors.AsType[*message.InvalidError](service.Redrive(t.Context(), filed[0].ID))
	require.True(t, ok)
	require.Equal(t, "body", invalid.Field)
	require.Equal(t, filed, w.letters())
	require.NoError(t, w.service.Redrive(t.Context(), filed[0].ID), "with the limits of before")
	require.Empty(t, w.letters())
}
