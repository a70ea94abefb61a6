package pebblestore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestLargePush pushes to so many owners, out of order, that it takes several batches and several turns at the locks,
// with memory for more owners than there are, and for fewer.
func TestLargePush(t *testing.T) {
	t.Parallel()
	for name, remembered := range map[string]int{"all owners remembered": 10_000, "most owners forgotten": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := options(t, vfs.NewMem())
			opts.RememberedOwners, opts.MemTableBytes = remembered, 8<<20
			db, err := pebblestore.Open(t.Context(), "store", opts)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			const owners, rounds = 1300, 3
			shuffled := rand.New(rand.NewPCG(1, 2)).Perm(owners)
			owner := func(i int) message.UserID { return message.UserID(fmt.Sprintf("owner-%d", i)) }
			for n := 1; n <= rounds; n++ {
				m := messagetest.Message(n, "ada")
				m.Body = strings.Repeat("body", 512)
				pushes := make([]bucket.Push, owners)
				for i, o := range shuffled {
					pushes[i] = bucket.Push{Owner: owner(o), Entries: []bucket.Entry{bucket.EntryOf(m)}, Guard: true}
				}
				pushes[7].Sequence = 5 // is not there
				outcomes, err := db.Inbox().Push(t.Context(), pushes)
				require.NoError(t, err)
				for i, outcome := range outcomes {
					require.NoError(t, outcome.Err)
					require.Equal(t, i != 7, outcome.Applied, "push %d", i)
				}
			}
			for i, o := range shuffled {
				buckets, err := bucket.ReadSection(t.Context(), db.Inbox(), bucket.Section{Owner: owner(o)}, bucket.AllFields)
				require.NoError(t, err)
				if i == 7 {
					require.Empty(t, buckets)
					continue
				}
				require.Equal(t, []message.ID{messagetest.ID(1), messagetest.ID(2), messagetest.ID(3)}, buckettest.IDs(buckets[0].Entries))
			}
		})
	}
}

// TestPushOfOneIDWithOtherContents makes sure that encoding an entry once for many owners never mixes up entries.
func TestPushOfOneIDWithOtherContents(t *testing.T) {
	t.Parallel()
	db := open(t, vfs.NewMem())
	pushes := make([]bucket.Push, 3)
	for i := range pushes {
		entry := bucket.EntryOf(messagetest.Message(1, "ada"))
		entry.Body = fmt.Sprintf("for %d", i%2)
		pushes[i] = bucket.Push{Owner: message.UserID(fmt.Sprintf("owner-%d", i)), Entries: []bucket.Entry{entry}}
	}
	_, err := db.Inbox().Push(t.Context(), pushes)
	require.NoError(t, err)
	for _, push := range pushes {
		buckets, err := bucket.ReadSection(t.Context(), db.Inbox(), bucket.Section{Owner: push.Owner}, bucket.AllFields)
		require.NoError(t, err)
		require.Equal(t, push.Entries, buckets[0].Entries)
	}
}

// A push to an inbox whose end is not remembered needs the highest record. Damage of another one does not prevent it.
func TestPushNeedsTheHighestRecord(t *testing.T) {
	t.Parallel()
	const highest = 2
	for damaged := range highest + 1 {
		t.Run(fmt.Sprintf("record %d is damaged", damaged), func(t *testing.T) {
			t.Parallel()
			opts := options(t, vfs.NewMem())
			opts.Partitions = 1
			push := func(db *pebblestore.DB, n int) error {
				pushes := []bucket.Push{{Owner: "ann"}, {Owner: "bob"}} // only the first one is searched for
				for i := range pushes {
					pushes[i].Entries = []bucket.Entry{bucket.EntryOf(messagetest.Message(n, "ada"))}
				}
				outcomes, err := db.Inbox().Push(t.Context(), pushes)
				for _, outcome := range outcomes {
					require.True(t, err != nil || outcome.Applied)
				}
				return err
			}
			db, err := pebblestore.Open(t.Context(), "store", opts)
			require.NoError(t, err)
			for n := range highest + 1 {
				require.NoError(t, push(db, n+1))
			}
			require.NoError(t, db.Engine().Set(pebblestore.EntryKey(0, "bob", 0, damaged), []byte{1}, pebble.Sync))
			require.NoError(t, db.Close())
			db, err = pebblestore.Open(t.Context(), "store", opts)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			if err := push(db, highest+2); damaged == highest {
				require.ErrorIs(t, err, pebblestore.ErrCorrupt)
			} else {
				require.NoError(t, err)
			}
		})
	}
}
