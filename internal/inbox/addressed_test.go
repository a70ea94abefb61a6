package inbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// numbered returns users in ascending order.
func numbered(n int) []message.UserID {
	users := make([]message.UserID, n)
	for i := range users {
		users[i] = message.UserID(fmt.Sprintf("user-%02d", i))
	}
	return users
}

// A page says whom its messages are for: by at most 16 names, of which the reader's is the first.
func TestAddressed(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		t.Helper()
		names := numbered(17)
		messages := []message.Message{
			{ID: id(0), From: "author", To: names, Body: "seventeen"},
			{ID: id(1), From: "other", To: names[:16], Topics: []message.Topic{"news", "programming/go"}, Body: "sixteen"},
			{ID: id(2), From: "author", To: names[16:], Audience: message.AudienceFollowers, Body: "one"},
			{ID: id(3), From: "author", Audience: message.AudienceFollowers, Body: "none"},
		}
		_, err := w.Messages.Insert(t.Context(), messages, rig.Rules().Timing())
		require.NoError(t, err)
		entries := []bucket.Entry{{ID: id(9), From: "author", Body: "removed"}}
		for _, m := range messages {
			entries = append(entries, bucket.EntryOf(m))
		}
		last := append([]message.UserID{"user-16"}, names[:15]...)
		for reader, want := range map[message.UserID][]message.UserID{"user-16": last, "user-00": names[:16], "stranger": names[:16]} {
			got, err := w.Addressed(t.Context(), reader, entries)
			require.NoError(t, err)
			require.Equal(t, []inbox.Addressed{
				{},
				{To: want, Named: 17},
				{To: names[:16], Named: 16, Topics: messages[1].Topics},
				{To: names[16:], Named: 1, Audience: message.AudienceFollowers},
				{Audience: message.AudienceFollowers},
			}, got, reader)
		}
	})
}

// damagedMessages is a message.Store in which some messages cannot be read.
type damagedMessages struct {
	message.Store
	damaged map[message.ID]bool
}

func (s damagedMessages) GetMany(ctx context.Context, refs []message.Ref) ([]message.Found, error) {
	found, err := s.Store.GetMany(ctx, refs)
	for i := range found {
		if s.damaged[refs[i].ID] {
			found[i] = message.Found{Err: fmt.Errorf("message %s: %w", refs[i].ID, message.ErrCorrupt)}
		}
	}
	return found, err
}

// A damaged message hurts neither the page nor what it says of the others.
func TestAddressedByADamagedMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	w.send(t, "ann", 0, 3)
	w.fill(t, "ann", 0, 3)
	w.Clock.Advance(time.Second)
	service := inbox.New(
		inbox.Stores{
			Messages: damagedMessages{w.Messages, map[message.ID]bool{id(1): true}}, Buckets: w.Inbox, Users: w.Users, Appender: w.Appender,
		},
		w.rehydrator, inbox.Options{Rules: rig.Rules, Now: w.Clock.Now},
	)
	page, err := service.Read(t.Context(), "ann", inbox.Request{Limit: 5, Peek: true})
	require.NoError(t, err)
	got, err := service.Addressed(t.Context(), "ann", page.Entries)
	require.NoError(t, err)
	ann := inbox.Addressed{To: []message.UserID{"ann"}, Named: 1}
	require.Equal(t, []inbox.Addressed{ann, {}, ann}, got)
}
