package inbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// flags is a flag.Store that has flags of every user.
type flags struct {
	flag.Store

	record flag.Record
	err    error
	asked  []message.UserID
}

// Lookup implements flag.Store.
func (f *flags) Lookup(_ context.Context, owners []message.UserID) (looked []flag.Looked, err error) {
	f.asked = append(f.asked, owners...)
	for _, owner := range owners {
		l := flag.Looked{Record: f.record, Err: f.err}
		l.Record.Owner = owner
		looked = append(looked, l)
	}
	return looked, nil
}

// flaggedUsers says that every user but ben has flags, and what they have seen, one read after the other. The last one repeats.
type flaggedUsers struct {
	userstate.Store

	seen []int64
}

// Lookup implements userstate.Store.
func (u *flaggedUsers) Lookup(ctx context.Context, users []message.UserID) ([]userstate.Looked, error) {
	looked, err := u.Store.Lookup(ctx, users)
	for i := range looked {
		looked[i].State.Flagged, looked[i].State.Seen = looked[i].State.User != "ben", u.seen[0]
	}
	u.seen = u.seen[min(1, len(u.seen)-1):]
	return looked, err
}

// Pages, counts and what describes a user agree on flags. They read again if an inbox cannot have its counts, and end with counts that it can have.
func TestCountsWithFlags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann", "ben"))
	for _, user := range []message.UserID{"ann", "ben"} {
		w.fill(t, user, 0, 10)
		w.Clock.Advance(time.Second)
		require.NoError(t, w.MarkRead(t.Context(), user, id(4)))
	}
	places := map[flag.Place]flag.Flags{{Slot: 0}: flag.Unread, {Slot: 1}: flag.Read, {Slot: 9}: flag.Archived}
	record, _, err := flag.Record{}.With(places, nil, 0, message.ID{})
	require.NoError(t, err)
	users, marked := &flaggedUsers{Store: w.Users}, &flags{record: record}
	service := inbox.New(
		inbox.Stores{Buckets: w.Inbox, Users: w.Users, Appender: w.Appender, Shown: inbox.Shown{Buckets: w.Inbox, Users: users, Flags: marked}},
		w.rehydrator, inbox.Options{Rules: rig.Rules, Now: w.Clock.Now},
	)
	for _, test := range []struct {
		seen         []int64
		reads, shows int64
	}{{[]int64{8}, 1, 1}, {[]int64{99, 99, 8}, 3, 1}, {[]int64{99, 99, 99, 99, 99, 8}, 5, 0}} {
		want := bucket.Tally{Total: 9, Unread: 5, Unseen: test.shows, Archived: 1}
		users.seen, marked.asked = test.seen, nil
		counts, err := service.Counts(t.Context(), []message.UserID{"ann", "ben"})
		require.NoError(t, err)
		require.Equal(t, want, counts[0].Tally)
		require.Equal(t, int64(5), counts[1].Unread)
		require.Len(t, marked.asked, int(test.reads), "of those who may have flags")
		users.seen = test.seen
		page, err := service.Read(t.Context(), "ann", inbox.Request{Limit: 3, Peek: true})
		require.NoError(t, err)
		require.Equal(t, want, page.Tally)
		users.seen = test.seen
		user, err := service.User(t.Context(), "ann")
		require.NoError(t, err)
		require.Equal(t, want, user.Tally)
	}
	users.seen, marked.err = []int64{8}, message.ErrCorrupt
	counts, err := service.Counts(t.Context(), []message.UserID{"ann", "ben"})
	require.NoError(t, err)
	require.Equal(t, inbox.Count{User: "ann"}, counts[0])
	require.Equal(t, int64(10), counts[1].Total)
	_, err = service.Read(t.Context(), "ann", inbox.Request{Limit: 3, Peek: true})
	require.ErrorIs(t, err, message.ErrCorrupt)
	_, err = service.User(t.Context(), "ann")
	require.ErrorIs(t, err, message.ErrCorrupt)
}
