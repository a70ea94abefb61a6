package candidates_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/candidates"
	"github.com/fanmail/fanmail/internal/popular"
	"github.com/fanmail/fanmail/pkg/message"
)

// older are the parts of a sample of the edges from before the record.
func older() [][]popular.User {
	return [][]popular.User{
		{{ID: "ann", Followers: 160}, {ID: "ben", Followers: 16}},
		{{ID: "ben", Followers: 160}, {ID: "zoe", Followers: 16}},
		{},
	}
}

// One process fills the record, from all parts, and keeps what was counted meanwhile.
func TestFill(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		store := &ledger{parts: older(), record: popular.Record{Revision: 1, Users: []popular.User{{ID: "ann", Followers: 640}}}}
		one, two := w.counting(store, always), w.counting(store, always)
		w.start(one.Fill)
		w.start(two.Fill)
		one.Gained("ann", 1)
		two.Gained("cleo", 1)
		pass(10 * time.Minute)
		require.True(t, store.record.Filled)
		require.Zero(t, store.record.Filling)
		require.Equal(t, []popular.User{
			{ID: "ann", Followers: 704}, {ID: "ben", Followers: 176}, {ID: "cleo", Followers: 64}, {ID: "zoe", Followers: 16},
		}, store.record.Users)
		require.Equal(t, []message.UserID{"ann", "ben", "cleo", "zoe"}, two.Users())
		require.Equal(t, 3, store.sampled, "only one process has read the sample")
	})
}

// A record that is filled is not filled again, even if it is empty.
func TestFillOnlyOnce(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		store := &ledger{parts: older(), record: popular.Record{Revision: 1, Filled: true}}
		w.start(w.counting(store, always).Fill)
		pass(time.Hour)
		require.Zero(w, store.sampled)
	})
}

// Filling begins again after a failure of the store, and in another process if one has died.
func TestFillAgain(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		store := &ledger{parts: older()}
		dying, kill := context.WithCancel(t.Context())
		one, two := w.counting(store, always), w.counting(store, always)
		w.start(func(_, work context.Context) { one.Fill(dying, work) })
		pass(500 * time.Millisecond)
		kill()
		w.start(two.Fill)
		pass(4 * time.Minute)
		require.Equal(t, 1, store.sampled, "the lease of the process that has died holds")
		store.fail(errors.New("the store is away"))
		pass(4 * time.Minute)
		require.Empty(t, store.record.Users)
		store.fail(nil)
		pass(10 * time.Minute)
		require.True(t, store.record.Filled)
		require.Len(t, store.record.Users, 3)
	})
}

// A process that fills for long keeps its lease, and ends after a number of parts.
func TestFillIsBounded(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		store := &ledger{}
		for n := range 2_000 {
			store.parts = append(store.parts, []popular.User{{ID: message.UserID(fmt.Sprintf("user-%05d", n)), Followers: 1}})
		}
		w.start(w.counting(store, always).Fill)
		w.start(w.counting(store, always).Fill)
		pass(time.Hour)
		require.Equal(t, 1_000, store.sampled)
		require.Len(t, store.record.Users, 1_000)
		require.True(t, store.record.Filled)
	})
}

// Of more users than there is room for, those with the most followers are kept, whatever the order.
func TestFillKeepsTheLargest(t *testing.T) {
	t.Parallel()
	run(t, func(w *world) {
		t := w.T
		store := &ledger{}
		const users = 11 * candidates.Max
		for from := 0; from < users; from += users / 4 {
			var part []popular.User
			for n := from; n < from+users/4; n++ {
				part = append(part, popular.User{ID: message.UserID(fmt.Sprintf("user-%06d", n)), Followers: int64(users - n)})
			}
			store.parts = append(store.parts, part)
		}
		w.start(w.counting(store, always).Fill)
		pass(time.Minute)
		synctest.Wait()
		require.Len(t, store.record.Users, popular.Max)
		require.Equal(t, popular.User{ID: "user-000000", Followers: users}, store.record.Users[0])
		require.Equal(t, popular.User{ID: "user-009999", Followers: users - 9_999}, store.record.Users[popular.Max-1])
	})
}
