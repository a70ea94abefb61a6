//go:build mongodb

package mongostore_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestPushIsSplit pushes more than is sent together, by the number of updates and by their bytes, out of order.
func TestPushIsSplit(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]mongostore.Options{
		"by operations": {BulkOperations: 7},
		"by bytes":      {BulkBytes: 20_000},
		"not at all":    {},
		"one by one":    {BulkBytes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, _, meter := metered(t, func(o *mongostore.Options) {
				o.BulkOperations, o.BulkBytes = limits.BulkOperations, limits.BulkBytes
			})
			owners := numbered(60)
			pushes := make([]bucket.Push, len(owners))
			for i, o := range rand.New(rand.NewPCG(1, 2)).Perm(len(owners)) {
				e := entriesOf(i, 1)
				e[0].Body = strings.Repeat("body", 500)
				pushes[i] = bucket.Push{Owner: owners[o], Entries: e, Guard: true}
			}
			pushes[13].Sequence = 3 // is not there
			outcomes, err := db.Inbox().Push(t.Context(), pushes)
			require.NoError(t, err)
			for i, o := range outcomes {
				require.Equal(t, bucket.Outcome{Applied: i != 13}, o, "push %d", i)
				heads, err := db.Inbox().Heads(t.Context(), []bucket.Head{{Owner: pushes[i].Owner}})
				require.NoError(t, err)
				if o.Applied {
					require.Equal(t, []bucket.Entry{{ID: messagetest.ID(i)}}, heads[0].Entries)
				}
			}
			sent := 0
			for _, command := range meter.sent {
				updates, err := command.Lookup("updates").Array().Values()
				require.NoError(t, err)
				before := ""
				for _, u := range updates {
					owner := u.Document().Lookup("q", "owner").StringValue()
					require.Less(t, before, owner, "in the order of owners")
					before = owner
				}
				if limits.BulkOperations > 0 {
					require.LessOrEqual(t, len(updates), limits.BulkOperations)
				}
				if limits.BulkBytes > 0 && len(updates) > 1 {
					require.LessOrEqual(t, len(command), limits.BulkBytes)
				}
				sent += len(updates)
			}
			require.Equal(t, len(owners), sent)
			commands := map[string]int{"by operations": 9, "by bytes": 9, "not at all": 1, "one by one": 60}
			require.Len(t, meter.sent, commands[name])
		})
	}
}

// TestPushedUpdates compares what is sent with a golden file: the conditions of a push are what keeps messages from being
// in an inbox twice.
func TestPushedUpdates(t *testing.T) {
	t.Parallel()
	db, _, meter := metered(t, nil)
	for _, push := range []bucket.Push{
		{Sequence: 0, Entries: entriesOf(1, 2), Guard: true},
		{Sequence: 0, Entries: entriesOf(3, 1)},
		{Sequence: 1, Entries: entriesOf(4, 1), Guard: true},
		{Sequence: 1, Entries: entriesOf(5, 2)},
		{Sequence: 1, Entries: entriesOf(7, 1), Create: true, Floor: messagetest.ID(6)},
		{Sequence: 2, Entries: entriesOf(7, 1), Create: true, Floor: messagetest.ID(8)},
	} {
		push.Owner = "ann"
		_, err := db.Inbox().Push(t.Context(), []bucket.Push{push})
		require.NoError(t, err)
	}
	updates := bson.A{}
	for _, command := range meter.sent {
		require.False(t, command.Lookup("ordered").Boolean())
		require.Equal(t, "majority", command.Lookup("writeConcern", "w").StringValue())
		require.True(t, command.Lookup("writeConcern", "j").Boolean())
		updates = append(updates, command.Lookup("updates").Array().Index(0))
	}
	requireGolden(t, "pushes.golden.json", bson.D{{Key: "updates", Value: updates}})
}

// TestBucketDocument compares a bucket as it is stored with a golden file.
func TestBucketDocument(t *testing.T) {
	t.Parallel()
	db, opts, _ := metered(t, nil)
	ctx, inbox := t.Context(), db.Inbox()
	full := entriesOf(100, bucket.Capacity)
	some := entriesOf(150, 4)
	some[0].ContentType, some[0].Attrs = "text/plain", []byte(`{"a":1}`)
	some[1].Recovered = true
	late := entriesOf(99, 1)
	for _, push := range []bucket.Push{
		{Entries: full, Guard: true},
		{Sequence: 1, Entries: some, Create: true, Floor: full[len(full)-1].ID},
		{Sequence: 1, Entries: late},
	} {
		push.Owner = "ann"
		outcomes, err := inbox.Push(ctx, []bucket.Push{push})
		require.NoError(t, err)
		require.True(t, outcomes[0].Applied)
	}
	require.NoError(t, inbox.Delete(ctx, "ann", 1, some[2].ID))
	require.NoError(t, inbox.Blank(ctx, "ann", 1, 3, some[3].ID))
	document := documentIn(t, opts, "inbox", bson.D{{Key: "owner", Value: "ann"}, {Key: "sequence", Value: 1}})
	requireGolden(t, "bucket.golden.json", document)
}

// TestBucketOfAnotherVersion neither reads nor changes what another release has written.
func TestBucketOfAnotherVersion(t *testing.T) {
	t.Parallel()
	db, opts, _ := metered(t, nil)
	ctx, inbox := t.Context(), db.Inbox()
	_, err := inbox.Push(ctx, []bucket.Push{{Owner: "ann", Entries: entriesOf(1, 2), Guard: true}})
	require.NoError(t, err)
	documents := raw(t, opts).Collection("inbox")
	_, err = documents.UpdateOne(ctx, bson.D{{Key: "owner", Value: "ann"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: 2}}}})
	require.NoError(t, err)
	var before, after bson.M
	require.NoError(t, documents.FindOne(ctx, bson.D{}).Decode(&before))

	_, err = bucket.ReadSection(ctx, inbox, bucket.Section{Owner: "ann", High: 9}, bucket.AllFields)
	require.ErrorIs(t, err, mongostore.ErrFormat)
	_, err = inbox.Heads(ctx, []bucket.Head{{Owner: "ann"}})
	require.ErrorIs(t, err, mongostore.ErrFormat)
	require.ErrorIs(t, inbox.Delete(ctx, "ann", 0, messagetest.ID(1)), mongostore.ErrFormat)
	require.ErrorIs(t, inbox.Blank(ctx, "ann", 0, 0, messagetest.ID(1)), bucket.ErrNotFound)
	outcomes, err := inbox.Push(ctx, []bucket.Push{{Owner: "ann", Entries: entriesOf(3, 1), Guard: true}})
	require.NoError(t, err)
	require.Equal(t, []bucket.Outcome{{}}, outcomes)
	require.NoError(t, documents.FindOne(ctx, bson.D{}).Decode(&after))
	require.Equal(t, before, after)
}

// TestFillLostSlots damages buckets as no store would, and puts tombstones where entries are lost.
func TestFillLostSlots(t *testing.T) {
	t.Parallel()
	db, opts, _ := metered(t, nil)
	inbox, documents := db.Inbox(), raw(t, opts).Collection("inbox")
	appender := bucket.NewAppender(inbox, noHints{})
	for name, damage := range map[string]struct {
		update bson.D
		slots  []int // that are lost then
	}{
		"an entry in the middle":  {bson.D{{Key: "$unset", Value: bson.D{{Key: "entries.7", Value: 1}}}}, []int{7}},
		"the highest entries":     {bson.D{{Key: "$push", Value: bson.D{{Key: "entries", Value: bson.D{{Key: "$each", Value: bson.A{}}, {Key: "$slice", Value: 48}}}}}}, []int{48, 49}},
		"the highest, uncounted":  {bson.D{{Key: "$pop", Value: bson.D{{Key: "entries", Value: 1}}}, {Key: "$set", Value: bson.D{{Key: "slots", Value: 49}}}}, []int{49}},
		"one that says nothing":   {bson.D{{Key: "$set", Value: bson.D{{Key: "entries.0", Value: bson.D{}}}}}, []int{0}},
		"one below one uncounted": {bson.D{{Key: "$unset", Value: bson.D{{Key: "entries.48", Value: 1}}}, {Key: "$set", Value: bson.D{{Key: "slots", Value: 49}}}}, []int{48}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			owner := message.UserID(strings.ReplaceAll(name, " ", "-"))
			_, err := appender.Append(ctx, []bucket.Append{{Owner: owner, Entries: entriesOf(1, 60)}})
			require.NoError(t, err)
			filter := bson.D{{Key: "owner", Value: string(owner)}, {Key: "sequence", Value: 0}}
			result, err := documents.UpdateOne(ctx, filter, damage.update)
			require.NoError(t, err)
			require.EqualValues(t, 1, result.ModifiedCount)
			for i, slot := range damage.slots {
				require.NoError(t, inbox.Blank(ctx, owner, 0, slot, message.ID{}))
				require.ErrorIs(t, inbox.Blank(ctx, owner, 0, slot, message.ID{}), bucket.ErrNotFound, "it is filled")
				d, err := bucket.ReadDeletions(ctx, inbox, owner, 0)
				require.NoError(t, err)
				require.EqualValues(t, i+1, d.Total)
				require.Equal(t, bucket.Tombstone{Slot: slot, Position: int64(slot)}, d.Recent[i])
			}
			buckets, err := bucket.ReadSection(ctx, inbox, bucket.Section{Owner: owner}, bucket.AllFields)
			require.NoError(t, err)
			require.Equal(t, bucket.Capacity, buckets[0].Slots)
			for slot, e := range buckets[0].Entries {
				want := bucket.EntryOf(messagetest.Message(1+slot, "author"))
				for _, lost := range damage.slots {
					if lost == slot {
						want = bucket.Entry{Deleted: true}
					}
				}
				require.Equal(t, want, e, "slot %d", slot)
			}
			require.ErrorIs(t, inbox.Blank(ctx, owner, 1, 10, message.ID{}), bucket.ErrNotFound, "above the last of the head nothing is lost")
			require.ErrorIs(t, inbox.Blank(ctx, owner, 2, 0, message.ID{}), bucket.ErrNotFound, "there is no such bucket")
		})
	}
}

// TestPushWithBadReplies appends through a network that loses replies to updates which have been applied, or doubts them.
func TestPushWithBadReplies(t *testing.T) {
	t.Parallel()
	badly(t, func(t *testing.T, doubts bool) {
		t.Helper()
		_, opts := create(t)
		network := badReplies(t, opts.URI, 3, doubts)
		opts.URI = network.URI()
		db := open(t, opts)
		appender := bucket.NewAppender(db.Inbox(), noHints{})
		owners := numbered(20)
		hints := make([]bucket.Hint, len(owners))
		const messages, together = 120, 8
		for first := 0; first < messages; first += together {
			appends := make([]bucket.Append, len(owners))
			for i, owner := range owners {
				appends[i] = bucket.Append{Owner: owner, Hint: hints[i], Entries: entriesOf(first, together)}
			}
			results, err := appender.Append(t.Context(), appends)
			require.NoError(t, err)
			for i, r := range results {
				require.NoError(t, r.Err)
				hints[i] = r.Head
			}
		}
		require.Positive(t, network.Lost(), "no reply was lost: this has shown nothing")
		for _, owner := range owners {
			buckets, err := bucket.ReadSection(t.Context(), db.Inbox(), bucket.Section{Owner: owner, High: 9}, bucket.AllFields)
			require.NoError(t, err)
			var got []bucket.Entry
			for _, b := range slices.Backward(buckets) {
				got = append(got, b.Entries...)
			}
			require.Equal(t, entriesOf(0, messages), got, "each message once, and in order: %s", owner)
		}
		t.Logf("%d replies were lost", network.Lost())
	})
}

// TestBlankWithBadReplies blanks entries, a tombstone and a lost slot. A caller that repeats the call after a bad reply learns
// that it succeeded. A second call learns that there is nothing to blank.
func TestBlankWithBadReplies(t *testing.T) {
	t.Parallel()
	badly(t, func(t *testing.T, doubts bool) {
		t.Helper()
		_, opts := create(t)
		network := badReplies(t, opts.URI, 2, doubts)
		direct, documents := open(t, opts).Inbox(), raw(t, opts).Collection("inbox")
		opts.URI = network.URI()
		inbox := open(t, opts).Inbox()
		ctx, ids := t.Context(), make([]message.ID, 9)
		_, err := direct.Push(ctx, []bucket.Push{{Owner: "ann", Entries: entriesOf(0, len(ids)), Guard: true}})
		require.NoError(t, err)
		for i := range ids {
			ids[i] = messagetest.ID(i)
		}
		const deleted, lost = 3, 6
		require.NoError(t, direct.Delete(ctx, "ann", 0, ids[deleted]))
		ids[lost] = message.ID{}
		_, err = documents.UpdateMany(ctx, bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "entries.6", Value: 1}}}})
		require.NoError(t, err)
		for slot, id := range ids {
			require.NoError(t, inbox.Blank(ctx, "ann", 0, slot, id), "slot %d", slot)
			require.ErrorIs(t, direct.Blank(ctx, "ann", 0, slot, id), bucket.ErrNotFound, "slot %d", slot)
		}
		require.Positive(t, network.Lost(), "no reply was lost: this has shown nothing")
		d, err := bucket.ReadDeletions(ctx, direct, "ann", 0)
		require.NoError(t, err)
		require.EqualValues(t, len(ids), d.Total)
	})
}

// TestPushedTombstoneDocument compares a bucket with a pushed tombstone with one in which an entry was deleted.
func TestPushedTombstoneDocument(t *testing.T) {
	t.Parallel()
	db, opts, _ := metered(t, nil)
	ctx, inbox := t.Context(), db.Inbox()
	for name, test := range map[string]struct {
		before []bucket.Entry
		push   bucket.Push
	}{
		"new":    {nil, bucket.Push{Guard: true}},
		"newest": {entriesOf(1, 3), bucket.Push{Guard: true}},
		"late":   {nil, bucket.Push{Sequence: 1, Create: true, Floor: messagetest.ID(100)}},
	} {
		var documents []bson.M
		for _, push := range []bool{true, false} {
			owner := message.UserID(fmt.Sprint(name, push))
			if test.before != nil {
				_, err := inbox.Push(ctx, []bucket.Push{{Owner: owner, Entries: test.before, Guard: true}})
				require.NoError(t, err)
			}
			p := test.push
			p.Owner, p.Entries = owner, entriesOf(50, 1)
			p.Entries[0].Deleted = push
			outcomes, err := inbox.Push(ctx, []bucket.Push{p})
			require.NoError(t, err)
			require.True(t, outcomes[0].Applied)
			require.NoError(t, inbox.Delete(ctx, owner, p.Sequence, p.Entries[0].ID))
			fields := bson.M{}
			for _, e := range documentIn(t, opts, "inbox", bson.D{{Key: "owner", Value: owner}}) {
				fields[e.Key] = e.Value
			}
			delete(fields, "owner")
			documents = append(documents, fields)
		}
		require.Equal(t, documents[1], documents[0], name)
	}
}

// TestPushTombstonesWithBadReplies appends tombstones through a network that loses replies to updates which have been applied, or doubts
// them. Each is there once, and counts once.
func TestPushTombstonesWithBadReplies(t *testing.T) {
	t.Parallel()
	badly(t, func(t *testing.T, doubts bool) {
		t.Helper()
		_, opts := create(t)
		network := badReplies(t, opts.URI, 3, doubts)
		opts.URI = network.URI()
		db := open(t, opts)
		appender := bucket.NewAppender(db.Inbox(), noHints{})
		const before, count = bucket.Capacity - 6, 12 // tombstones go into two buckets
		_, err := appender.Append(t.Context(), []bucket.Append{{Owner: "ann", Entries: entriesOf(0, before)}})
		require.NoError(t, err)
		for _, e := range entriesOf(before, count) {
			e.Deleted = true
			results, err := appender.Append(t.Context(), []bucket.Append{{Owner: "ann", Entries: []bucket.Entry{e}}})
			require.NoError(t, err)
			require.NoError(t, results[0].Err)
		}
		require.Positive(t, network.Lost(), "no reply was lost: this has shown nothing")
		buckets, d, err := db.Inbox().Newest(t.Context(), "ann", 0, 9, 0)
		require.NoError(t, err)
		require.EqualValues(t, count, d.Total)
		var want, got []bucket.Tombstone
		for i := before; i < before+count; i++ {
			want = append(want, bucket.Tombstone{Sequence: uint32(i / bucket.Capacity), Slot: i % bucket.Capacity, Position: int64(i), ID: messagetest.ID(i)})
		}
		for _, b := range buckets {
			for slot, e := range b.Entries {
				if e.Deleted {
					got = append(got, bucket.Tombstone{Sequence: b.Sequence, Slot: slot, Position: db.Inbox().Size().Position(b.Sequence, slot), ID: e.ID})
				}
			}
		}
		require.ElementsMatch(t, want, got)
		require.ElementsMatch(t, want, d.Recent)
	})
}
