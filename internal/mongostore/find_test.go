//go:build mongodb

package mongostore_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

// TestCursorsAreClosed checks that the server drops the rest of a long answer when the caller gives up between two parts.
func TestCursorsAreClosed(t *testing.T) {
	t.Parallel()
	users := numbered(500) // more than a server sends at first
	db, opts := create(t)
	var topics []message.Topic
	var steps []topic.Change
	for _, user := range users {
		t := message.Topic(user)
		topics = append(topics, t)
		steps = append(steps, topic.Change{From: topic.Record{Topic: t}, To: topic.Record{Topic: t, Number: 1, InForce: true}})
	}
	_, err := db.Topics().Step(t.Context(), steps)
	require.NoError(t, err)
	var begun, closed atomic.Int64
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	watched := opts.Monitor.Started
	opts.Monitor = &event.CommandMonitor{Started: func(ctx context.Context, e *event.CommandStartedEvent) {
		watched(ctx, e)
		switch e.CommandName {
		case "getMore":
			begun.Add(1)
			giveUp()
		case "killCursors":
			closed.Add(1)
		}
	}}
	_, err = open(t, opts).Topics().Get(ctx, topics)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, 1, begun.Load())
	require.EqualValues(t, 1, closed.Load())
}
