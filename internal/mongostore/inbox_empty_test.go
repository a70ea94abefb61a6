//go:build mongodb

package mongostore_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestEmptiedDocuments compares what emptying leaves, and the commands that empty, with golden files.
func TestEmptiedDocuments(t *testing.T) {
	t.Parallel()
	db, opts, meter := metered(t, nil)
	ctx, inbox := t.Context(), db.Inbox()
	entries := entriesOf(1, 53)
	entries[51].ContentType, entries[51].Attrs, entries[51].Recovered = "text/plain", []byte(`{"a":1}`), true
	results, err := bucket.NewAppender(inbox, noHints{}).Append(ctx, []bucket.Append{{Owner: "ann", Entries: entries}})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	require.NoError(t, bucket.Delete(ctx, inbox, "ann", bucket.Hint{}, messagetest.ID(2)))
	require.NoError(t, inbox.Delete(ctx, "ann", 1, messagetest.ID(51)))
	meter.take()
	freed, err := inbox.Empty(ctx, "ann", 0, 1, messagetest.ID(52))
	require.NoError(t, err)
	require.Equal(t, []int{2, 1, 50}, []int{freed.Buckets, freed.Stubs, freed.Entries})
	updates := bson.A{}
	for _, command := range meter.sent {
		values, err := command.Lookup("updates").Array().Values()
		require.NoError(t, err)
		for _, v := range values {
			updates = append(updates, v)
		}
	}
	requireGolden(t, "empties.golden.json", bson.D{{Key: "updates", Value: updates}})
	at := func(sequence int) bson.D {
		return documentIn(t, opts, "inbox", bson.D{{Key: "owner", Value: "ann"}, {Key: "sequence", Value: sequence}})
	}
	requireGolden(t, "bucket_stub.golden.json", at(0))
	requireGolden(t, "bucket_emptied.golden.json", at(1))
}

// TestEmptyCosts counts the commands of emptying. A repetition sends no update.
func TestEmptyCosts(t *testing.T) {
	t.Parallel()
	db, _, meter := metered(t, nil)
	ctx, inbox := t.Context(), db.Inbox()
	_, err := bucket.NewAppender(inbox, noHints{}).Append(ctx, []bucket.Append{{Owner: "ann", Entries: entriesOf(1, 520)}})
	require.NoError(t, err)
	for _, want := range []cost{{Finds: 1, Documents: 11, Updates: 1}, {Finds: 1, Documents: 1}} {
		meter.take()
		_, err = inbox.Empty(ctx, "ann", 0, 10, messagetest.ID(510))
		require.NoError(t, err)
		require.Equal(t, want, meter.take())
	}
}

// TestEmptyDamagedBuckets empties buckets that no store would leave. What is not an entry with an id that has expired stays as it is.
func TestEmptyDamagedBuckets(t *testing.T) {
	t.Parallel()
	db, opts, _ := metered(t, nil)
	ctx, inbox, documents := t.Context(), db.Inbox(), raw(t, opts).Collection("inbox")
	_, err := bucket.NewAppender(inbox, noHints{}).Append(ctx, []bucket.Append{{Owner: "ann", Entries: entriesOf(1, 60)}})
	require.NoError(t, err)
	require.NoError(t, inbox.Blank(ctx, "ann", 1, 0, messagetest.ID(51)))
	head := bson.D{{Key: "owner", Value: "ann"}, {Key: "sequence", Value: 1}}
	_, err = documents.UpdateOne(ctx, head, bson.D{{Key: "$unset", Value: bson.D{{Key: "entries.2", Value: 1}}}})
	require.NoError(t, err)
	_, err = documents.UpdateOne(ctx, head, bson.D{{Key: "$set", Value: bson.D{{Key: "entries.4", Value: bson.D{}}}}})
	require.NoError(t, err)
	lost := bson.D{{Key: "$pop", Value: bson.D{{Key: "entries", Value: 1}}}, {Key: "$set", Value: bson.D{{Key: "slots", Value: 49}}}}
	_, err = documents.UpdateOne(ctx, bson.D{{Key: "owner", Value: "ann"}, {Key: "sequence", Value: 0}}, lost)
	require.NoError(t, err)
	freed, err := inbox.Empty(ctx, "ann", 0, 1, messagetest.ID(57))
	require.NoError(t, err)
	require.Equal(t, []int{2, 0, 49 + 4}, []int{freed.Buckets, freed.Stubs, freed.Entries}, "a bucket that has lost a slot is not full")
	buckets, err := bucket.ReadSection(ctx, inbox, bucket.Section{Owner: "ann", High: 1}, bucket.AllFields)
	require.NoError(t, err)
	for slot, want := range map[int]bucket.Entry{
		0: {Deleted: true}, 1: {ID: messagetest.ID(52), Expired: true}, 2: {}, 3: {ID: messagetest.ID(54), Expired: true}, 4: {},
		6: {ID: messagetest.ID(57), Expired: true}, 7: bucket.EntryOf(messagetest.Message(58, "author")),
	} {
		require.Equal(t, want, buckets[0].Entries[slot], "slot %d", slot)
	}
	require.NoError(t, inbox.Blank(ctx, "ann", 0, 49, message.ID{}))
	freed, err = inbox.Empty(ctx, "ann", 0, 0, messagetest.ID(57))
	require.NoError(t, err)
	require.Equal(t, 1, freed.Stubs, "it was mended")
}
