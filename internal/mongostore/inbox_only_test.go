//go:build mongodb

package mongostore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/fanmail/fanmail/pkg/bucket"
)

// conversation has the commands that a server received, and its answers.
type conversation struct {
	mu                sync.Mutex
	commands, replies []bson.Raw
}

func (c *conversation) monitor() *event.CommandMonitor {
	return &event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.commands = append(c.commands, append(bson.Raw{}, e.Command...))
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.replies = append(c.replies, append(bson.Raw{}, e.Reply...))
		},
	}
}

// TestOneFieldIsRead reads the newest messages by one field: the commands ask for no other contents, and the answers hold none.
func TestOneFieldIsRead(t *testing.T) {
	t.Parallel()
	_, opts := create(t)
	said := new(conversation)
	opts.Monitor = said.monitor()
	db := open(t, opts)
	entries := entriesOf(1, 1200)
	for i := range entries {
		entries[i].From = "the-author"
		entries[i].Body, entries[i].ContentType = "the-body", "the/type"
		entries[i].Attrs = []byte(`{"kind":"the-attribute"}`)
	}
	_, err := bucket.NewAppender(db.Inbox(), noHints{}).Append(t.Context(), []bucket.Append{{Owner: "ann", Entries: entries}})
	require.NoError(t, err)
	for field, has := range map[bucket.Field]string{bucket.FieldFrom: "the-author", bucket.FieldAttrs: "the-attribute"} {
		said.commands, said.replies = nil, nil
		newest, err := bucket.ReadNewest(t.Context(), db.Inbox(), bucket.NewestRequest{
			Owner: "ann", Hint: bucket.Hint{Sequence: 23}, Field: field, Limit: 1000, Buckets: 200, Messages: 2000,
		})
		require.NoError(t, err)
		require.Len(t, newest.Found, 1000)
		require.Equal(t, entries[1199].Only(field), newest.Found[0].Entry)
		require.Len(t, said.commands, 1, "one command")
		asked := fmt.Sprint(said.commands[0].Lookup("projection"))
		for _, part := range []string{"body", "content_type", "from", "attrs"} {
			wanted := map[bucket.Field]string{bucket.FieldFrom: "from", bucket.FieldAttrs: "attrs"}[field] == part
			require.Equal(t, wanted, strings.Contains(asked, "entries."+part), asked)
		}
		answer := string(said.replies[0])
		for _, text := range []string{"the-author", "the-body", "the/type", "the-attribute"} {
			require.Equal(t, text == has, strings.Contains(answer, text), text)
		}
	}
}
