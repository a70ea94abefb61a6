//go:build mongodb

package mongostore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/event"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

// exchanges are the commands to messages and meta, as they begin and end.
type exchanges struct {
	mu    sync.Mutex
	names map[int64]string
	seen  []string
}

func (x *exchanges) monitor() *event.CommandMonitor {
	x.names = make(map[int64]string)
	return &event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if c, _ := e.Command.Lookup(e.CommandName).StringValueOK(); c == "messages" || c == "meta" {
				x.mu.Lock()
				defer x.mu.Unlock()
				x.names[e.RequestID] = fmt.Sprint(e.CommandName, " ", c)
				x.seen = append(x.seen, x.names[e.RequestID])
			}
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			x.mu.Lock()
			defer x.mu.Unlock()
			if name, ok := x.names[e.RequestID]; ok {
				x.seen = append(x.seen, "end of "+name)
			}
		},
	}
}

func (x *exchanges) take() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	seen := x.seen
	x.seen = nil
	return seen
}

// TestCeiling inserts, and asks for later messages: below the ceiling the shards answer, from there on the record does alone.
func TestCeiling(t *testing.T) {
	t.Parallel()
	_, opts := create(t)
	said := new(exchanges)
	opts.Monitor = said.monitor()
	db := open(t, opts)
	said.take()
	messages := db.Messages()
	insert := func(n int) error {
		_, err := messages.Insert(t.Context(), []message.Message{messagetest.Message(n, "ann")}, messagetest.AnyTime)
		return err
	}
	asked := func(after message.ID) (bool, []string) {
		later, err := messages.AnyAfter(t.Context(), after)
		require.NoError(t, err)
		return later, said.take()
	}
	record := []string{"find meta", "end of find meta"}
	later, seen := asked(message.ID{})
	require.False(t, later, "no message was ever stored")
	require.Equal(t, record, seen)

	require.NoError(t, insert(1))
	require.Equal(t, []string{
		"update meta", "end of update meta", "insert meta", "end of insert meta", "findAndModify messages", "end of findAndModify messages",
	}, said.take(), "the ceiling is acknowledged before the message is sent")
	var inserts errgroup.Group
	for n := range 20 {
		inserts.Go(func() error { return insert(2 + n) })
	}
	require.NoError(t, inserts.Wait())
	require.NotContains(t, said.take(), "update meta")
	half := messagetest.Message(30, "ann")
	half.ID = message.LastBefore(messagetest.ID(1).Time().Add(40 * time.Minute))
	half.ID[6], half.ID[8] = 0x70, 0x80
	_, err := messages.Insert(t.Context(), []message.Message{half}, messagetest.AnyTime)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return slices.Contains(said.take(), "end of update meta") }, time.Minute, time.Millisecond, "it is raised ahead")

	later, seen = asked(messagetest.ID(5))
	require.True(t, later)
	require.Contains(t, seen, "find messages")
	later, seen = asked(message.LastBefore(half.ID.Time().Add(time.Hour)))
	require.False(t, later)
	require.Equal(t, record, seen)

	other := open(t, opts) // it shares the monitor, and knows nothing of the ceiling
	said.take()
	for n := range 20 {
		inserts.Go(func() error {
			_, err := other.Messages().Insert(t.Context(), []message.Message{messagetest.Message(50+n, "ann")}, messagetest.AnyTime)
			return err
		})
	}
	require.NoError(t, inserts.Wait())
	raises := 0
	for _, name := range said.take() {
		if name == "update meta" {
			raises++
		}
	}
	require.Equal(t, 1, raises, "many inserts share a raise")

	_, err = open(t, opts).Messages().Insert(t.Context(), []message.Message{messagetest.Message(0, "ann")}, messagetest.AnyTime)
	require.NoError(t, err)
	require.Contains(t, said.take(), "update meta")
	_, seen = asked(message.LastBefore(half.ID.Time().Add(time.Hour - time.Second)))
	require.Contains(t, seen, "find messages", "a raise by an older message does not lower the ceiling")
}
