package live_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/live"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/internal/wake"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// A stream finds what no wake-up told of, a slow one in one look, and gives back the memory of each.
func TestStreamWithoutWakeUps(t *testing.T) {
	t.Parallel()
	r, err := rig.OpenSized(t.Context(), rig.Embedded{}, 50, rig.NewClock(), nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	require.NoError(t, storetest.See(t.Context(), r.DB.Users, r.Clock.Now(), rig.DormantAfter, "ann", "ben"))
	reserved := int64(0)
	s := live.New(r.Inboxes(0), wake.New(wake.Options{}), live.Options{
		Max: 3, PerUser: 2, LookEvery: time.Millisecond, Logger: zerolog.Nop(),
		Reserve: func(_ context.Context, bytes int64) (func(int64), error) {
			reserved = bytes
			return func(kept int64) { reserved = kept }, nil
		},
	})
	st, err := s.Open("ann", "", true)
	require.NoError(t, err)
	defer st.Close()
	frame, news, keep, err := st.Look(t.Context())
	require.NoError(t, err)
	require.True(t, news)
	require.NotEmpty(t, frame.Reset)
	require.Equal(t, int64(live.LookMemory), reserved)
	keep(0)
	frame, news, keep, err = st.Look(t.Context())
	require.NoError(t, err)
	require.False(t, news, "%v", frame)
	keep(0)
	require.Zero(t, reserved)

	running, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(running, running)
	}()
	for n := range 2 {
		_, err = r.Appender.Append(t.Context(), []bucket.Append{{Owner: "ann", Entries: []bucket.Entry{bucket.EntryOf(messagetest.Message(n, "ben"))}}})
		require.NoError(t, err)
	}
	<-st.Due()
	frame, news, keep, err = st.Look(t.Context())
	require.NoError(t, err)
	require.True(t, news)
	require.Len(t, frame.Entries, 2)
	keep(0)
	stop()
	<-ended
}

func TestStreamsAreLimited(t *testing.T) {
	t.Parallel()
	s := live.New(nil, wake.New(wake.Options{}), live.Options{Max: 3, PerUser: 2})
	first, err := s.Open("ann", "", true)
	require.NoError(t, err)
	_, err = s.Open("ann", "", true)
	require.NoError(t, err)
	_, err = s.Open("ann", "", true)
	require.ErrorIs(t, err, live.ErrUserFull)
	_, err = s.Open("ben", "", true)
	require.NoError(t, err)
	_, err = s.Open("cy", "", true)
	require.ErrorIs(t, err, live.ErrFull)
	first.Close()
	_, err = s.Open("ann", "", true)
	require.NoError(t, err)
}
