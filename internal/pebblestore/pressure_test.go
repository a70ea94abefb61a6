package pebblestore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Where files come faster than they are merged, a push to many inboxes waits, and one to few goes on.
func TestLargePushesGiveWay(t *testing.T) {
	t.Parallel()
	db, err := pebblestore.Open(t.Context(), "store", pebblestore.WithoutCompactions(options(t, vfs.NewMem())))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	large := make([]bucket.Push, pebblestore.BulkPushes)
	for i := range large {
		large[i] = bucket.Push{Owner: message.UserID(fmt.Sprintf("owner-%03d", i)), Entries: []bucket.Entry{bucket.EntryOf(messagetest.Message(1, "ada"))}}
	}
	small := func(n int) []bucket.Push {
		return []bucket.Push{{Owner: message.UserID(fmt.Sprintf("one-%03d", n)), Entries: large[0].Entries}}
	}
	for n := range pebblestore.Crowded {
		for _, key := range []string{"\xfe1", "\xfe9"} { // each file spans the one before
			require.NoError(t, db.Engine().Set([]byte(key), []byte{byte(n)}, nil))
		}
		require.NoError(t, db.Engine().Flush())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = db.Inbox().Push(ctx, large)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	outcomes, err := db.Inbox().Push(t.Context(), small(1))
	require.NoError(t, err)
	require.True(t, outcomes[0].Applied)

	require.NoError(t, db.Engine().Compact(t.Context(), []byte("\xfe"), []byte("\xff"), false))
	outcomes, err = db.Inbox().Push(t.Context(), large)
	require.NoError(t, err)
	require.True(t, outcomes[0].Applied)
}
