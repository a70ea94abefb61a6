//go:build mongodb

package mongostore_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// documentIn returns the document of a collection that a filter finds. What differs from run to run is replaced.
func documentIn(t *testing.T, opts mongostore.Options, collection string, filter bson.D) bson.D {
	t.Helper()
	var document bson.D
	require.NoError(t, raw(t, opts).Collection(collection).FindOne(t.Context(), filter).Decode(&document))
	return settled(document)
}

// settled replaces object ids, the epoch, and the time when a record was removed, which no two runs have in common.
func settled(document bson.D) bson.D {
	for i, e := range document {
		switch value := e.Value.(type) {
		case int64:
			if e.Key == "epoch" {
				document[i].Value = "a random number"
			}
		case bson.DateTime:
			if e.Key == "gone" || e.Key == "seen" {
				document[i].Value = "a time"
			}
		case bson.ObjectID:
			document[i].Value = "an object id"
		case bson.D:
			document[i].Value = settled(value)
		case bson.A:
			for k, item := range value {
				if nested, ok := item.(bson.D); ok {
					value[k] = settled(nested)
				}
			}
		}
	}
	return document
}

// TestDocuments pins the stored form of documents. Later releases must read them, so a golden file is never edited, and a
// new format gets a new version and files beside these.
func TestDocuments(t *testing.T) {
	t.Parallel()
	_, opts := create(t)
	at := messagetest.Epoch
	opts.Stamp = func() time.Time { return at.Add(7 * time.Millisecond) }
	db := open(t, opts)
	ctx := t.Context()

	m := message.Message{
		ID: messagetest.ID(5), From: "ann", To: []message.UserID{"ben", "zoë"}, Audience: message.AudienceFollowers,
		Body: "hi", ContentType: "text/plain", Attrs: json.RawMessage(`{"a":1.50}`),
	}
	_, err := db.Messages().Insert(ctx, []message.Message{m, messagetest.Message(6, "ann")}, messagetest.AnyTime)
	require.NoError(t, err)
	requireGolden(t, "message_valid.golden.json", documentIn(t, opts, "messages", bson.D{{Key: "body", Value: "hi"}}))
	require.NoError(t, db.Messages().Conclude(ctx, []message.Ending{
		{Ref: message.Ref{From: "ann", ID: messagetest.ID(6)}, Lane: "bulk", Delivered: 5, Skipped: 6, GivenUp: 1, Closed: 7},
	}))
	requireGolden(t, "message_concluded.golden.json", documentIn(t, opts, "messages", bson.D{{Key: "body", Value: "message 6"}}))
	late, future := messagetest.Message(7, "ann"), messagetest.Message(8, "ann")
	_, err = db.Messages().Insert(ctx, []message.Message{late}, message.Timing{Slack: -time.Millisecond})
	require.NoError(t, err)
	requireGolden(t, "message_late.golden.json", documentIn(t, opts, "messages", bson.D{{Key: "body", Value: late.Body}}))
	_, err = db.Messages().Insert(ctx, []message.Message{future}, message.Timing{})
	require.NoError(t, err)
	requireGolden(t, "message_future.golden.json", documentIn(t, opts, "messages", bson.D{{Key: "body", Value: future.Body}}))

	topical := messagetest.Message(9, "ann")
	topical.Blocked = 3
	topical.Topics = []message.Topic{message.Topic("go/errors"), message.Topic("news")}
	_, err = db.Messages().Insert(ctx, []message.Message{topical}, messagetest.AnyTime)
	require.NoError(t, err)
	requireGolden(t, "message_topical.golden.json", documentIn(t, opts, "messages", bson.D{{Key: "body", Value: topical.Body}}))

	user := userstate.State{
		User: "ann", LastViewed: at, Horizon: at.Add(30 * 24 * time.Hour), Mark: &userstate.Mark{From: at.Add(-time.Hour), Bounded: true}, Sweep: &userstate.Sweep{From: at.Add(-time.Minute)},
		Lease:     userstate.Lease{Token: "token", Until: at.Add(time.Minute), Since: at.Add(-time.Second)},
		Gaps:      []userstate.Gap{{After: at.Add(-3 * time.Hour), Before: at.Add(-2 * time.Hour), Messages: 12}},
		Recovered: 34,
		ReadMark:  bucket.ReadMark{UpTo: messagetest.ID(120), Sequence: 2, Slots: 170, Gaps: 2, Read: 120, InGap: 1},
	}
	_, err = db.Users().Step(ctx, []userstate.Step{
		{From: userstate.State{User: "ann"}, To: user},
		{From: userstate.State{User: "ben"}, To: storetest.Seen("ben", at, 30*24*time.Hour)},
		{From: userstate.State{User: "eva"}, To: userstate.State{User: "eva", LastViewed: at, Horizon: at, Purged: messagetest.ID(120), Oldest: 2}},
		{From: userstate.State{User: "kim"}, To: userstate.State{User: "kim", LastViewed: at, Horizon: at, Keep: userstate.Retention{MaxAge: 90 * 24 * time.Hour, Newest: 100}}},
		{From: userstate.State{User: "leo"}, To: userstate.State{User: "leo", Keep: userstate.Retention{Newest: 1}}},
		{From: userstate.State{User: "mia"}, To: userstate.State{User: "mia", LastViewed: at, Horizon: at, Flagged: true, Seen: 70, Marks: 3, GapsMade: 2}},
	})
	require.NoError(t, err)
	require.NoError(t, db.Users().RaiseHeads(ctx, []bucket.Head{{Owner: "ann", Hint: bucket.Hint{Sequence: 3, Floor: messagetest.ID(150)}}}))
	requireGolden(t, "user.golden.json", documentIn(t, opts, "users", bson.D{{Key: "_id", Value: "ann"}}))
	requireGolden(t, "user_bare.golden.json", documentIn(t, opts, "users", bson.D{{Key: "_id", Value: "ben"}}))
	requireGolden(t, "user_purged.golden.json", documentIn(t, opts, "users", bson.D{{Key: "_id", Value: "eva"}}))
	requireGolden(t, "user_kept.golden.json", documentIn(t, opts, "users", bson.D{{Key: "_id", Value: "kim"}}))
	requireGolden(t, "user_kept_unseen.golden.json", documentIn(t, opts, "users", bson.D{{Key: "_id", Value: "leo"}}))
	requireGolden(t, "user_flagged.golden.json", documentIn(t, opts, "users", bson.D{{Key: "_id", Value: "mia"}}))

	_, err = db.Flags().Replace(ctx, flag.Record{
		Owner: "mia", Revision: 1, MessagesAt: 1, DroppedAt: 0,
		Buckets:  []flag.Bucket{{Sequence: 2, At: 1, Read: 1, Archived: 3}},
		Messages: []flag.Message{{ID: messagetest.ID(1), Flags: flag.Read | flag.Archived}},
	})
	require.NoError(t, err)
	requireGolden(t, "flags.golden.json", documentIn(t, opts, "flags", bson.D{}))

	_, err = db.Topics().Step(ctx, []topic.Change{
		{From: topic.Record{Topic: "news"}, To: topic.Record{Topic: "news", Number: 1 << 62, InForce: true, Mark: 7}},
		{From: topic.Record{Topic: "old/zoë"}, To: topic.Record{Topic: "old/zoë", Number: 5, Parent: 1 << 62}},
		{From: topic.Record{Topic: "past"}, To: topic.Record{Topic: "past", Number: 6, InForce: true, Mark: 7}},
	})
	require.NoError(t, err)
	_, err = db.Topics().Step(ctx, []topic.Change{{From: topic.Record{Topic: "past", Number: 6, InForce: true, Mark: 7}, To: topic.Record{Topic: "past"}}})
	require.NoError(t, err)
	requireGolden(t, "topic.golden.json", documentIn(t, opts, "topics", bson.D{{Key: "root", Value: "news"}}))
	requireGolden(t, "topic_inserted.golden.json", documentIn(t, opts, "topics", bson.D{{Key: "root", Value: "old"}}))
	requireGolden(t, "topic_removed.golden.json", documentIn(t, opts, "topics", bson.D{{Key: "root", Value: "past"}}))

	pair := follow.Pair{Follower: "ben", Followee: "ann"}
	_, err = db.Edges().Follow(ctx, []follow.Pair{pair}, at)
	require.NoError(t, err)
	require.NoError(t, db.Edges().Unfollow(ctx, pair, at.Add(time.Hour)))
	_, err = db.Edges().Follow(ctx, []follow.Pair{pair}, at.Add(2*time.Hour))
	require.NoError(t, err)
	requireGolden(t, "follower.golden.json", documentIn(t, opts, "followers", bson.D{{Key: "followee", Value: "ann"}}))
	requireGolden(t, "following.golden.json", documentIn(t, opts, "following", bson.D{{Key: "follower", Value: "ben"}}))
	news := message.Topic("news/zoë").Source()
	_, err = db.Edges().Subscribe(ctx, []follow.Subscription{{Pair: follow.Pair{Follower: "eve", Followee: news}, Number: 1 << 62}}, at)
	require.NoError(t, err)
	requireGolden(t, "subscriber.golden.json", documentIn(t, opts, "followers", bson.D{{Key: "followee", Value: news}}))
	requireGolden(t, "subscription.golden.json", documentIn(t, opts, "following", bson.D{{Key: "follower", Value: "eve"}}))

	_, err = db.Progress().Plan(ctx, m.ID, "medium", []int{0, 13}, at)
	require.NoError(t, err)
	to := progress.Scan{}.Join("ben").Advance("zoë", false, progress.Counts{Delivered: 5, Skipped: 6})
	_, err = db.Progress().Step(ctx, []progress.Move{{ID: m.ID, Partition: 13, To: to}}, at.Add(time.Second))
	require.NoError(t, err)
	requireGolden(t, "fanout.golden.json", documentIn(t, opts, "fanouts", bson.D{}))
	dead := progress.Scan{Dead: true}
	other := messagetest.ID(6)
	_, err = db.Progress().Plan(ctx, other, "medium", []int{0}, at)
	require.NoError(t, err)
	_, err = db.Progress().Step(ctx, []progress.Move{{ID: other, To: dead}}, at)
	require.NoError(t, err)
	_, err = db.Progress().Step(ctx, []progress.Move{{ID: other, From: dead, To: dead.GiveUp()}}, at)
	require.NoError(t, err)
	requireGolden(t, "fanout_given_up.golden.json", documentIn(t, opts, "fanouts", bson.D{{Key: "partitions.0.given_up", Value: true}}))

	_, err = db.Keys().Reserve(ctx, message.Key{From: "ann", Key: "order 17", ID: m.ID, Digest: m.Digest(), Expires: at.Add(24 * time.Hour)}, at)
	require.NoError(t, err)
	requireGolden(t, "key.golden.json", documentIn(t, opts, "publish_keys", bson.D{}))

	joe := identity.Record{Identity: identity.Identity{Kind: identity.Email, Value: "zoë@example.com"}, User: "ann", Form: 1, Since: at}
	looked, err := db.Identities().Insert(ctx, []identity.Record{joe})
	require.NoError(t, err)
	requireGolden(t, "identity_claimed.golden.json", documentIn(t, opts, "identities", bson.D{}))
	_, err = db.Identities().ReplaceLists(ctx, []identity.Change{{From: identity.List{User: "ann"}, Items: []identity.Item{{Identity: joe.Identity, Number: looked[0].Record.Number}}}})
	require.NoError(t, err)
	requireGolden(t, "user_identities.golden.json", documentIn(t, opts, "user_identities", bson.D{}))
	_, err = db.Identities().Confirm(ctx, []identity.Record{looked[0].Record})
	require.NoError(t, err)
	requireGolden(t, "identity.golden.json", documentIn(t, opts, "identities", bson.D{}))
	require.NoError(t, db.Identities().Remove(ctx, looked[0].Record))
	requireGolden(t, "identity_removed.golden.json", documentIn(t, opts, "identities", bson.D{}))

	record, err := db.Settings().Load(ctx)
	require.NoError(t, err)
	require.NoError(t, db.Settings().Replace(ctx, record, settings.First(storetest.Proposed, at)))
	requireGolden(t, "meta.golden.json", documentIn(t, opts, "meta", bson.D{{Key: "_id", Value: "format"}}))
	counters := tally.Of([]int64{1, 0, 1 << 40})
	process := settings.Process{Name: "host-1", Role: "publisher", Host: "host", Version: "v1", Address: "[::1]:80", State: settings.Running, Started: at, Timeout: time.Second}
	for range 2 {
		_, err = db.Settings().Report(ctx, process)
		require.NoError(t, err)
		process.Counters = counters
	}
	requireGolden(t, "process.golden.json", documentIn(t, opts, "meta", bson.D{{Key: "_id", Value: "process:host-1"}}))
	require.NoError(t, db.Settings().ReplaceTotals(ctx, settings.Totals{}, settings.Totals{
		Base: counters, Taken: map[string]tally.Counters{"host-1": {Accepted: 1}, "a": {}},
	}))
	requireGolden(t, "totals.golden.json", documentIn(t, opts, "meta", bson.D{{Key: "_id", Value: "totals"}}))
	require.NoError(t, db.Retention().Replace(ctx, retention.Round{}, retention.Round{
		Began: at, Partition: 3, After: "zoë", Token: "host-1", Until: at.Add(time.Minute),
		Number: 7, Target: messagetest.ID(1), Missed: true, AsOf: at.Add(time.Second), Reading: at.Add(2 * time.Second), LowWater: messagetest.ID(4),
		Proven: 5, Users: retention.Census{Active: 3, Dormant: 4}, Counted: retention.Census{Active: 5, Dormant: 6},
	}))
	requireGolden(t, "walk.golden.json", documentIn(t, opts, "meta", bson.D{{Key: "_id", Value: "walk"}}))
	require.NoError(t, db.Sweep().Replace(ctx, retention.Round{}, retention.Round{Began: at, Token: "host-2", Until: at.Add(time.Minute)}))
	requireGolden(t, "ceiling.golden.json", documentIn(t, opts, "meta", bson.D{{Key: "_id", Value: "ceiling"}}))
	requireGolden(t, "sweep.golden.json", documentIn(t, opts, "meta", bson.D{{Key: "_id", Value: "sweep"}}))
}

// TestOtherFormatsAreRefused has each store come across a document of a later version, and one of none.
func TestOtherFormatsAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		version any
		want    error
	}{
		"a later version": {int32(2), mongostore.ErrFormat},
		"no version":      {"1", message.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, opts := create(t)
			ctx := t.Context()
			m := messagetest.Message(1, "ann")
			_, err := db.Messages().Insert(ctx, []message.Message{m}, messagetest.AnyTime)
			require.NoError(t, err)
			state := userstate.State{User: "ann", LastViewed: messagetest.Epoch}
			_, err = db.Users().Step(ctx, []userstate.Step{{From: userstate.State{User: "ann"}, To: state}})
			require.NoError(t, err)
			pair := follow.Pair{Follower: "ann", Followee: "ben"}
			_, err = db.Edges().Follow(ctx, []follow.Pair{pair}, messagetest.Epoch)
			require.NoError(t, err)
			_, err = db.Progress().Plan(ctx, m.ID, "medium", []int{0}, messagetest.Epoch)
			require.NoError(t, err)
			key := message.Key{From: "ann", Key: "k", ID: m.ID, Expires: messagetest.Epoch.Add(time.Hour)}
			_, err = db.Keys().Reserve(ctx, key, messagetest.Epoch)
			require.NoError(t, err)
			joe := identity.Record{Identity: identity.Identity{Kind: identity.Email, Value: "joe@example.com"}, User: "ann"}
			_, err = db.Identities().Insert(ctx, []identity.Record{joe})
			require.NoError(t, err)
			_, err = db.Identities().ReplaceLists(ctx, []identity.Change{{From: identity.List{User: "ann"}, Items: []identity.Item{{Identity: joe.Identity}}}})
			require.NoError(t, err)
			news := topic.Record{Topic: "news", Number: 1, InForce: true}
			_, err = db.Topics().Step(ctx, []topic.Change{{From: topic.Record{Topic: "news"}, To: news}})
			require.NoError(t, err)
			_, err = db.Flags().Replace(ctx, flag.Record{Owner: "ann", Revision: 1})
			require.NoError(t, err)
			for _, collection := range []string{"messages", "users", "followers", "following", "fanouts", "publish_keys", "identities", "user_identities", "topics", "flags"} {
				_, err := raw(t, opts).Collection(collection).UpdateMany(ctx, bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: test.version}}}})
				require.NoError(t, err)
			}
			for call, err := range map[string]error{
				"Get":                 failure(db.Messages().Get(ctx, m.Ref())),
				"Naming":              failure(db.Messages().ToFollowers(ctx, []message.Range{{From: "ann", Before: message.MaxID}}, message.OldestFirst, 1)),
				"Lookup":              failure(userstate.Get(ctx, db.Users(), "ann")),
				"View":                failure(db.Users().View(ctx, []userstate.View{{User: "ann", At: messagetest.Epoch}})),
				"Step":                failure(db.Users().Step(ctx, []userstate.Step{{From: state, To: state}})),
				"Edge":                failure(db.Edges().Get(ctx, []follow.Pair{pair})),
				"Follow":              failure(db.Edges().Follow(ctx, []follow.Pair{pair}, messagetest.Epoch)),
				"List":                failure(db.Edges().Following(ctx, "ann", "", 1)),
				"Scans":               failure(db.Progress().Get(ctx, m.ID)),
				"GetMany of progress": failure2(db.Progress().GetMany(ctx, []message.ID{m.ID})),
				"GetMany of messages": foundError(db.Messages().GetMany(ctx, []message.Ref{m.Ref()})),
				"Plan":                failure(db.Progress().Plan(ctx, m.ID, "medium", nil, messagetest.Epoch)),
				"identities":          lookedError(db.Identities().Lookup(ctx, []identity.Identity{joe.Identity})),
				"lists of identities": listError(db.Identities().Lists(ctx, []message.UserID{"ann"})),
				"Flags":               failure(flag.Get(ctx, db.Flags(), "ann")),
				"Replace":             failure(db.Flags().Replace(ctx, flag.Record{Owner: "ann", Revision: 2})),
				"Topics":              failure(db.Topics().List(ctx, "news", "", 1)),
				"Key":                 failure(db.Keys().Reserve(ctx, key, messagetest.Epoch)),
			} {
				require.ErrorIs(t, err, test.want, call)
			}
		})
	}
}

func failure[T any](_ T, err error) error { return err }

func failure2[T, U any](_ T, _ U, err error) error { return err }

func lookedError(looked []identity.Looked, err error) error {
	if err != nil {
		return err
	}
	return looked[0].Err
}

func listError(looked []identity.LookedList, err error) error {
	if err != nil {
		return err
	}
	return looked[0].Err
}

// foundError returns the error of the only message.
func foundError(found []message.Found, err error) error {
	if err != nil {
		return err
	}
	return found[0].Err
}

// TestDamagedMessageFailsAlone reads a damaged document together with sound ones.
func TestDamagedMessageFailsAlone(t *testing.T) {
	t.Parallel()
	db, opts := create(t)
	sound, damaged := messagetest.Message(1, "ann"), messagetest.Message(2, "ann")
	_, err := db.Messages().Insert(t.Context(), []message.Message{sound, damaged}, messagetest.AnyTime)
	require.NoError(t, err)
	update := bson.D{{Key: "$unset", Value: bson.D{{Key: "lag", Value: ""}}}, {Key: "$set", Value: bson.D{{Key: "ending", Value: "none"}}}}
	result, err := raw(t, opts).Collection("messages").UpdateOne(t.Context(), bson.D{{Key: "_id", Value: bson.Binary{Subtype: 4, Data: damaged.ID[:]}}}, update)
	require.NoError(t, err)
	require.Equal(t, int64(1), result.MatchedCount)
	found, err := db.Messages().GetMany(t.Context(), []message.Ref{damaged.Ref(), sound.Ref()})
	require.NoError(t, err)
	require.ErrorIs(t, found[0].Err, message.ErrCorrupt)
	require.ErrorContains(t, found[0].Err, damaged.ID.String())
	require.NoError(t, found[1].Err)
	require.Equal(t, sound, found[1].Stored.Message)
	endings, err := db.Messages().Endings(t.Context(), []message.Ref{damaged.Ref(), sound.Ref()})
	require.NoError(t, err)
	require.ErrorIs(t, endings[0].Err, message.ErrCorrupt)
	require.False(t, endings[0].Over())
	require.Equal(t, message.Ending{Ref: sound.Ref()}, endings[1])

	_, err = db.Progress().Plan(t.Context(), sound.ID, "medium", []int{0}, messagetest.Epoch)
	require.NoError(t, err)
	_, err = db.Progress().Plan(t.Context(), damaged.ID, "medium", []int{0}, messagetest.Epoch)
	require.NoError(t, err)
	_, err = raw(t, opts).Collection("fanouts").UpdateOne(t.Context(), bson.D{{Key: "_id", Value: bson.Binary{Subtype: 4, Data: damaged.ID[:]}}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "partitions", Value: 7}}}})
	require.NoError(t, err)
	plans, err := db.Progress().List(t.Context(), message.ID{}, message.MaxID, 10)
	require.NoError(t, err)
	require.Len(t, plans, 2)
	require.NoError(t, plans[0].Err)
	require.ErrorIs(t, plans[1].Err, message.ErrCorrupt)
	require.Equal(t, damaged.ID, plans[1].Fanout.ID)
}
