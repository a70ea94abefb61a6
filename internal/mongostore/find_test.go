//go:build mongodb

package mongostore_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
)

// TestCursorsAreClosed checks that the server drops the rest of a long answer when the caller gives up between two parts.
func TestCursorsAreClosed(t *testing.T) {
	t.Parallel()
	users := numbered(500) // more than a server sends at first
	db, opts := create(t)
	require.NoError(t, storetest.See(t.Context(), db.Users(), messagetest.Epoch, users...))
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
	_, err := open(t, opts).Users().Lookup(ctx, users)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, 1, begun.Load())
	require.EqualValues(t, 1, closed.Load())
}
