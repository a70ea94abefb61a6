package bucket_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// future is the number of an id from the future.
const future = 90_000

// voidFrom judges the ids from the future, and notes the refs about which it is asked.
type voidFrom struct{ asked []message.Ref }

func (v *voidFrom) judge(_ context.Context, refs []message.Ref) (map[message.ID]bool, error) {
	v.asked = append(v.asked, refs...)
	verdicts := make(map[message.ID]bool)
	for _, ref := range refs {
		if !ref.ID.Less(id(future)) {
			verdicts[ref.ID] = true
		}
	}
	return verdicts, nil
}

// append1 appends a message to the inbox of ann.
func append1(t *testing.T, store bucket.Store, n int) {
	t.Helper()
	seam := &buckettest.Seam{Store: store, Hints: &recorder{}}
	require.NoError(t, appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(n, 1)})[0].Err)
}

// inboxOf appends messages one by one, in the order given, and returns the store.
func inboxOf(t *testing.T, ns ...int) *buckettest.Model {
	t.Helper()
	store := buckettest.NewModel()
	for _, n := range ns {
		append1(t, store, n)
	}
	return store
}

func from(first, count int) []int {
	ns := make([]int, count)
	for i := range ns {
		ns[i] = first + i
	}
	return ns
}

// bounds are the floor and the last of a bucket, as numbers of messages; 0 is the zero id.
type bounds struct{ floor, last int }

func boundsOf(t *testing.T, store bucket.Store) (all []bounds) {
	t.Helper()
	number := func(of message.ID) int {
		for _, n := range append(from(1, 3000), from(future, 10)...) {
			if id(n) == of {
				return n
			}
		}
		require.Zero(t, of)
		return 0
	}
	buckets, err := store.Range(t.Context(), "ann", 0, math.MaxUint32, math.MaxInt32)
	require.NoError(t, err)
	for _, b := range slices.Backward(buckets) {
		all = append(all, bounds{number(b.Floor), number(b.Last)})
	}
	return all
}

// requireCovered demands that bounds cover the ids that they must, and that floors rise.
func requireCovered(t *testing.T, store bucket.Store) {
	t.Helper()
	buckets, err := store.Range(t.Context(), "ann", 0, math.MaxUint32, math.MaxInt32)
	require.NoError(t, err)
	var below, floor message.ID
	for _, b := range slices.Backward(buckets) {
		require.False(t, b.Floor.Less(floor), "the floor of bucket %d is below that of the bucket before", b.Sequence)
		floor = b.Floor
		require.False(t, floor.Less(below), "the floor of bucket %d", b.Sequence)
		for _, e := range b.Entries {
			if below.Less(e.ID) && (!e.Deleted || e.ID.Less(id(future))) {
				below = e.ID
			}
		}
		require.False(t, b.Last.Less(below), "the last of bucket %d", b.Sequence)
	}
}

func repaired(t *testing.T, store bucket.Store) bucket.Repaired {
	t.Helper()
	done, err := bucket.Repair(t.Context(), store, "ann", (&voidFrom{}).judge)
	require.NoError(t, err)
	return done
}

// TestRepair repairs inboxes, twice. The second time nothing is left to do.
func TestRepair(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		held     []int
		deleted  []int
		repaired bucket.Repaired
		bounds   []bounds
	}{
		"an empty inbox": {},
		"a sound inbox":  {held: from(1, 60), bounds: []bounds{{0, 50}, {50, 60}}},
		"nothing but messages from the future": {
			held: []int{future, future + 1}, repaired: bucket.Repaired{Tombstones: 2, Lowered: 1}, bounds: []bounds{{0, 0}},
		},
		"all buckets above it": {
			held: append([]int{1, future}, from(2, 120)...), repaired: bucket.Repaired{Tombstones: 1, Lowered: 3},
			bounds: []bounds{{0, 49}, {49, 99}, {99, 121}},
		},
		"that was deleted already": {
			held: append([]int{future}, from(1, 60)...), deleted: []int{future}, repaired: bucket.Repaired{Lowered: 2},
			bounds: []bounds{{0, 49}, {49, 60}},
		},
		"last stays above tombstones of others": {
			held: append([]int{future}, from(1, 40)...), deleted: []int{39, 40}, repaired: bucket.Repaired{Tombstones: 1, Lowered: 1},
			bounds: []bounds{{0, 40}},
		},
		"floors stay above the greatest id of all buckets below": {
			held: slices.Concat(from(1000, 50), []int{future}, from(1, 59)), repaired: bucket.Repaired{Tombstones: 1, Lowered: 2},
			bounds: []bounds{{0, 1049}, {1049, 1049}, {1049, 1049}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := inboxOf(t, test.held...)
			for _, n := range test.deleted {
				require.NoError(t, bucket.Delete(t.Context(), store, "ann", bucket.Hint{}, id(n)))
			}
			require.Equal(t, test.repaired, repaired(t, store))
			require.Equal(t, test.bounds, boundsOf(t, store))
			require.Zero(t, repaired(t, store))
			requireCovered(t, store)
			for _, n := range test.held {
				if n < future { // no process delivers a void message
					append1(t, store, n)
					require.NoError(t, bucket.Delete(t.Context(), store, "ann", bucket.Hint{}, id(n)))
				}
			}
			d, err := store.Deletions(t.Context(), "ann", 0)
			require.NoError(t, err)
			require.EqualValues(t, len(test.held), d.Total, "a redelivery appends nothing")
		})
	}
}

// TestRepairBesideAWriter lets a writer append two messages right after an operation of the repair.
func TestRepairBesideAWriter(t *testing.T) {
	t.Parallel()
	// In bucket 0, and also in bucket 1, which has a slot left.
	twice := slices.Concat([]int{future}, from(1, 49), []int{future + 1}, from(50, 48))
	for name, test := range map[string]struct {
		held   []int
		after  string // the name of the operation
		nth    int    // which operation of that name; 0 is the first one that lowers the last of bucket 1
		bounds []bounds
	}{
		"after it read a bucket with room":     {twice, "Range", 2, []bounds{{0, 49}, {49, 2000}, {2000, 2001}}},
		"after it made an entry a tombstone":   {twice, "Delete", 2, []bounds{{0, 49}, {49, 2000}, {2000, 2001}}},
		"after it lowered a bucket with room":  {twice, "Lower", 0, []bounds{{0, 49}, {49, 2000}, {2000, 2001}}},
		"after it read a bucket that was last": {append([]int{future}, from(1, 49)...), "Range", 1, []bounds{{0, 49}, {49, 2001}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := inboxOf(t, test.held...)
			seen := 0
			seam := &buckettest.Seam{Store: store, After: func(_ context.Context, op *buckettest.Op) error {
				if op.Method == test.after {
					lowered := test.nth == 0 && seen >= 0 && boundsOf(t, store)[1].last < future
					if seen++; seen == test.nth || lowered {
						seen = -1000 // once
						append1(t, store, 2000)
						append1(t, store, 2001)
					}
				}
				requireCovered(t, store)
				return nil
			}}
			repaired(t, seam)
			require.Equal(t, test.bounds, boundsOf(t, store))
		})
	}
}

// TestRepairOrder demands that bounds cover a message from the future until it is a tombstone.
func TestRepairOrder(t *testing.T) {
	t.Parallel()
	store := inboxOf(t, append([]int{future}, from(1, 60)...)...)
	var methods []string
	seam := &buckettest.Seam{Store: store, Before: func(_ context.Context, op *buckettest.Op) error {
		methods = append(methods, op.Method)
		requireCovered(t, store)
		return nil
	}}
	repaired(t, seam)
	require.Equal(t, []string{"Range", "Delete", "Lower", "Range", "Lower", "Range", "Range"}, methods, "and then a pass that finds nothing")
}

func TestRepairAsksAboutWhatMatters(t *testing.T) {
	t.Parallel()
	store := inboxOf(t, 1, 2, 3, 4)
	for _, n := range []int{1, 4} {
		require.NoError(t, store.Delete(t.Context(), "ann", 0, id(n)))
	}
	var v voidFrom
	_, err := bucket.Repair(t.Context(), store, "ann", v.judge)
	require.NoError(t, err)
	require.Equal(t, []message.Ref{{From: "author", ID: id(2)}, {From: "author", ID: id(3)}, {ID: id(4)}}, v.asked)
}

func TestRepairTakesNoUnknownMessageForVoid(t *testing.T) {
	t.Parallel()
	store := inboxOf(t, future, 1)
	done, err := bucket.Repair(t.Context(), store, "ann", func(context.Context, []message.Ref) (map[message.ID]bool, error) { return nil, nil })
	require.NoError(t, err)
	require.Zero(t, done)
	require.Equal(t, []bounds{{0, future}}, boundsOf(t, store))
}

// damaged is a store that has lost the record of a slot of bucket 0.
type damaged struct {
	bucket.Store
	slot int
}

func (d damaged) Range(ctx context.Context, owner message.UserID, low, high uint32, limit int) ([]bucket.Bucket, error) {
	buckets, err := d.Store.Range(ctx, owner, low, high, limit)
	for _, b := range buckets {
		if b.Sequence == 0 {
			b.Entries[d.slot] = bucket.Entry{}
		}
	}
	return buckets, err
}

func TestRepairEndsAtALostSlot(t *testing.T) {
	t.Parallel()
	store := inboxOf(t, append([]int{future}, from(1, 60)...)...)
	before := boundsOf(t, store)
	require.Zero(t, repaired(t, damaged{store, 7}))
	require.Equal(t, before, boundsOf(t, store))
	require.NoError(t, store.Blank(t.Context(), "ann", 0, 7, id(7)))
	require.Equal(t, bucket.Repaired{Tombstones: 1, Lowered: 2}, repaired(t, store), "a blanked entry has its id among the tombstones")
	require.Equal(t, []bounds{{0, 49}, {49, 60}}, boundsOf(t, store))
}

var errDown = errors.New("the store is down")

func TestRepairThatFails(t *testing.T) {
	t.Parallel()
	held := append([]int{future}, from(1, 60)...)
	for _, method := range []string{"Range", "Delete", "Lower"} {
		seam := &buckettest.Seam{Store: inboxOf(t, held...), Before: func(_ context.Context, op *buckettest.Op) error {
			if op.Method == method {
				return errDown
			}
			return nil
		}}
		_, err := bucket.Repair(t.Context(), seam, "ann", (&voidFrom{}).judge)
		require.ErrorIs(t, err, errDown, method)
	}
	_, err := bucket.Repair(t.Context(), inboxOf(t, held...), "ann", func(context.Context, []message.Ref) (map[message.ID]bool, error) {
		return nil, errDown
	})
	require.ErrorIs(t, err, errDown)
}

// restless is a store in which other processes undo the repair.
type restless struct {
	bucket.Store
	lower func() bool
}

func (restless) Delete(context.Context, message.UserID, uint32, message.ID) error { return nil }

func (r restless) Lower(ctx context.Context, owner message.UserID, as bucket.Outline, floor, last message.ID) (bool, error) {
	if !r.lower() {
		return false, nil
	}
	return r.Store.Lower(ctx, owner, as, floor, last)
}

func TestRepairGivesUp(t *testing.T) {
	t.Parallel()
	for name, lower := range map[string]func() bool{
		"a bucket that changes all the time": func() bool { return false },
		"an inbox that is poisoned again":    func() bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := bucket.Repair(t.Context(), restless{inboxOf(t, future, 1), lower}, "ann", (&voidFrom{}).judge)
			require.ErrorIs(t, err, bucket.ErrContended)
		})
	}
}

// isVoid judges some messages void.
func isVoid(ns ...int) bucket.Judge {
	return func(context.Context, []message.Ref) (map[message.ID]bool, error) {
		verdicts := make(map[message.ID]bool)
		for _, n := range ns {
			verdicts[id(n)] = true
		}
		return verdicts, nil
	}
}

func pushTo(t *testing.T, store bucket.Store, push bucket.Push) bool {
	t.Helper()
	outcomes, err := store.Push(t.Context(), []bucket.Push{push})
	require.NoError(t, err)
	return outcomes[0].Applied
}
