package mongostore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/partition"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/pkg/userstate/userstatetest"
)

func lookup(t *testing.T, users *mongostore.Users, user message.UserID) userstate.State {
	t.Helper()
	states, err := users.Lookup(t.Context(), partition.Of(user, partitions), []message.UserID{user})
	require.NoError(t, err)
	return states[0]
}

// both returns the states of a user and of the one who is new.
func both(t *testing.T, users *mongostore.Users, user message.UserID) []userstate.State {
	t.Helper()
	return []userstate.State{lookup(t, users, user), lookup(t, users, "new "+user)}
}

// TestWhatComesLateIsNotCarriedOut holds up the command of a view or a step until its caller has given up, and lets it go then: the
// server gets it, and does not do it.
func TestWhatComesLateIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	first := time.UnixMilli(1_700_000_000_000).UTC()
	then := first.Add(time.Hour)
	state := func(user message.UserID, at time.Time) userstate.State {
		return userstate.State{User: user, LastViewed: at}
	}
	for name, call := range map[string]func(context.Context, *mongostore.Users, message.UserID) error{
		"View": func(ctx context.Context, users *mongostore.Users, user message.UserID) error {
			_, err := users.View(ctx, []userstate.View{{User: user, At: then}})
			return err
		},
		"Step": func(ctx context.Context, users *mongostore.Users, user message.UserID) error {
			_, err := users.Step(ctx, []userstate.Step{{From: state(user, first), To: state(user, then)}})
			return err
		},
		"Step of somebody new": func(ctx context.Context, users *mongostore.Users, user message.UserID) error {
			_, err := users.Step(ctx, []userstate.Step{{From: state("new "+user, time.Time{}), To: state("new "+user, then)}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct, opts := create(t)
			require.NoError(t, userstatetest.See(t.Context(), direct.Users(), first, "early", "late"))
			network := newBadNetwork(t, opts.URI, 0)
			opts.URI = network.uri
			users := open(t, opts).Users()

			was := both(t, direct.Users(), "early")
			require.NoError(t, call(t.Context(), users, "early"))
			is := both(t, direct.Users(), "early")
			require.NotEqual(t, was, is, "what comes in time is carried out")

			letGo := network.hold()
			was = both(t, direct.Users(), "late")
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, call(ctx, users, "late"), context.DeadlineExceeded)
			letGo()
			<-network.answered
			is = both(t, direct.Users(), "late")
			require.Equal(t, was, is)
		})
	}
}
