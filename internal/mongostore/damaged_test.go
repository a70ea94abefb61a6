//go:build mongodb

package mongostore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/tamper/damage"
)

// TestLostBucket loses a bucket of one of two inboxes. Appends that need it fail for its owner alone, until it is back.
func TestLostBucket(t *testing.T) {
	t.Parallel()
	db, opts := create(t)
	appender := bucket.NewAppender(db.Inbox(), db.Users())
	appendTo := func(n, count int) map[message.UserID]error {
		entries := make([]bucket.Entry, count)
		for i := range entries {
			entries[i] = bucket.EntryOf(messagetest.Message(n+i, "author"))
		}
		results, err := appender.Append(t.Context(), []bucket.Append{{Owner: "ann", Entries: entries}, {Owner: "bob", Entries: entries}})
		require.NoError(t, err)
		return map[message.UserID]error{"ann": results[0].Err, "bob": results[1].Err}
	}
	none := map[message.UserID]error{"ann": nil, "bob": nil}
	require.Equal(t, none, appendTo(100, 120))
	mend, err := damage.Database{URI: opts.URI, Name: opts.Database}.Lose(t.Context(), "ann", 1)
	require.NoError(t, err)
	late := appendTo(1, 1)
	require.ErrorIs(t, late["ann"], message.ErrCorrupt)
	require.NoError(t, late["bob"])
	require.Equal(t, none, appendTo(300, 1), "it is above the head")
	require.ErrorIs(t, bucket.Check(t.Context(), db.Inbox(), "ann"), message.ErrCorrupt)
	_, err = bucket.ReadPage(t.Context(), db.Inbox(), bucket.PageRequest{Owner: "ann", Limit: 200})
	require.ErrorIs(t, err, message.ErrCorrupt)
	require.NoError(t, mend(t.Context()))
	require.NoError(t, bucket.Check(t.Context(), db.Inbox(), "ann"))
	require.Equal(t, none, appendTo(1, 1))
}
