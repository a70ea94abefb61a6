//go:build mongodb

package mongostore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/fanmail/fanmail/pkg/message"
)

// TestServerCountsTopics counts many messages of two topics, and demands that the server returns none of them.
func TestServerCountsTopics(t *testing.T) {
	t.Parallel()
	const count = 4000
	_, opts := create(t)
	var records atomic.Int64
	opts.Monitor = &event.CommandMonitor{
		Started: opts.Monitor.Started,
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			for _, batch := range []string{"firstBatch", "nextBatch"} {
				if found, ok := e.Reply.Lookup("cursor", batch).ArrayOK(); ok {
					values, _ := found.Values()
					records.Add(int64(len(values)))
				}
			}
		},
	}
	store := open(t, opts).Messages()
	topics := []message.Topic{message.Topic("news"), message.Topic("sports")}
	now := time.Now()
	messages := make([]bson.D, count)
	for i := range messages {
		id := sentAt(now.AddDate(-1, 0, 0).Add(time.Duration(i)*8760*time.Hour/count), i)
		to := topics[:1+i%2]
		messages[i] = bson.D{
			{Key: "_id", Value: stored(id)},
			{Key: "v", Value: int32(2)},
			{Key: "from", Value: "ann"},
			{Key: "topics", Value: to},
			{Key: "within", Value: to},
			{Key: "lag", Value: int64(0)},
			{Key: "stored_at", Value: id.Time()},
		}
	}
	_, err := raw(t, opts).Collection("messages").InsertMany(t.Context(), messages)
	require.NoError(t, err)
	var ranges []message.Range
	for _, topic := range topics {
		ranges = append(ranges, message.Range{From: topic.Source(), Before: message.MaxID})
	}
	records.Store(0)
	n, err := store.CountToFollowers(t.Context(), ranges)
	require.NoError(t, err)
	require.EqualValues(t, count, n)
	require.LessOrEqual(t, records.Load(), int64(1), "the server returns a number")
}
