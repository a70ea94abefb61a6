package buckettest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// tombstone returns a push of the tombstone of the nth message.
func tombstone(n int) []bucket.Entry { return []bucket.Entry{{ID: id(n), Deleted: true}} }

// appendTombstone appends the tombstone of a message to an inbox, and returns the number of new entries.
func appendTombstone(t tester, store bucket.Store, owner message.UserID, hint bucket.Hint, n int) int {
	t.Helper()
	results, err := bucket.NewAppender(store, noHints{}).Append(t.Context(), []bucket.Append{{Owner: owner, Hint: hint, Entries: tombstone(n)}})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	return results[0].New
}

// everything is all data of an inbox that a store returns.
type everything struct {
	In        inbox
	Head      bucket.Bucket
	Deletions bucket.Deletions
	Late      inbox
}

func readEverything(t tester, store bucket.Store, owner message.UserID) (all everything) {
	t.Helper()
	all.In = readInbox(t, store, owner)
	all.Head = head(t, store, owner)
	all.Head.Owner = ""
	var err error
	_, all.Deletions, err = store.Newest(t.Context(), owner, 0, 1, 0)
	require.NoError(t, err)
	all.Late = read(t, store, late(owner, 0, message.MaxID), bucket.AllFields)
	for _, in := range []inbox{all.In, all.Late} {
		for i := range in {
			in[i].Owner = ""
		}
	}
	return all
}

// pushTombstone pushes tombstones to one inbox. To another inbox it pushes entries, and deletes them. The store must return the
// same for both.
func (s suite) pushTombstone(t *testing.T) {
	full := numbers(10, 10, bucket.Capacity)
	for _, test := range []struct {
		name string
		in   []int
		push bucket.Push
		n    int
	}{
		{"as the first", nil, bucket.Push{Guard: true}, 7},
		{"as the newest", numbers(10, 10, 60), bucket.Push{Sequence: 1, Guard: true}, 605},
		{"between others", numbers(10, 10, 60), bucket.Push{Sequence: 1, Guard: true}, 505},
		{"late", numbers(10, 10, 60), bucket.Push{Sequence: 1}, 5},
		{"into the last slot", full[1:], bucket.Push{}, 5},
		{"into a new bucket", full, bucket.Push{Sequence: 1, Create: true, Floor: id(500)}, 505},
		{"late into a new bucket", full, bucket.Push{Sequence: 1, Create: true, Floor: id(500)}, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := s.open(t)
			want := test.push
			want.Owner, want.Entries = "twin", entries(test.n)
			prefill(t, h.Store, want.Owner, test.in)
			require.True(t, pushOne(t, h.Store, want))
			require.NoError(t, h.Store.Delete(t.Context(), want.Owner, want.Sequence, id(test.n)))

			got := test.push
			got.Owner, got.Entries = owner, entries(test.n)
			got.Entries[0].Deleted = true // a tombstone keeps only the id
			prefill(t, h.Store, owner, test.in)
			require.True(t, pushOne(t, h.Store, got))
			require.NoError(t, h.Store.Persist(t.Context()))
			for range 2 {
				same := readEverything(t, h.Store, want.Owner)
				require.Equal(t, int64(1), same.Deletions.Total)
				require.Equal(t, same, readEverything(t, h.Store, owner))
				h = h.Reopen(t)
			}

			require.False(t, pushOne(t, h.Store, got), "it is there")
			got.Entries = entries(test.n)
			require.False(t, pushOne(t, h.Store, got), "it does not come back")
			require.NoError(t, h.Store.Delete(t.Context(), owner, got.Sequence, id(test.n)), "it is deleted already")
			for _, user := range []message.UserID{owner, want.Owner} {
				require.Equal(t, 3, appendAll(t, h.Store, user, bucket.Hint{}, []int{1, 2, test.n, 3000}))
				require.Zero(t, appendTombstone(t, h.Store, user, bucket.Hint{}, 2))
			}
			require.Equal(t, readEverything(t, h.Store, want.Owner), readEverything(t, h.Store, owner))
		})
	}
}

// pushTombstoneConditions tries to push tombstones on the inbox of pushConditions.
func (s suite) pushTombstoneConditions(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	prefill(t, store, owner, numbers(10, 10, 98))
	require.NoError(t, store.Delete(t.Context(), owner, 1, id(520)))
	before := readEverything(t, store, owner)
	for name, push := range map[string]bucket.Push{
		"guarded at the floor":         {Sequence: 1, Entries: tombstone(500), Guard: true},
		"onto a full bucket":           {Entries: tombstone(2000)},
		"of what is there":             {Sequence: 1, Entries: tombstone(510)},
		"of what was deleted":          {Sequence: 1, Entries: tombstone(520)},
		"onto a bucket that is not":    {Sequence: 2, Entries: tombstone(2000)},
		"onto a bucket far beyond":     {Sequence: math.MaxUint32, Entries: tombstone(2000)},
		"of what is there, to create":  {Sequence: 1, Entries: tombstone(980), Create: true, Floor: id(500)},
		"onto a full bucket, guarded":  {Entries: tombstone(2000), Guard: true},
		"onto a full one, with create": {Entries: tombstone(2000), Create: true},
	} {
		push.Owner = owner
		require.False(t, pushOne(t, store, push), name)
		require.Equal(t, before, readEverything(t, store, owner), name)
	}
}

// pushTombstoneNotAlone pushes a tombstone together with an entry, which is an error of its push only.
func (s suite) pushTombstoneNotAlone(t *testing.T) {
	t.Parallel()
	store := s.open(t).Store
	outcomes, err := store.Push(t.Context(), []bucket.Push{
		{Owner: "ann", Entries: entries(1), Guard: true},
		{Owner: "bob", Entries: append(entries(1), tombstone(2)...), Guard: true},
		{Owner: "cid", Entries: tombstone(1), Guard: true},
	})
	require.NoError(t, err)
	require.Equal(t, bucket.Outcome{Applied: true}, outcomes[0])
	require.Equal(t, bucket.Outcome{Applied: true}, outcomes[2])
	require.False(t, outcomes[1].Applied)
	require.ErrorIs(t, outcomes[1].Err, bucket.ErrNotAlone)
	require.Empty(t, readInbox(t, store, "bob"))
	require.Equal(t, entries(1), readInbox(t, store, "ann").entries(), "one id, an entry here")
	require.Equal(t, tombstone(1), readInbox(t, store, "cid").entries(), "and a tombstone there")
}

// pushTombstonesConcurrently makes some writers append messages, and others their tombstones. Each message must be there once, as
// an entry or as a tombstone, and the counts must be right.
func (s suite) pushTombstonesConcurrently(t *testing.T) {
	t.Parallel()
	const writers, count = 4, 60
	store := s.open(t).Store
	ctx := t.Context()
	added := hammer(t, writers, func(w int) ([]int, error) {
		var added []int
		for n := range count {
			pushed := entries(n)
			if w%2 == 0 {
				pushed = tombstone(n)
			}
			results, err := bucket.NewAppender(store, noHints{}).Append(ctx, []bucket.Append{{Owner: owner, Entries: pushed}})
			if err == nil {
				err = results[0].Err
			}
			if err != nil {
				return nil, err
			}
			if results[0].New == 1 {
				added = append(added, n)
			}
		}
		return added, nil
	})
	in := readInbox(t, store, owner)
	require.NoError(t, in.check())
	require.Len(t, in.entries(), count)
	var places []bucket.Tombstone
	for _, b := range in {
		for slot, e := range b.Entries {
			if e.Deleted {
				places = append(places, bucket.Tombstone{Sequence: b.Sequence, Slot: slot, Position: store.Size().Position(b.Sequence, slot), ID: e.ID})
			}
		}
	}
	d := s.deletions(t, store, 0)
	require.EqualValues(t, len(places), d.Total)
	require.ElementsMatch(t, places, d.Recent)
	for n, times := range added {
		require.LessOrEqual(t, times, 1, "message %d", n)
	}
}
