package fanout_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/messagecache"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// longLists is a store of messages with a short body and many names. It adds up what a reader of its messages holds.
type longLists struct {
	message.Store
	names []message.UserID
	held  int
}

func (s *longLists) GetMany(_ context.Context, refs []message.Ref) ([]message.Found, error) {
	found := make([]message.Found, len(refs))
	for i, ref := range refs {
		found[i].Stored = message.Stored{
			Message: message.Message{ID: ref.ID, From: ref.From, To: s.names, Body: "hello"},
			Stamp:   message.Stamp{StoredAt: ref.ID.Time()},
		}
		s.held += s.size()
	}
	return found, nil
}

// size returns the least memory of one message: the text of its names, and the 16 bytes with which a list refers to each.
func (s *longLists) size() (size int) {
	for _, name := range s.names {
		size += len(name) + 16
	}
	return size
}

func namesOf(n int) (names []message.UserID) {
	for i := range n {
		names = append(names, message.UserID(fmt.Sprintf("user-%06d", i)))
	}
	return names
}

func TestBatchCountsNames(t *testing.T) {
	t.Parallel()
	const tasks = 200
	w := newWorld(t)
	w.opts.BatchTasks, w.opts.BatchBytes = tasks, 16<<20
	lists := &longLists{Store: w.Messages, names: namesOf(message.MaxRecipients)}
	var messages []message.Message
	for n := range tasks {
		messages = append(messages, message.Message{ID: id(n), From: "author"})
	}
	w.plan(t, event.Bulk, []int{0}, messages...)
	stores := w.Stores()
	stores.Messages = lists
	require.NoError(t, fanout.NewDeliverer(stores, w.Bus, w.opts).Deliver(t.Context(), w.take(t, event.Bulk, 0)))

	require.LessOrEqual(t, lists.held, w.opts.BatchBytes+lists.size(), "the batch has read at most one message that does not fit")
	moved := 0
	for _, m := range messages {
		if w.scan(t, m, 0).Joined {
			moved++
		}
	}
	require.LessOrEqual(t, moved*lists.size(), w.opts.BatchBytes)
	require.Greater(t, moved, 10, "the batch fills its budget")
}

func TestCacheCountsNames(t *testing.T) {
	t.Parallel()
	const limit = 8 << 20
	lists, cache := &longLists{names: namesOf(message.MaxRecipients)}, messagecache.New(limit)
	store := messagecache.Wrap(lists, cache)
	held := 0
	for n := range 200 {
		_, err := store.GetMany(t.Context(), []message.Ref{{From: "author", ID: id(n)}})
		require.NoError(t, err)
	}
	for n := range 200 {
		if _, ok := cache.Get(id(n)); ok {
			held += lists.size()
		}
	}
	require.LessOrEqual(t, held, limit)
	require.Positive(t, held)
}
