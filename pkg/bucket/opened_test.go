package bucket_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// The owner of each bucket that is created above bucket 0 is named.
func TestAppendNamesTheOwnersOfNewBuckets(t *testing.T) {
	t.Parallel()
	store, hints := buckettest.NewModel(10), &recorder{}
	opened := make(map[message.UserID]int)
	appender := bucket.NewAppender(store, hints).
		WithOpened(func(owner message.UserID) { opened[owner]++ })
	heads := make(map[message.UserID]bucket.Hint)
	appendTo := func(owner message.UserID, first, count int) {
		results, err := appender.Append(t.Context(), []bucket.Append{{Owner: owner, Hint: heads[owner], Entries: entries(first, count)}})
		require.NoError(t, err)
		require.NoError(t, results[0].Err)
		heads[owner] = results[0].Head
	}
	appendTo("ann", 1, 9)
	appendTo("ben", 1, 10)
	appendTo("ann", 10, 1)
	require.Empty(t, opened)
	appendTo("ann", 11, 1)
	require.Equal(t, map[message.UserID]int{"ann": 1}, opened)
	appendTo("ann", 12, 9)
	appendTo("ann", 12, 9) // again
	require.Equal(t, map[message.UserID]int{"ann": 1}, opened)
	appendTo("ben", 11, 35)
	require.Equal(t, map[message.UserID]int{"ann": 1, "ben": 4}, opened)
}
