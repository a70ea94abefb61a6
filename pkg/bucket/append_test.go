package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

var id = messagetest.ID

// entries returns the copies of count messages, the first of which has the nth id.
func entries(first, count int) []bucket.Entry {
	out := make([]bucket.Entry, count)
	for i := range out {
		out[i] = bucket.EntryOf(messagetest.Message(first+i, "author"))
	}
	return out
}

// recorder keeps the hints that were raised.
type recorder []bucket.Head

func (r *recorder) RaiseHeads(_ context.Context, heads []bucket.Head) error {
	*r = append(*r, heads...)
	return nil
}

// watched returns a store that notes the methods that are called. It notes a read of buckets without entries as Floor.
func watched() (*buckettest.Seam, *recorder, *[]string) {
	hints, methods := &recorder{}, &[]string{}
	seam := &buckettest.Seam{Store: buckettest.NewModel(bucket.Capacity), Hints: hints}
	seam.Before = func(_ context.Context, op *buckettest.Op) error {
		method := op.Method
		if op.Field == bucket.NoEntries {
			method = "Floor"
		}
		*methods = append(*methods, method)
		return nil
	}
	return seam, hints, methods
}

func appendTo(t *testing.T, seam *buckettest.Seam, appends ...bucket.Append) []bucket.Appended {
	t.Helper()
	results, err := bucket.NewAppender(seam, seam).Append(t.Context(), appends)
	require.NoError(t, err)
	require.Len(t, results, len(appends))
	return results
}

func TestAppendOfVeryMany(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	want := bucket.Appended{New: 10_000, Head: bucket.Hint{Sequence: 199, Floor: id(9950)}}
	require.Equal(t, []bucket.Appended{want}, appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, 10_000)}))
}

func TestAppendReturnsResultsInOrder(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	appendTo(t, seam, bucket.Append{Owner: "bob", Entries: entries(1, 60)})
	results := appendTo(t, seam,
		bucket.Append{Owner: "zoe", Entries: entries(1, 3)},
		bucket.Append{Owner: "bob", Entries: entries(50, 20)},
		bucket.Append{Owner: "nothing"},
		bucket.Append{Owner: "ann", Entries: entries(1, 120)},
	)
	require.Equal(t, []bucket.Appended{
		{New: 3},
		{New: 9, Head: bucket.Hint{Sequence: 1, Floor: id(50)}},
		{},
		{New: 120, Head: bucket.Hint{Sequence: 2, Floor: id(100)}},
	}, results)
	require.Empty(t, appendTo(t, seam))
}

func TestAppendCosts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		there   int
		hint    bucket.Hint
		entries []bucket.Entry
		want    []string
	}{
		{"the first message", 0, bucket.Hint{}, entries(1, 1), []string{"Push"}},
		{"onto the head", 60, bucket.Hint{Sequence: 1, Floor: id(50)}, entries(61, 10), []string{"Push"}},
		{"again", 60, bucket.Hint{Sequence: 1, Floor: id(50)}, entries(60, 1), []string{"Push", "Heads"}},
		{"onto the next bucket", 50, bucket.Hint{}, entries(51, 1), []string{"Push", "Push", "RaiseHeads"}},
		{"across two buckets", 49, bucket.Hint{}, entries(50, 2), []string{"Push", "Push", "Push", "RaiseHeads"}},
		{"from a hint that is far behind", 200, bucket.Hint{}, entries(201, 1), []string{"Push", "Push", "Heads", "Push", "RaiseHeads"}},
		{"older than the head", 60, bucket.Hint{Sequence: 1, Floor: id(50)}, entries(0, 1), []string{"Heads", "Range", "Push"}},
		{"several buckets", 0, bucket.Hint{}, entries(1, 101), []string{"Heads", "Push", "Push", "Push", "RaiseHeads"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			seam, _, methods := watched()
			if test.there > 0 {
				appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, test.there)})
			}
			*methods = nil
			appendTo(t, seam, bucket.Append{Owner: "ann", Hint: test.hint, Entries: test.entries})
			require.Equal(t, append(test.want, "Persist"), *methods)
		})
	}
}

func TestAppendManyOwnersCostsOnePush(t *testing.T) {
	t.Parallel()
	seam, _, methods := watched()
	var appends []bucket.Append
	for i := range 200 {
		appends = append(appends, bucket.Append{Owner: message.UserID(rune('a' + i)), Entries: entries(i, 5)})
	}
	for _, result := range appendTo(t, seam, appends...) {
		require.Equal(t, bucket.Appended{New: 5}, result)
	}
	require.Equal(t, []string{"Push", "Persist"}, *methods)
}

func TestAppendRaisesHeads(t *testing.T) {
	t.Parallel()
	seam, hints, _ := watched()
	appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, 120)}, bucket.Append{Owner: "bob", Entries: entries(1, 50)})
	require.Equal(t, recorder{{Owner: "ann", Hint: bucket.Hint{Sequence: 2, Floor: id(100)}}}, *hints)
	*hints = nil
	appendTo(t, seam, bucket.Append{Owner: "ann", Hint: bucket.Hint{Sequence: 1, Floor: id(50)}, Entries: entries(115, 2)})
	require.Equal(t, recorder{{Owner: "ann", Hint: bucket.Hint{Sequence: 2, Floor: id(100)}}}, *hints, "a look that finds a higher head raises the hint")
	*hints = nil
	appendTo(t, seam, bucket.Append{Owner: "ann", Hint: bucket.Hint{Sequence: 2, Floor: id(100)}, Entries: entries(119, 3)})
	require.Empty(t, *hints, "the head has not moved")
}

// A caller that appends batch after batch continues from the head that the previous batch returned. Each batch costs one push.
func TestAppendGoesOnFromItsHead(t *testing.T) {
	t.Parallel()
	seam, _, methods := watched()
	head := appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, 120)})[0].Head
	for first := 121; first <= 141; first += 10 {
		*methods = nil
		result := appendTo(t, seam, bucket.Append{Owner: "ann", Hint: head, Entries: entries(first, 10)})[0]
		require.Equal(t, []string{"Push", "Persist"}, *methods)
		require.Equal(t, bucket.Appended{New: 10, Head: head}, result)
	}
	behind := bucket.Append{Owner: "ann", Entries: entries(1, 3)}
	require.Equal(t, bucket.Appended{Head: head}, appendTo(t, seam, behind)[0], "a look finds the head")
}

func TestAppendLeavesTheCallersEntries(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(30, 2)})
	batch := entries(1, 90)
	shared := slices.Clone(batch)
	appendTo(t, seam, bucket.Append{Owner: "ann", Entries: shared}, bucket.Append{Owner: "bob", Entries: shared})
	require.Equal(t, batch, shared, "a batch is handed to many owners")
}

// An entry that occurs twice in an append is appended once.
func TestAppendOfARepeatedEntry(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	twice := slices.Concat(entries(1, 2), entries(2, 2), entries(3, 1))
	results := appendTo(t, seam, bucket.Append{Owner: "ann", Entries: twice})
	require.Equal(t, 3, results[0].New)
	require.NoError(t, bucket.Check(t.Context(), seam, "ann"))
	require.Len(t, twice, 5, "the entries of the caller stay")
}

func TestAppendWithHintAheadOfTheHead(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	ahead := bucket.Hint{Sequence: 3, Floor: id(7)}
	require.Equal(t, 60, appendTo(t, seam, bucket.Append{Owner: "ann", Hint: ahead, Entries: entries(10, 60)})[0].New)
	require.Equal(t, 1, appendTo(t, seam, bucket.Append{Owner: "ann", Hint: ahead, Entries: entries(10, 61)})[0].New)
	buckets, err := bucket.ReadSection(t.Context(), seam, bucket.Section{Owner: "ann", High: 10}, bucket.AllFields)
	require.NoError(t, err)
	require.Len(t, buckets, 2, "the head is found below, and no gap arises")
}

func TestAppendReturnsErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, method := range []string{"Push", "Heads", "Range", "RaiseHeads"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			seam, _, _ := watched()
			appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(10, 50)})
			seam.Before = func(_ context.Context, op *buckettest.Op) error {
				if op.Method == method {
					return broken
				}
				return nil
			}
			appender := bucket.NewAppender(seam, seam)
			// One that is older than all but one of bucket 1, after that bucket has come into being.
			results, err := appender.Append(t.Context(), []bucket.Append{{Owner: "ann", Entries: entries(59, 3)}})
			if method == "Range" {
				require.NoError(t, err)
				results, err = appender.Append(t.Context(), []bucket.Append{{Owner: "ann", Entries: entries(5, 1)}})
			}
			require.ErrorIs(t, err, broken)
			require.Nil(t, results, "nothing is known of any of them")
		})
	}
}

func TestAppendNoticesMissingBucket(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	_, err := seam.Push(t.Context(), []bucket.Push{{Owner: "ann", Sequence: 2, Create: true, Floor: id(100), Entries: entries(101, 1)}})
	require.NoError(t, err)
	results := appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(5, 60)}, bucket.Append{Owner: "bob", Entries: entries(5, 60)})
	require.ErrorIs(t, results[0].Err, message.ErrCorrupt)
	require.ErrorContains(t, results[0].Err, "missing")
	require.NoError(t, results[1].Err, "another owner is not concerned")
	require.Equal(t, 60, results[1].New)
	require.ErrorIs(t, bucket.Check(t.Context(), seam, "ann"), message.ErrCorrupt)
	require.NoError(t, bucket.Check(t.Context(), seam, "bob"))
	require.NoError(t, bucket.Check(t.Context(), seam, "cid"))
}

// The store fails each call that concerns ann or dan, after it has applied some pushes of others.
func TestAppendPastDamagedInboxes(t *testing.T) {
	t.Parallel()
	damaged := map[message.UserID]bool{"ann": true, "dan": true}
	for _, method := range []string{"Push", "Heads"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			seam, _, _ := watched()
			var owners []message.UserID
			for i := range 20 {
				owners = append(owners, message.UserID(fmt.Sprintf("user-%02d", i)))
			}
			owners = append(owners, "ann", "dan")
			slices.Sort(owners)
			var appends []bucket.Append
			for _, owner := range owners {
				appendTo(t, seam, bucket.Append{Owner: owner, Entries: entries(1, 50)})
				appends = append(appends, bucket.Append{Owner: owner, Entries: entries(49, 5)})
			}
			broken := fmt.Errorf("record: %w", message.ErrCorrupt)
			fail := func(_ context.Context, op *buckettest.Op) error {
				of := func(owner message.UserID) bool { return damaged[owner] }
				if op.Method == method && (slices.ContainsFunc(op.Heads, func(h bucket.Head) bool { return of(h.Owner) }) ||
					slices.ContainsFunc(op.Pushes, func(p bucket.Push) bool { return of(p.Owner) })) {
					return broken
				}
				return nil
			}
			if method == "Push" {
				seam.After = fail // all are applied, and the caller is told of none
			} else {
				seam.Before = fail
			}
			for i, r := range appendTo(t, seam, appends...) {
				if damaged[owners[i]] {
					require.ErrorIs(t, r.Err, message.ErrCorrupt)
					continue
				}
				require.NoError(t, r.Err, owners[i])
				buckets, err := bucket.ReadSection(t.Context(), seam, bucket.Section{Owner: owners[i], High: 9}, bucket.AllFields)
				require.NoError(t, err)
				require.Len(t, buckets, 2)
				require.Equal(t, 3, buckets[0].Slots, "each once")
			}
		})
	}
}

func TestAppendOfWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	seam.After = func(_ context.Context, op *buckettest.Op) error {
		for i := range op.Pushes {
			if op.Pushes[i].Owner == "bob" {
				op.Outcomes[i] = bucket.Outcome{Err: bucket.ErrTooLarge}
			}
		}
		return nil
	}
	results := appendTo(t, seam,
		bucket.Append{Owner: "ann", Entries: entries(1, 60)},
		bucket.Append{Owner: "bob", Entries: entries(1, 1)},
		bucket.Append{Owner: "cid", Entries: entries(1, 1)},
	)
	require.Equal(t, bucket.Appended{New: 60, Head: bucket.Hint{Sequence: 1, Floor: id(50)}}, results[0])
	require.ErrorIs(t, results[1].Err, bucket.ErrTooLarge)
	require.Equal(t, bucket.Appended{New: 1}, results[2], "one owner's failure is not another's")
}

func TestAppendGivesUpWhenContended(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	model, next := seam.Store, 1000
	seam.Before = func(ctx context.Context, op *buckettest.Op) error {
		if op.Method != "Push" || op.Pushes[0].Owner != "ann" {
			return nil
		}
		// Another writer fills, just before, the bucket that is pushed onto.
		push := op.Pushes[0]
		push.Entries, push.Guard = entries(next, bucket.Capacity), false
		next += bucket.Capacity
		_, err := model.Push(ctx, []bucket.Push{push})
		return err
	}
	results := appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, 1)}, bucket.Append{Owner: "bob", Entries: entries(1, 1)})
	require.ErrorIs(t, results[0].Err, bucket.ErrContended)
	require.Zero(t, results[0].New)
	require.Equal(t, bucket.Appended{New: 1}, results[1], "the others are not affected")
	seam.Before = nil
	again := appendTo(t, seam, bucket.Append{Owner: "ann", Entries: entries(1, 1)})[0]
	require.NoError(t, again.Err)
	require.Equal(t, 1, again.New, "it can be tried again")
}

func TestAppendOfCancelledContext(t *testing.T) {
	t.Parallel()
	seam, _, _ := watched()
	seam.Before = func(ctx context.Context, _ *buckettest.Op) error { return ctx.Err() }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := bucket.NewAppender(seam, seam).Append(ctx, []bucket.Append{{Owner: "ann", Entries: entries(1, 1)}})
	require.ErrorIs(t, err, context.Canceled)
}
