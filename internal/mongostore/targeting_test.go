//go:build mongodb

package mongostore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/testenv"
)

// scattering are the commands that ask every shard on purpose, by collection, command and what the filter names, and why.
var scattering = map[string]string{
	"messages find _id":               "a message by id alone: an operator or a client asks, who may not know its author; or a raise of a horizon, for any later message; or the collector goes through all messages that may be removed; or the newest are listed",
	"messages find to,_id":            "messages that name a user: their authors can be anybody",
	"messages find within,_id":        "messages of topics: their authors can be anybody",
	"messages aggregate $or,lag":      "the number of messages of topics, when a gap is counted",
	"messages aggregate $or,$nor,lag": "the same for further topics, without the messages that were counted",
	"messages find unfinished,_id":    "the sweep: looks for what was forgotten, anywhere, twice a minute",
	"followers find follower,pending": "edges of a user that a call left half written: the user may have come back, and any author may be at the other end",
	"followers find _id":              "the collector goes through all edges, once a day",
	"users find due":                  "the reaper: looks for rehydrations that nobody is at, anywhere",
	"users find partition,_id":        "audit goes through all users",
	"fanouts find _id":                "plans of all messages up to an id, to end those that are over",
	"topics find _id,gone":            "topics of all roots, for a list that does not say under which",
	"publish_keys find expires":       "publishers remove what has expired, anywhere, once a minute",
}

// watch sees to it that every command to a sharded collection names its shard key, or is listed, and that no document has a key twice, which
// MongoDB refuses.
type watch struct {
	mu        sync.Mutex
	doubled   []string
	unlisted  []string
	scattered map[string]bool
}

// watched returns a monitor that fails a test, when it is over, for each command that leaves out the shard key.
func watched(tb testing.TB) (*event.CommandMonitor, *watch) {
	tb.Helper()
	w := &watch{scattered: make(map[string]bool)}
	tb.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.Empty(tb, w.doubled, "these documents have a key twice")
		assert.Empty(tb, w.unlisted, "these commands leave out the shard key: name it, or list them as scattering")
	})
	keys := mongostore.ShardKeys()
	return &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) { w.see(keys, e.Command) }}, w
}

func (w *watch) see(keys map[string]bson.D, command bson.Raw) {
	if path := keyTwice(command); path != "" {
		w.mu.Lock()
		w.doubled = append(w.doubled, path)
		w.mu.Unlock()
	}
	for _, missing := range untargeted(keys, command) {
		w.mu.Lock()
		if _, ok := scattering[missing]; ok {
			w.scattered[missing] = true
		} else if !slices.Contains(w.unlisted, missing) {
			w.unlisted = append(w.unlisted, missing)
		}
		w.mu.Unlock()
	}
}

// keyTwice returns the path of a key that a document has twice, at any depth, or "".
func keyTwice(document bson.Raw) string {
	elements, err := document.Elements()
	if err != nil {
		return ""
	}
	seen := make(map[string]bool)
	for _, e := range elements {
		if seen[e.Key()] {
			return e.Key()
		}
		seen[e.Key()] = true
		within, ok := e.Value().DocumentOK()
		if !ok {
			array, _ := e.Value().ArrayOK()
			within = bson.Raw(array)
		}
		if path := keyTwice(within); path != "" {
			return e.Key() + "." + path
		}
	}
	return ""
}

// untargeted returns the operations of a command whose filters do not say which shard to ask.
func untargeted(keys map[string]bson.D, command bson.Raw) (missing []string) {
	elements, err := command.Elements()
	if err != nil || len(elements) == 0 {
		return nil
	}
	name := elements[0].Key()
	collection, _ := elements[0].Value().StringValueOK()
	key, ok := keys[collection]
	if !ok {
		return nil
	}
	report := func(filter bson.Raw, whole bool) {
		if !targets(filter, key, whole) {
			missing = append(missing, fmt.Sprintf("%s %s %s", collection, name, strings.Join(names(filter), ",")))
		}
	}
	switch name {
	case "find":
		report(document(command, "filter"), false)
	case "count":
		report(document(command, "query"), false)
	case "findAndModify":
		report(document(command, "query"), true)
	case "aggregate":
		report(document(command, "pipeline", "0", "$match"), false)
		for _, stage := range documents(command, "pipeline") {
			if union := document(stage, "$unionWith"); union != nil {
				report(document(union, "pipeline", "0", "$match"), false)
			}
		}
	case "update":
		for _, update := range documents(command, "updates") {
			many, _ := update.Lookup("multi").BooleanOK()
			report(document(update, "q"), !many)
		}
	case "delete":
		for _, deletion := range documents(command, "deletes") {
			limit, _ := deletion.Lookup("limit").AsInt64OK()
			report(document(deletion, "q"), limit == 1)
		}
	case "insert":
		for _, inserted := range documents(command, "documents") {
			report(inserted, true)
		}
	}
	return missing
}

// targets reports whether a filter names a shard key: all of it, or at least what it begins with. A hashed field has to be equal to
// something, or to be one of several; ranges of it say nothing.
func targets(filter bson.Raw, key bson.D, whole bool) bool {
	if !whole {
		key = key[:1]
	}
	if branches, ok := filter.Lookup("$or").ArrayOK(); ok {
		values, err := branches.Values()
		return err == nil && len(values) > 0 && !slices.ContainsFunc(values, func(v bson.RawValue) bool {
			branch, ok := v.DocumentOK()
			return !ok || !targets(branch, key, whole)
		})
	}
	for _, field := range key {
		value := filter.Lookup(field.Key)
		if value.IsZero() {
			return false
		}
		if operators, ok := value.DocumentOK(); ok && operators.Lookup("$in").IsZero() && operators.Lookup("$eq").IsZero() {
			return false
		}
	}
	return true
}

func document(command bson.Raw, path ...string) bson.Raw {
	found, _ := command.Lookup(path...).DocumentOK()
	return found
}

func documents(command bson.Raw, field string) (found []bson.Raw) {
	array, ok := command.Lookup(field).ArrayOK()
	if !ok {
		return nil
	}
	values, err := array.Values()
	if err != nil {
		return nil
	}
	for _, v := range values {
		found = append(found, v.Document())
	}
	return found
}

// names returns what a filter names.
func names(filter bson.Raw) (names []string) {
	elements, _ := filter.Elements()
	for _, e := range elements {
		names = append(names, e.Key())
	}
	return names
}

func TestUntargeted(t *testing.T) {
	t.Parallel()
	keys := map[string]bson.D{"edges": {{Key: "a", Value: 1}, {Key: "b", Value: 1}}, "hashed": {{Key: "_id", Value: "hashed"}}}
	for _, test := range []struct {
		command string
		want    []string
	}{
		{`{"find": "edges", "filter": {"a": 1}}`, nil},
		{`{"find": "edges", "filter": {"b": 1}}`, []string{"edges find b"}},
		{`{"find": "edges", "filter": {}}`, []string{"edges find "}},
		{`{"find": "edges"}`, []string{"edges find "}},
		{`{"find": "edges", "filter": {"a": {"$in": [1, 2]}, "b": {"$gt": 1}}}`, nil},
		{`{"find": "edges", "filter": {"a": {"$gt": 1}}}`, []string{"edges find a"}},
		{`{"find": "edges", "filter": {"$or": [{"a": 1}, {"a": 2, "b": 3}]}}`, nil},
		{`{"find": "edges", "filter": {"$or": [{"a": 1}, {"b": 3}]}}`, []string{"edges find $or"}},
		{`{"find": "other", "filter": {"b": 1}}`, nil},
		{`{"find": "hashed", "filter": {"_id": {"$gt": 1}}}`, []string{"hashed find _id"}},
		{`{"aggregate": "edges", "pipeline": [{"$match": {"b": 1}}]}`, []string{"edges aggregate b"}},
		{`{"aggregate": "edges", "pipeline": [{"$match": {"a": 1}}]}`, nil},
		{`{"aggregate": "edges", "pipeline": [{"$match": {"a": 1}}, {"$unionWith": {"coll": "edges", "pipeline": [{"$match": {"b": 1}}]}}]}`, []string{"edges aggregate b"}},
		{`{"aggregate": "edges", "pipeline": [{"$match": {"a": 1}}, {"$unionWith": {"coll": "edges", "pipeline": [{"$match": {"a": 1}}]}}]}`, nil},
		{`{"findAndModify": "edges", "query": {"a": 1}}`, []string{"edges findAndModify a"}},
		{`{"findAndModify": "edges", "query": {"a": 1, "b": 2}}`, nil},
		{`{"update": "edges", "updates": [{"q": {"a": 1, "b": 2}}, {"q": {"b": 2}}, {"q": {"a": 1}}]}`, []string{"edges update b", "edges update a"}},
		{`{"update": "edges", "updates": [{"q": {"a": 1}, "multi": true}]}`, nil},
		{`{"delete": "edges", "deletes": [{"q": {"a": 1}, "limit": 0}, {"q": {"a": 1}, "limit": 1}]}`, []string{"edges delete a"}},
		{`{"insert": "edges", "documents": [{"a": 1, "b": 2}, {"a": 1}]}`, []string{"edges insert a"}},
	} {
		var command bson.Raw
		require.NoError(t, bson.UnmarshalExtJSON([]byte(test.command), false, &command), test.command)
		require.Equal(t, test.want, untargeted(keys, command), test.command)
	}
}

// TestScattering carries out what scatters on purpose, and finds all of it, so that the list has nothing that is not so.
func TestScattering(t *testing.T) {
	t.Parallel()
	uri, database := testenv.MongoDB(t)
	opts := testOptions(t, uri, database)
	monitor, seen := watched(t)
	opts.Monitor = monitor
	require.NoError(t, connect(t, opts).Init(t.Context(), false))
	db := open(t, opts)
	ctx := t.Context()
	_, err := db.Messages().Get(ctx, message.Ref{ID: messagetest.ID(1)})
	require.ErrorIs(t, err, message.ErrNotFound)
	_, err = db.Messages().Naming(ctx, "ann", message.ID{}, message.MaxID, message.NewestFirst, 1)
	require.NoError(t, err)
	ofTopic := []message.Range{{From: message.Topic("news").Source(), Before: message.MaxID}}
	_, err = db.Messages().ToFollowers(ctx, ofTopic, message.NewestFirst, 1)
	require.NoError(t, err)
	for _, name := range numbered(500) { // more than one query takes
		ofTopic = append(ofTopic, message.Range{From: message.Topic(name).Source(), Before: message.MaxID})
	}
	_, err = db.Messages().CountToFollowers(ctx, ofTopic)
	require.NoError(t, err)
	_, err = db.Messages().Unfinished(ctx, message.ID{}, message.MaxID, 1)
	require.NoError(t, err)
	_, _, err = db.Messages().Newest(ctx, "", message.MaxID, 1)
	require.NoError(t, err)
	_, err = db.Edges().Following(ctx, "ann", "", 1)
	require.NoError(t, err)
	_, err = db.Edges().Count(ctx, []message.UserID{"ann"}, 1)
	require.NoError(t, err)
	_, _, err = db.Edges().Ended(ctx, "", time.Now(), 1)
	require.NoError(t, err)
	_, err = db.Progress().List(ctx, message.ID{}, message.MaxID, 1)
	require.NoError(t, err)
	_, err = db.Users().Due(ctx, userstate.Dead{Before: time.Now(), After: time.Now()}, 1)
	require.NoError(t, err)
	_, err = db.Users().List(ctx, 0, "", 1)
	require.NoError(t, err)
	_, err = db.Topics().List(ctx, "", "", 1)
	require.NoError(t, err)
	_, err = db.Keys().Forget(ctx, time.Now(), 1)
	require.NoError(t, err)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for listed := range scattering {
		require.True(t, seen.scattered[listed], "%s is listed as scattering, and does not", listed)
	}
}
