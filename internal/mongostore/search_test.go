//go:build mongodb

package mongostore_test

import (
	"context"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

// sentAt returns the nth id of a series, sent at a time.
func sentAt(t time.Time, n int) message.ID {
	id := message.MinID(t)
	id[6], id[8] = 0x70, 0x80
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

// TestSearchIsExactAndBounded looks for a page of what is spread over time in all the ways that a window can be wrong about, and
// counts how often it asks and how much it is told at a time.
func TestSearchIsExactAndBounded(t *testing.T) {
	t.Parallel()
	const count, page, mostQueries, mostIDs = 2500, 20, 12, 1001
	now := time.Now().Truncate(time.Millisecond)
	spread := func(of func(i int) time.Time) []message.ID {
		ids := make([]message.ID, count)
		for i := range ids {
			ids[i] = sentAt(of(i), i)
		}
		return ids
	}
	for name, ids := range map[string][]message.ID{
		"evenly over a year":                 spread(func(i int) time.Time { return now.AddDate(-1, 0, 0).Add(time.Duration(i) * 8760 * time.Hour / count) }),
		"all in one millisecond, a year ago": spread(func(int) time.Time { return now.AddDate(-1, 0, 0) }),
		"all within the last second":         spread(func(i int) time.Time { return now.Add(time.Duration(i-count) * time.Millisecond / 3) }),
		"many long ago, and one just now": spread(func(i int) time.Time {
			if i == count-1 {
				return now
			}
			return now.AddDate(-8, 0, 0).Add(time.Duration(i) * time.Second)
		}),
		"one long ago, and many just now": spread(func(i int) time.Time {
			if i == 0 {
				return time.UnixMilli(0)
			}
			return now.Add(time.Duration(i-count) * time.Second)
		}),
		"all by a clock that is ahead by a day": spread(func(i int) time.Time { return now.Add(24*time.Hour + time.Duration(i)*time.Second) }),
		"ever denser towards now":               spread(func(i int) time.Time { return now.Add(-time.Duration(1<<uint(40*(count-i)/count)) * time.Microsecond) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, opts := create(t)
			var queries, most atomic.Int64
			watched := opts.Monitor.Started
			opts.Monitor = &event.CommandMonitor{
				Started: watched,
				Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
					if e.CommandName == "find" || e.CommandName == "getMore" {
						queries.Add(1)
						batch, ok := e.Reply.Lookup("cursor", "firstBatch").ArrayOK()
						if !ok {
							batch = e.Reply.Lookup("cursor", "nextBatch").Array()
						}
						values, _ := batch.Values()
						most.Store(max(most.Load(), int64(len(values))))
					}
				},
			}
			store := open(t, opts).Messages()
			messages := make([]message.Message, count)
			for i, id := range ids {
				messages[i] = message.Message{ID: id, From: []message.UserID{"ann", "bob", "cid"}[i%3], Audience: message.AudienceFollowers, To: []message.UserID{"zoe"}, Body: "hello"}
			}
			_, err := store.Insert(t.Context(), messages, messagetest.AnyTime)
			require.NoError(t, err)
			slices.SortFunc(ids, message.ID.Compare)
			newest := slices.Clone(ids)
			slices.Reverse(newest)

			bounded := func(what string, want []message.ID, find func(order message.Order) ([]message.Stored, error), order message.Order) {
				t.Helper()
				queries.Store(0)
				most.Store(0)
				got, err := find(order)
				require.NoError(t, err)
				found := make([]message.ID, len(got))
				for i, m := range got {
					found[i] = m.ID
				}
				require.Equal(t, want, found, what)
				require.LessOrEqual(t, queries.Load(), int64(mostQueries), what)
				require.LessOrEqual(t, most.Load(), int64(mostIDs), what)
			}
			toFollowers := func(order message.Order) ([]message.Stored, error) {
				ranges := []message.Range{{From: "ann", Before: message.MaxID}, {From: "bob", Before: message.MaxID}, {From: "cid", Before: message.MaxID}}
				return store.ToFollowers(t.Context(), ranges, order, page)
			}
			naming := func(order message.Order) ([]message.Stored, error) {
				return store.Naming(t.Context(), "zoe", message.ID{}, message.MaxID, order, page)
			}
			bounded("newest to followers", newest[:page], toFollowers, message.NewestFirst)
			bounded("oldest to followers", ids[:page], toFollowers, message.OldestFirst)
			bounded("newest naming", newest[:page], naming, message.NewestFirst)
			bounded("oldest naming", ids[:page], naming, message.OldestFirst)
			newestOf := func(from message.UserID) func(message.Order) ([]message.Stored, error) {
				return func(message.Order) (found []message.Stored, err error) {
					refs, _, err := store.Newest(t.Context(), from, message.MaxID, page)
					for _, ref := range refs {
						found = append(found, message.Stored{Message: message.Message{ID: ref.ID}})
					}
					return found, err
				}
			}
			var bobs []message.ID
			for _, m := range messages {
				if m.From == "bob" {
					bobs = append(bobs, m.ID)
				}
			}
			slices.SortFunc(bobs, func(x, y message.ID) int { return y.Compare(x) })
			bounded("newest", newest[:page], newestOf(""), message.NewestFirst)
			bounded("newest of an author", bobs[:page], newestOf("bob"), message.NewestFirst)
			queries.Store(0)
			refs, err := store.Unfinished(t.Context(), message.ID{}, message.MaxID, page)
			require.NoError(t, err)
			for i, ref := range refs {
				require.Equal(t, ids[i], ref.ID)
			}
			require.Len(t, refs, page)
			require.LessOrEqual(t, queries.Load(), int64(mostQueries))
		})
	}
}

// TestStampsAreTheServers inserts a message between two looks at the server's clock.
func TestStampsAreTheServers(t *testing.T) {
	t.Parallel()
	db, opts := create(t)
	clock := func() time.Time {
		now, err := db.Clock(t.Context())
		require.NoError(t, err)
		return now
	}
	for _, together := range []int{1, 3} {
		messages := make([]message.Message, together)
		for i := range messages {
			messages[i] = message.Message{ID: sentAt(time.UnixMilli(1_700_000_000_000), together+i), From: "ann", Audience: message.AudienceFollowers, Body: "hello"}
		}
		before := clock()
		timing := message.Timing{Slack: message.MaxSlack, Tolerance: message.MaxSlack}
		if together == 3 {
			timing.Slack = time.Hour
		}
		stamps, err := db.Messages().Insert(t.Context(), messages, timing)
		require.NoError(t, err)
		after := clock()
		for i, stamp := range stamps {
			require.False(t, stamp.StoredAt.Before(before), "%v is before %v", stamp, before)
			require.False(t, stamp.StoredAt.After(after), "%v is after %v", stamp, after)
			require.Equal(t, timing.Void(messages[i].Sent(), stamp.StoredAt), stamp.Void)
			require.Equal(t, together == 3, stamp.Void)
		}
	}
	ahead := message.Message{ID: sentAt(clock().Add(time.Hour), 7), From: "ann", Audience: message.AudienceFollowers, Body: "hello"}
	stamps, err := db.Messages().Insert(t.Context(), []message.Message{ahead}, message.Timing{Slack: time.Hour, Tolerance: time.Minute})
	require.NoError(t, err)
	require.True(t, message.Stored{Message: ahead, Stamp: stamps[0]}.FromFuture())
	opts.Stamp = func() time.Time { return time.UnixMilli(1_700_000_000_123) }
	m := message.Message{ID: sentAt(time.UnixMilli(1_700_000_000_000), 9), From: "ann", Audience: message.AudienceFollowers, Body: "hello"}
	stamps, err = open(t, opts).Messages().Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
	require.NoError(t, err)
	require.Equal(t, []message.Stamp{{StoredAt: time.UnixMilli(1_700_000_000_123).UTC()}}, stamps, "but for a clock of a test's own")
}
