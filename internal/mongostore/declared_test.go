//go:build mongodb

package mongostore_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// TestDeclaredDocuments compares buckets with a decl, and the updates that make and change them, with golden files.
func TestDeclaredDocuments(t *testing.T) {
	t.Parallel()
	db, opts, meter := metered(t, func(o *mongostore.Options) { o.BucketSize = 3 })
	ctx, inbox := t.Context(), db.Inbox()
	facets := []attribute.Facet{1 << 48, 2<<48 | 1<<46 | 7}
	for _, push := range []bucket.Push{
		{Decl: 2, Facets: facets, Entries: entriesOf(1, 2), Guard: true},
		{Decl: 2, Facets: facets[:1], Entries: entriesOf(3, 1), Guard: true},
		{Sequence: 1, Decl: 7, Facets: facets, Entries: entriesOf(4, 1), Create: true, Floor: messagetest.ID(3)},
		{Sequence: 1, Decl: 7, Entries: []bucket.Entry{{ID: messagetest.ID(5), Deleted: true}}},
		{Sequence: 1, Decl: 7, Facets: facets[1:], Entries: entriesOf(6, 1), Guard: true},
	} {
		push.Owner = "ann"
		outcomes, err := inbox.Push(ctx, []bucket.Push{push})
		require.NoError(t, err)
		require.True(t, outcomes[0].Applied)
	}
	at := func(sequence int) bson.D {
		return documentIn(t, opts, "inbox", bson.D{{Key: "owner", Value: "ann"}, {Key: "sequence", Value: sequence}})
	}
	requireGolden(t, "bucket_declared.golden.json", at(1))
	_, err := inbox.Empty(ctx, "ann", 0, 1, messagetest.ID(4))
	require.NoError(t, err)
	requireGolden(t, "bucket_declared_stub.golden.json", at(0))
	requireGolden(t, "bucket_declared_emptied.golden.json", at(1))
	updates := bson.A{}
	for _, command := range meter.sent {
		values, err := command.Lookup("updates").Array().Values()
		require.NoError(t, err)
		for _, v := range values {
			updates = append(updates, v)
		}
	}
	requireGolden(t, "pushes_declared.golden.json", bson.D{{Key: "updates", Value: updates}})
}

// TestDeclOfHints keeps the decl of a hint, so that a push onto a bucket with one needs no look.
func TestDeclOfHints(t *testing.T) {
	t.Parallel()
	db, opts, meter := metered(t, nil)
	ctx := t.Context()
	_, err := db.Users().Step(ctx, []userstate.Step{{From: userstate.State{User: "ann"}, To: userstate.State{User: "ann", LastViewed: messagetest.Epoch}}})
	require.NoError(t, err)
	known := attribute.NewSet(3, []attribute.Declaration{{Name: "n", Type: attribute.Number, Number: 3}})
	appender := bucket.NewAppender(db.Inbox(), db.Users()).WithDeclarations(func() attribute.Set { return known }, nil)
	for n := range 60 {
		looked, err := db.Users().Lookup(ctx, []message.UserID{"ann"})
		require.NoError(t, err)
		meter.take()
		e := entriesOf(n, 1)
		e[0].Attrs = []byte(`{"n":1}`)
		results, err := appender.Append(ctx, []bucket.Append{{Owner: "ann", Hint: looked[0].State.Head, Entries: e}})
		require.NoError(t, err)
		require.Equal(t, 1, results[0].New)
		if n != bucket.Capacity {
			require.Equal(t, cost{Updates: 1}, meter.take(), "message %d", n)
		}
	}
	looked, err := db.Users().Lookup(ctx, []message.UserID{"ann"})
	require.NoError(t, err)
	require.Equal(t, bucket.Hint{Sequence: 1, Decl: 3, Floor: messagetest.ID(49)}, looked[0].State.Head)
	requireGolden(t, "user_declared.golden.json", documentIn(t, opts, "users", bson.D{{Key: "_id", Value: "ann"}}))
	require.NoError(t, db.Users().RaiseHeads(ctx, []bucket.Head{{Owner: "ann", Hint: bucket.Hint{Sequence: 1, Floor: messagetest.ID(49)}}}))
	looked, err = db.Users().Lookup(ctx, []message.UserID{"ann"})
	require.NoError(t, err)
	require.Equal(t, 3, looked[0].State.Head.Decl, "a hint that says less changes nothing")
}

// TestIndexOfALargeInbox finds few buckets of many, in a bounded number of queries, each of a bounded range of sequences.
func TestIndexOfALargeInbox(t *testing.T) {
	t.Parallel()
	db, opts, meter := metered(t, nil)
	const buckets, wanted = 6000, 7
	documents := make([]any, buckets)
	for sequence := range documents {
		facets := bson.A{int64(1<<48 + sequence)}
		if sequence%2000 == 1 {
			facets = append(facets, int64(wanted))
		}
		documents[sequence] = bson.D{
			{Key: "owner", Value: "ann"},
			{Key: "sequence", Value: int64(sequence)},
			{Key: "v", Value: 1},
			{Key: "decl", Value: 1},
			{Key: "slots", Value: 1},
			{Key: "facets", Value: facets},
			{Key: "entries", Value: bson.A{bson.D{{Key: "id", Value: stored(messagetest.ID(sequence + 1))}}}},
			{Key: "last", Value: stored(messagetest.ID(sequence + 1))},
		}
	}
	_, err := raw(t, opts).Collection("inbox").InsertMany(t.Context(), documents)
	require.NoError(t, err)
	find := func(ranges []attribute.FacetRange, low, high uint32, limit int) (found []uint32) {
		meter.take()
		all, err := db.Inbox().WithFacets(t.Context(), "ann", ranges, low, high, limit)
		require.NoError(t, err)
		for _, b := range all {
			found = append(found, b.Sequence)
		}
		return found
	}
	point := []attribute.FacetRange{{Low: 5, High: 5}, {Low: wanted, High: wanted}}
	require.Equal(t, []uint32{4001, 2001, 1}, find(point, 0, math.MaxUint32, 10))
	require.LessOrEqual(t, meter.take().Finds, 13)
	require.Equal(t, []uint32{4001, 2001, 1}, find(point, 0, buckets-1, 10))
	require.Equal(t, cost{Finds: 4, Documents: 3}, meter.take())
	require.Equal(t, []uint32{4001}, find(point, 0, buckets-1, 1))
	require.Equal(t, []uint32{2001}, find(point, 2, 4000, 10))
	require.Empty(t, find(point, 2, 2000, 10))
	between := []attribute.FacetRange{{Low: 1<<48 + 3000, High: 1<<48 + 3002}}
	require.Equal(t, []uint32{3002, 3001, 3000}, find(between, 0, buckets-1, 10))
	require.Equal(t, []uint32{3002, 3001}, find(between, 0, buckets-1, 2))
	require.Equal(t, []uint32{3001, 3000}, find(between, 3000, 3001, 2))
}
