//go:build mongodb

package mongostore_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// cost counts the commands that a server received and the documents that it returned.
type cost struct{ Finds, Documents, Updates int }

// meter counts what is asked of a server.
type meter struct {
	mu    sync.Mutex
	spent cost
	// sent are the update commands.
	sent []bson.Raw
}

func (m *meter) monitor() *event.CommandMonitor {
	return &event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			m.mu.Lock()
			defer m.mu.Unlock()
			switch e.CommandName {
			case "update", "findAndModify":
				m.spent.Updates++
				m.sent = append(m.sent, append(bson.Raw{}, e.Command...))
			case "find", "getMore", "aggregate":
				m.spent.Finds++
			}
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, batch := range []string{"firstBatch", "nextBatch"} {
				if documents, ok := e.Reply.Lookup("cursor", batch).ArrayOK(); ok {
					values, _ := documents.Values()
					m.spent.Documents += len(values)
				}
			}
		},
	}
}

// take returns the cost since the last take.
func (m *meter) take() cost {
	m.mu.Lock()
	defer m.mu.Unlock()
	spent := m.spent
	m.spent, m.sent = cost{}, nil
	return spent
}

// metered opens an empty database whose costs are metered from then on.
func metered(t *testing.T, change func(*mongostore.Options)) (*mongostore.DB, mongostore.Options, *meter) {
	t.Helper()
	_, opts := create(t)
	m := &meter{}
	opts.Monitor = m.monitor()
	if change != nil {
		change(&opts)
	}
	db := connect(t, opts) // which accepts another size of buckets
	m.take()
	return db, opts, m
}

func entriesOf(first, count int) []bucket.Entry {
	entries := make([]bucket.Entry, count)
	for i := range entries {
		entries[i] = bucket.EntryOf(messagetest.Message(first+i, "author"))
	}
	return entries
}

func numbered(count int) []message.UserID {
	users := make([]message.UserID, count)
	for i := range users {
		users[i] = message.UserID(fmt.Sprintf("user-%05d", i))
	}
	return users
}

// noHints is for heads that do not move.
type noHints struct{}

// RaiseHeads implements bucket.Hints.
func (noHints) RaiseHeads(context.Context, []bucket.Head) error { return nil }

// TestInboxCosts counts commands and documents of what is done most.
func TestInboxCosts(t *testing.T) {
	t.Parallel()
	db, _, meter := metered(t, nil)
	ctx, inbox := t.Context(), db.Inbox()
	owners := numbered(150)
	appender := bucket.NewAppender(inbox, noHints{})
	hints := make([]bucket.Hint, len(owners))
	deliver := func(first, count int) {
		t.Helper()
		appends := make([]bucket.Append, len(owners))
		for i, owner := range owners {
			appends[i] = bucket.Append{Owner: owner, Hint: hints[i], Entries: entriesOf(first, count)}
		}
		results, err := appender.Append(ctx, appends)
		require.NoError(t, err)
		for i, r := range results {
			require.NoError(t, r.Err)
			require.Equal(t, count, r.New)
			hints[i] = r.Head
		}
	}
	spends := func(want cost, what string, do func() error) {
		t.Helper()
		meter.take()
		require.NoError(t, do(), what)
		require.Equal(t, want, meter.take(), what)
	}

	spends(cost{Updates: 1}, "the first message to all owners", func() error { deliver(1, 1); return nil })
	spends(cost{Updates: 1}, "more messages to all owners", func() error { deliver(2, 48); return nil })
	spends(cost{Updates: 1}, "the last that fits", func() error { deliver(50, 1); return nil })
	spends(cost{Finds: 1, Documents: len(owners), Updates: 2}, "one into a new bucket of each owner", func() error { deliver(51, 1); return nil })
	spends(cost{Updates: 1}, "more", func() error { deliver(52, 9); return nil })

	var heads []bucket.Head
	for i, owner := range owners {
		heads = append(heads, bucket.Head{Owner: owner, Hint: hints[i]})
	}
	spends(cost{Finds: 1, Documents: len(owners)}, "all heads", func() error {
		_, err := inbox.Heads(ctx, heads)
		return err
	})
	page := bucket.PageRequest{Owner: owners[0], Hint: hints[0], Limit: 50}
	spends(cost{Finds: 1, Documents: 2}, "a page", func() error {
		p, err := bucket.ReadPage(ctx, inbox, page)
		require.Len(t, p.Entries, 50)
		page.Before = p.Next
		return err
	})
	spends(cost{Finds: 4, Documents: 2}, "the next page, with a look at the head, at what came late and at what was deleted", func() error {
		p, err := bucket.ReadPage(ctx, inbox, page)
		require.Len(t, p.Entries, 10)
		return err
	})
	spends(cost{Finds: 1}, "deletions, where there are none", func() error {
		_, err := bucket.ReadDeletions(ctx, inbox, owners[0], 0)
		return err
	})
	spends(cost{Finds: 1, Documents: 1, Updates: 1}, "a deletion", func() error {
		return inbox.Delete(ctx, owners[0], 0, messagetest.ID(7))
	})
	spends(cost{Finds: 1, Documents: 3}, "a page of an inbox from which something was deleted", func() error {
		page.Before = nil
		_, err := bucket.ReadPage(ctx, inbox, page)
		return err
	})
	spends(cost{Finds: 1, Documents: 1}, "deletions, where there is one", func() error {
		_, err := bucket.ReadDeletions(ctx, inbox, owners[0], 1)
		return err
	})
}

// TestHeadsFarAboveTheirHints finds a head without reading what is below it.
func TestHeadsFarAboveTheirHints(t *testing.T) {
	t.Parallel()
	db, opts, meter := metered(t, nil)
	const head = 1000
	documents := make([]any, head+1)
	for sequence := range documents {
		documents[sequence] = bson.D{
			{Key: "owner", Value: "ann"},
			{Key: "sequence", Value: int64(sequence)},
			{Key: "v", Value: 1},
			{Key: "slots", Value: 1},
			{Key: "entries", Value: bson.A{bson.D{{Key: "id", Value: stored(messagetest.ID(sequence + 1))}}}},
			{Key: "floor", Value: stored(messagetest.ID(sequence))},
			{Key: "last", Value: stored(messagetest.ID(sequence + 1))},
		}
	}
	_, err := raw(t, opts).Collection("inbox").InsertMany(t.Context(), documents)
	require.NoError(t, err)
	want := bucket.Bucket{
		Outline: bucket.Outline{Sequence: head, Slots: 1, Floor: messagetest.ID(head), Last: messagetest.ID(head + 1)},
		Owner:   "ann", Entries: []bucket.Entry{{ID: messagetest.ID(head + 1)}},
	}
	at := func(owner message.UserID, sequence uint32) bucket.Head {
		return bucket.Head{Owner: owner, Hint: bucket.Hint{Sequence: sequence}}
	}
	for _, hint := range []uint32{0, 1, 3, 100, 511, 512, 996, 997, 999, 1000} {
		meter.take()
		heads, err := db.Inbox().Heads(t.Context(), []bucket.Head{at("ann", hint), at("bob", hint)})
		require.NoError(t, err)
		require.Equal(t, []bucket.Bucket{want, {}}, heads, "from %d", hint)
		spent := meter.take()
		require.LessOrEqual(t, spent.Finds, 12, "from %d", hint)
		require.LessOrEqual(t, spent.Documents, 64, "from %d", hint)
	}
	heads, err := db.Inbox().Heads(t.Context(), []bucket.Head{at("ann", 1001), at("ann", math.MaxUint32)})
	require.NoError(t, err)
	require.Equal(t, []bucket.Bucket{{}, {}}, heads)
}
