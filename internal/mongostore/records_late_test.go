//go:build mongodb

package mongostore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/test/testenv"
)

// step carries out steps one after the other, each from the result of the one before.
func step(ctx context.Context, db *mongostore.DB, from topic.Record, to ...topic.Record) error {
	for _, r := range to {
		if _, err := db.Topics().Step(ctx, []topic.Change{{From: from, To: r}}); err != nil {
			return err
		}
		from = r
	}
	return nil
}

// late holds up the write of a call until its caller has given up, and something else has happened.
func late(t *testing.T, network *testenv.Proxy, call func(context.Context) error, meanwhile func()) {
	t.Helper()
	network.Set(t, testenv.Fault{HoldWrites: true})
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	require.Eventually(t, func() bool { return network.Waiting() > 0 }, time.Minute, time.Millisecond)
	giveUp()
	require.ErrorIs(t, <-done, context.Canceled)
	meanwhile()
	network.Set(t, testenv.Fault{})
	<-network.Answered()
}

// TestATopicIsNotChangedLate holds up a write of a topic until its caller has given up. Meanwhile others change the topic, and change it
// back. The record is as the write expects it, and the write does nothing.
func TestATopicIsNotChangedLate(t *testing.T) {
	t.Parallel()
	none, inserted := topic.Record{Topic: "news"}, topic.Record{Topic: "news", Number: 1, Parent: 2}
	inForce, marked := inserted, inserted
	inForce.InForce = true
	marked.InForce, marked.Mark = true, 7
	for name, test := range map[string]struct {
		before    []topic.Record // to begin with
		write     topic.Record   // that comes late
		meanwhile []topic.Record
	}{
		"an insert":                      {nil, inserted, []topic.Record{inserted, none}},
		"an insert of what was":          {[]topic.Record{inserted, none}, inserted, []topic.Record{inserted, none}},
		"an insert of what another was":  {[]topic.Record{inserted, none}, marked, []topic.Record{inForce, none}},
		"a mark":                         {[]topic.Record{inserted, inForce}, marked, []topic.Record{marked, inForce}},
		"the end of a mark":              {[]topic.Record{marked}, inForce, []topic.Record{inForce, marked}},
		"a removal":                      {[]topic.Record{marked}, none, []topic.Record{inForce, marked}},
		"a removal of what was again":    {[]topic.Record{marked}, none, []topic.Record{none, marked}},
		"a record that was put in force": {[]topic.Record{inserted}, inForce, []topic.Record{none, inserted}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct, opts := create(t)
			require.NoError(t, step(t.Context(), direct, none, test.before...))
			network := testenv.NewProxy(t, opts.URI)
			opts.URI = network.URI()
			db := open(t, opts)
			is := none
			if n := len(test.before); n > 0 {
				is = test.before[n-1]
			}

			late(t, network, func(ctx context.Context) error { return step(ctx, db, is, test.write) }, func() {
				require.NoError(t, step(t.Context(), direct, is, test.meanwhile...))
			})
			there, err := direct.Topics().Get(t.Context(), []message.Topic{"news"})
			require.NoError(t, err)
			require.Equal(t, is, there[0])
		})
	}
}

// TestAnIdentityIsNotInsertedLate holds up an insert until another one was carried out, and the identity was removed.
func TestAnIdentityIsNotInsertedLate(t *testing.T) {
	t.Parallel()
	claimed := identity.Record{Identity: identity.Identity{Kind: identity.Email, Value: "joe@example.com"}, User: "ann", Form: 1}
	for _, claims := range []int{0, 1, 2} {
		t.Run(fmt.Sprintf("claimed %d times before", claims), func(t *testing.T) {
			t.Parallel()
			direct, opts := create(t)
			network := testenv.NewProxy(t, opts.URI)
			opts.URI = network.URI()
			db := open(t, opts)
			claimAndDelete := func() {
				looked, err := direct.Identities().Insert(t.Context(), []identity.Record{claimed})
				require.NoError(t, err)
				r := looked[0].Record
				require.True(t, r.Exists())
				if claims > 1 {
					withdrawn, err := direct.Identities().Withdraw(t.Context(), r)
					require.NoError(t, err)
					require.True(t, withdrawn)
					return
				}
				_, err = direct.Identities().Confirm(t.Context(), []identity.Record{r})
				require.NoError(t, err)
				require.NoError(t, direct.Identities().Remove(t.Context(), r))
			}
			for range claims {
				claimAndDelete()
			}
			late(t, network, func(ctx context.Context) error {
				_, err := db.Identities().Insert(ctx, []identity.Record{claimed})
				return err
			}, claimAndDelete)
			there, err := direct.Identities().Lookup(t.Context(), []identity.Identity{claimed.Identity})
			require.NoError(t, err)
			require.False(t, there[0].Record.Exists())
		})
	}
}
