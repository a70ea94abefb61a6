package inbox_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// A page says whom its messages are for, by names only to those who are named among at most 16, and to the author. It does not read the
// messages again, so it says so when they are gone. The same holds for the messages of a gap.
func TestWhomAMessageIsFor(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		t.Helper()
		names := make([]message.UserID, 17)
		for i := range names {
			names[i] = message.UserID(fmt.Sprintf("user-%02d", i))
		}
		messages := []message.Message{
			{ID: id(0), From: "author", To: names, Body: "seventeen"},
			{ID: id(1), From: "other", To: names[:16], Topics: []message.Topic{"news", "programming/go"}, Body: "sixteen"},
			{ID: id(2), From: "author", To: names[16:], Audience: message.AudienceFollowers, Body: "one"},
			{ID: id(3), From: "author", Audience: message.AudienceFollowers, Body: "none"},
		}
		_, err := w.Messages.Insert(t.Context(), messages, rig.Rules().Timing())
		require.NoError(t, err)
		require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch.Add(-2*rig.DormantAfter), rig.DormantAfter, "user-05"))
		page, err := w.Read(t.Context(), "user-05", inbox.Request{Limit: 5, Peek: true})
		require.NoError(t, err)
		many := bucket.EntryOf(messages[0])
		require.Equal(t, []inbox.Message{{Found: bucket.Found{Entry: bucket.EntryOf(messages[1]), Absent: true}}, {Found: bucket.Found{Entry: many, Absent: true}}}, page.Entries, "of a dormant user")
		require.Equal(t, 17, many.ToCount)
		shown := map[message.UserID][]int{"user-16": {2}, "user-00": {1}, "stranger": nil, "author": {2}}
		for reader, named := range shown {
			require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, reader))
			a := bucket.Append{Owner: reader}
			for _, m := range messages {
				a.Entries = append(a.Entries, bucket.EntryOf(m))
			}
			results, err := w.Appender.Append(t.Context(), []bucket.Append{a})
			require.NoError(t, err)
			require.NoError(t, results[0].Err)
			page, err = w.Read(t.Context(), reader, inbox.Request{Limit: 5, Peek: true})
			require.NoError(t, err)
			require.Len(t, page.Entries, len(messages))
			for i, e := range page.Entries {
				n := len(messages) - 1 - i
				want := bucket.EntryOf(messages[n])
				if want.To = nil; len(named) > 0 && named[0] == n {
					want.To = messages[n].To
				}
				require.Equal(t, bucket.Found{Entry: want, Position: int64(n)}, e.Found, "%s, %d", reader, n)
			}
		}
	})
}
