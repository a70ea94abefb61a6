//go:build mongodb

package mongostore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/testenv"
)

func lookup(t *testing.T, users *mongostore.Users, user message.UserID) userstate.State {
	t.Helper()
	states, err := userstate.States(users.Lookup(t.Context(), []message.UserID{user}))
	require.NoError(t, err)
	return states[0]
}

// noted is what is noted of a user and of one who is new: their states, whom they follow, and a topic with the name of each.
type noted struct {
	states []userstate.State
	edges  []follow.Edge
	topics []topic.Record
}

// note returns what is noted of a user and of the one who is new.
func note(t *testing.T, db *mongostore.DB, user message.UserID) (n noted) {
	t.Helper()
	for _, u := range []message.UserID{user, "new " + user} {
		n.states = append(n.states, lookup(t, db.Users(), u))
		pairs := []follow.Pair{{Follower: u, Followee: "known"}, {Follower: u, Followee: "new"}}
		edges, err := db.Edges().Get(t.Context(), pairs)
		require.NoError(t, err)
		n.edges = append(n.edges, edges...)
		topics, err := db.Topics().Get(t.Context(), []message.Topic{message.Topic(u)})
		require.NoError(t, err)
		n.topics = append(n.topics, topics...)
	}
	return n
}

// TestWhatComesLateIsNotCarriedOut holds up the command of a call that is judged by a clock until its caller has given up, and lets
// it go then: the server gets it, and does not do it.
func TestWhatComesLateIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	first := time.UnixMilli(1_700_000_000_000).UTC()
	then := first.Add(time.Hour)
	state := func(user message.UserID, at time.Time) userstate.State {
		return storetest.Seen(user, at, time.Hour)
	}
	for name, call := range map[string]func(context.Context, *mongostore.DB, message.UserID) error{
		"View": func(ctx context.Context, db *mongostore.DB, user message.UserID) error {
			_, err := db.Users().View(ctx, []userstate.View{{User: user, At: then}})
			return err
		},
		"Step": func(ctx context.Context, db *mongostore.DB, user message.UserID) error {
			_, err := db.Users().Step(ctx, []userstate.Step{{From: state(user, first), To: state(user, then)}})
			return err
		},
		"Step of somebody new": func(ctx context.Context, db *mongostore.DB, user message.UserID) error {
			_, err := db.Users().Step(ctx, []userstate.Step{{From: userstate.State{User: "new " + user}, To: state("new "+user, then)}})
			return err
		},
		"Step that removes": func(ctx context.Context, db *mongostore.DB, user message.UserID) error {
			_, err := db.Users().Step(ctx, []userstate.Step{{From: state(user, first), To: userstate.State{User: user}}})
			return err
		},
		"Follow": func(ctx context.Context, db *mongostore.DB, user message.UserID) error {
			_, err := db.Edges().Follow(ctx, []follow.Pair{{Follower: user, Followee: "new"}}, then)
			return err
		},
		"Unfollow": func(ctx context.Context, db *mongostore.DB, user message.UserID) error {
			return db.Edges().Unfollow(ctx, follow.Pair{Follower: user, Followee: "known"}, then)
		},
		"Step of a topic": func(ctx context.Context, db *mongostore.DB, user message.UserID) error {
			name := message.Topic(user)
			return step(ctx, db, topic.Record{Topic: name}, topic.Record{Topic: name, Number: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct, opts := create(t)
			require.NoError(t, storetest.See(t.Context(), direct.Users(), first, time.Hour, "early", "late"))
			_, err := direct.Edges().Follow(t.Context(), []follow.Pair{{Follower: "early", Followee: "known"}, {Follower: "late", Followee: "known"}}, first)
			require.NoError(t, err)
			network := testenv.NewProxy(t, opts.URI)
			opts.URI = network.URI()
			db := open(t, opts)

			was := note(t, direct, "early")
			require.NoError(t, call(t.Context(), db, "early"))
			is := note(t, direct, "early")
			require.NotEqual(t, was, is, "what comes in time is carried out")

			was = note(t, direct, "late")
			for patience, held := 300*time.Millisecond, 0; held == 0; patience *= 2 { // on a busy machine it may end before anything is sent
				network.Set(t, testenv.Fault{HoldWrites: true})
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				require.ErrorIs(t, call(ctx, db, "late"), context.DeadlineExceeded)
				cancel()
				held = network.Set(t, testenv.Fault{})
			}
			<-network.Answered()
			is = note(t, direct, "late")
			require.Equal(t, was, is)
		})
	}
}
