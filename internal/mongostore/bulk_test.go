//go:build mongodb

package mongostore_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/fanmail/fanmail/internal/pulse"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestBulksAreBounded inserts messages of different sizes: no command has more updates or bytes than it may, unless it is a single
// update, and all of them arrive. A caller sees that the commands return.
func TestBulksAreBounded(t *testing.T) {
	t.Parallel()
	const operations, bytes, count = 7, 20_000, 60
	db, opts := create(t)
	opts.BulkOperations, opts.BulkBytes = operations, bytes
	var mu sync.Mutex
	var sizes, numbers []int
	watched := opts.Monitor.Started
	opts.Monitor = &event.CommandMonitor{Started: func(ctx context.Context, e *event.CommandStartedEvent) {
		watched(ctx, e)
		if e.CommandName == "update" {
			mu.Lock()
			defer mu.Unlock()
			sizes, numbers = append(sizes, len(e.Command)), append(numbers, len(documents(e.Command, "updates")))
		}
	}}
	messages := make([]message.Message, count)
	for i := range messages {
		n := (i * 37) % count
		messages[i] = messagetest.Message(n, "ann")
		messages[i].Body = strings.Repeat("x", max(1, n-count/2)*n*20)
	}
	var beating pulse.Pulse
	stamps, err := open(t, opts).Messages().Insert(beating.Of(t.Context()), messages, messagetest.AnyTime)
	require.NoError(t, err)
	require.Greater(t, beating.Beats(), uint64(count/operations), "each command shows that the store answers")
	for i, m := range messages {
		stored, err := db.Messages().Get(t.Context(), m.Ref())
		require.NoError(t, err)
		require.Equal(t, message.Stored{Message: m, Stamp: stamps[i]}, stored)
	}
	mu.Lock()
	defer mu.Unlock()
	const around = 500 // bytes of a command that are none of its updates
	full, alone := 0, 0
	for i, n := range numbers {
		require.LessOrEqual(t, n, operations)
		if n == operations {
			full++
		}
		if n == 1 {
			alone++
			continue
		}
		require.LessOrEqual(t, sizes[i], bytes+around)
	}
	require.Positive(t, full, "some have as many updates as they may")
	require.Positive(t, alone, "some have one that is larger than they may be")
}
