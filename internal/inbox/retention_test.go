package inbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
	"github.com/fanmail/fanmail/test/testenv"
)

// onEachStore runs a test in a world on the embedded store, and in one on MongoDB. Buckets have 7 slots. Rehydrations are carried out there.
func onEachStore(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	stores := map[string]func(t *testing.T) rig.Backend{"embedded": func(*testing.T) rig.Backend { return rig.Embedded{} }}
	if testenv.OnMongoDB {
		stores["mongodb"] = func(t *testing.T) rig.Backend { t.Helper(); return rig.NewMongoDB(t) }
	}
	for name, backend := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOn(t, backend(t), 7, func(opts *rehydrate.Options) { opts.Patience = patience })
			w.run(t)
			test(t, w)
		})
	}
}

// What a user's own retention does not keep has expired before SetRetention returns. What has expired stays expired.
func TestSetRetention(t *testing.T) {
	t.Parallel()
	onEachStore(t, setRetention)
}

func setRetention(t *testing.T, w *world) {
	t.Helper()
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	w.fill(t, "ann", 0, 120)
	w.Clock.Advance(time.Hour)
	w.BeginRound(t.Context(), t)
	day := userstate.Retention{MaxAge: 24 * time.Hour}
	for range 2 {
		require.NoError(t, w.SetRetention(t.Context(), "ann", day))
		w.requireShown(t, 120, ids(0, 120))
	}
	require.Zero(t, w.State(t.Context(), t, "ann").Purged.Time().Sub(rig.Epoch.Add(-23*time.Hour)).Truncate(time.Second))

	require.NoError(t, w.SetRetention(t.Context(), "ann", userstate.Retention{Newest: 80}))
	w.requireShown(t, 80, ids(40, 120))

	hour := userstate.Retention{MaxAge: time.Hour - 100*time.Millisecond}
	require.NoError(t, w.SetRetention(t.Context(), "ann", hour))
	w.requireShown(t, 20, ids(100, 120))
	got, err := w.Service.Retention(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, hour, got)

	for range 2 {
		require.NoError(t, w.DeleteRetention(t.Context(), "ann"))
		w.requireShown(t, 20, ids(100, 120))
		got, err = w.Service.Retention(t.Context(), "ann")
		require.NoError(t, err)
		require.Zero(t, got)
	}
}

// The shorter age holds, be it that of the deployment or of the user.
func TestSetRetentionWithinTheDeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	w.fill(t, "ann", 0, 120)
	w.Clock.Advance(time.Hour)
	w.BeginRound(t.Context(), t)
	w.Rig.Retention.Store(&userstate.Retention{MaxAge: time.Hour - 50*time.Millisecond, Newest: 1000})
	require.NoError(t, w.SetRetention(t.Context(), "ann", userstate.Retention{Newest: 5000}))
	w.requireShown(t, 70, ids(50, 120))
	for name, refused := range map[string]userstate.Retention{
		"as long":                 {MaxAge: time.Hour - 50*time.Millisecond},
		"longer":                  {MaxAge: time.Hour},
		"parts of a millisecond":  {MaxAge: time.Hour/2 + time.Microsecond},
		"below the settled times": {MaxAge: rig.Rules().PublishSlack + rig.Rules().ClockTolerance - time.Millisecond},
		"negative":                {MaxAge: -time.Hour},
		"nothing":                 {},
		"less than nothing":       {Newest: -1},
		"too many":                {Newest: userstate.MaxNewest + 1},
	} {
		invalid := new(message.InvalidError)
		require.ErrorAs(t, w.SetRetention(t.Context(), "ann", refused), &invalid, name)
		require.Contains(t, []string{"max_age", "newest"}, invalid.Field)
	}
	require.NoError(t, w.SetRetention(t.Context(), "ann", userstate.Retention{Newest: userstate.MaxNewest}))
	require.NoError(t, w.SetRetention(t.Context(), "ann", userstate.Retention{MaxAge: time.Hour - 51*time.Millisecond}))
	w.requireShown(t, 69, ids(51, 120))
	require.NoError(t, w.SetRetention(t.Context(), "ann", userstate.Retention{MaxAge: rig.Rules().PublishSlack + rig.Rules().ClockTolerance}))
	w.requireShown(t, 0, []message.ID{})
}

// The setting of a user who was never seen does not make the user one who was.
func TestSetRetentionOfAUserNeverSeen(t *testing.T) {
	t.Parallel()
	onEachStore(t, setRetentionOfAUserNeverSeen)
}

func setRetentionOfAUserNeverSeen(t *testing.T, w *world) {
	t.Helper()
	keep := userstate.Retention{MaxAge: 24 * time.Hour, Newest: 10}
	require.NoError(t, w.SetRetention(t.Context(), "ann", keep))
	require.Equal(t, userstate.State{User: "ann", Keep: keep}, w.State(t.Context(), t, "ann"))
	_, err := w.User(t.Context(), "ann")
	require.ErrorIs(t, err, userstate.ErrNotFound)
	w.send(t, "ann", 0, 3)
	require.NoError(t, w.seen(t, "ann", w.Clock.Now()))
	require.Equal(t, keep, w.State(t.Context(), t, "ann").Keep)

	require.NoError(t, w.SetRetention(t.Context(), "ben", keep))
	require.NoError(t, w.DeleteRetention(t.Context(), "ben"))
	require.True(t, w.State(t.Context(), t, "ben").Empty())
}

// A retention by number is carried out by Trim before the answer, when it is recorded.
func TestSetRetentionTrims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	full := errors.New("full")
	var trimmed []userstate.Retention
	service := inbox.New(inbox.Stores{Buckets: w.Inbox, Users: w.Users, Appender: w.Appender, Flags: w.Flags}, w.rehydrator, inbox.Options{
		Rules: rig.Rules, Now: w.Clock.Now,
		Trim: func(ctx context.Context, user message.UserID) error {
			trimmed = append(trimmed, w.State(ctx, t, user).Keep)
			return full
		},
	})
	require.NoError(t, service.SetRetention(t.Context(), "ann", userstate.Retention{MaxAge: time.Hour}))
	require.NoError(t, service.SetRetention(t.Context(), "ben", userstate.Retention{Newest: 1}), "ben was never seen")
	require.Empty(t, trimmed)
	require.ErrorIs(t, service.SetRetention(t.Context(), "ann", userstate.Retention{Newest: 1}), full)
	require.Equal(t, []userstate.Retention{{Newest: 1}}, trimmed)
}

// What SetRetention has let expire stays expired after a crash of the process that loses all writes that were not synced. A worker may have
// raised the purge point before, lazily.
func TestSetRetentionSurvivesACrash(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]bool{"it raises": false, "a worker raises": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
			w.fill(t, "ann", 0, 120)
			w.Clock.Advance(time.Hour)
			trim := w.Walker(0).TrimUser
			service := inbox.New(inbox.Stores{Buckets: w.Inbox, Users: w.Users, Appender: w.Appender, Flags: w.Flags}, w.rehydrator, inbox.Options{
				Rules: rig.Rules, Now: w.Clock.Now,
				Trim: func(ctx context.Context, user message.UserID) error {
					if ahead {
						require.NoError(t, trim(ctx, user))
					}
					return trim(ctx, user)
				},
			})
			keep := userstate.Retention{Newest: 80}
			require.NoError(t, service.SetRetention(t.Context(), "ann", keep))
			before := w.State(t.Context(), t, "ann")
			require.False(t, before.Purged.IsZero())
			after, err := w.Crash(t.Context(), 0, 1)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, after.Close()) })
			require.Equal(t, before, after.State(t.Context(), t, "ann"))
		})
	}
}
