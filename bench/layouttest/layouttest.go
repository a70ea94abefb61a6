// Package layouttest tests the layouts that the stores' own is compared with.
package layouttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Layout is what all layouts share.
type Layout interface {
	Send(ctx context.Context, e bucket.Entry, recipients []message.UserID) (documents int, err error)
	Fill(ctx context.Context, entries []bucket.Entry, recipients []message.UserID) error
	Read(ctx context.Context, recipient message.UserID, n int) (ids []message.ID, documents int, err error)
	Close(ctx context.Context) error
}

// BucketSize is the number of messages in a bucket of the layouts.
const BucketSize = 4

// Newest is the number of messages that newest-n keeps.
const Newest = 9

// Entries returns n messages, an hour apart. The first one is sent after the given time.
func Entries(t *testing.T, sent time.Time, n int) []bucket.Entry {
	t.Helper()
	ids := message.NewGenerator(func() time.Time { return sent }, rand.NewChaCha8([32]byte{}))
	entries := make([]bucket.Entry, n)
	for i := range entries {
		sent = sent.Add(time.Hour)
		id, err := ids.Next()
		require.NoError(t, err)
		entries[i] = bucket.Entry{ID: id, From: "ann", Body: fmt.Sprintf("message %d", i)}
	}
	return entries
}

// Run fills inboxes in each of the layouts and sends messages, all of the day before now, and requires that reads return the newest, and as few documents
// as the layout promises. Then it sends the last message again: the layouts that keep a message once must show it once.
func Run(t *testing.T, now time.Time, names []string, open func(t *testing.T, name string) Layout) {
	t.Helper()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t, name)
			t.Cleanup(func() { require.NoError(t, l.Close(context.WithoutCancel(t.Context()))) })
			const there, sent = 10, 13
			entries := Entries(t, now.Add(-24*time.Hour), there+sent)
			want, all := make(map[message.UserID][]message.ID), make([]message.UserID, 5)
			for r := range all {
				all[r] = message.UserID(fmt.Sprintf("r%d", r))
				for _, e := range entries[:there] {
					want[all[r]] = slices.Insert(want[all[r]], 0, e.ID)
				}
			}
			require.NoError(t, l.Fill(t.Context(), entries[:there], all))
			last := entries[len(entries)-1]
			for n, e := range entries[there:] {
				var recipients []message.UserID
				for r, owner := range all {
					if n%(r+1) == 0 { // recipient r gets each (r+1)th message
						recipients, want[owner] = append(recipients, owner), slices.Insert(want[owner], 0, e.ID)
					}
				}
				documents, err := l.Send(t.Context(), e, recipients)
				require.NoError(t, err)
				require.GreaterOrEqual(t, documents, 1)
			}
			for owner, ids := range want {
				for _, n := range []int{1, BucketSize, Newest} {
					got, documents, err := l.Read(t.Context(), owner, n)
					require.NoError(t, err)
					require.Equal(t, ids[:min(n, len(ids))], got, "%d of %s", n, owner)
					require.GreaterOrEqual(t, documents, 1)
					require.LessOrEqual(t, documents, len(got)+1) // buckets reads the one below the head, too
					if name == "newest-n" {
						require.Equal(t, 1, documents)
					}
				}
			}
			none, _, err := l.Read(t.Context(), "nobody", Newest)
			require.NoError(t, err)
			require.Empty(t, none)

			again := []message.UserID{"r0", "r3"}
			_, err = l.Send(t.Context(), last, again)
			require.NoError(t, err)
			for _, owner := range again {
				got, _, err := l.Read(t.Context(), owner, 3)
				require.NoError(t, err)
				if slices.Contains([]string{"on-read", "on-write", "bucket-values", "buckets"}, name) {
					require.Equal(t, want[owner][:3], got, "sent twice to %s", owner)
				} else {
					require.Equal(t, []message.ID{last.ID, last.ID, want[owner][1]}, got, "sent twice to %s", owner)
				}
			}
		})
	}
}
