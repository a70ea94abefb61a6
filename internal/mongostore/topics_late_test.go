//go:build mongodb

package mongostore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/test/testenv"
)

// step carries out steps one after the other, each from the result of the one before.
func step(ctx context.Context, db *mongostore.DB, from topic.Record, to ...topic.Record) error {
	for _, r := range to {
		if _, err := db.Topics().Step(ctx, []topic.Step{{From: from, To: r}}); err != nil {
			return err
		}
		from = r
	}
	return nil
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

			network.Set(t, testenv.Fault{HoldWrites: true})
			ctx, giveUp := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- step(ctx, db, is, test.write) }()
			require.Eventually(t, func() bool { return network.Waiting() > 0 }, time.Minute, time.Millisecond)
			giveUp()
			require.ErrorIs(t, <-done, context.Canceled)
			require.NoError(t, step(t.Context(), direct, is, test.meanwhile...))
			network.Set(t, testenv.Fault{})
			<-network.Answered()
			there, err := direct.Topics().Get(t.Context(), []message.Topic{"news"})
			require.NoError(t, err)
			require.Equal(t, is, there[0])
		})
	}
}
