//go:build mongodb

package mongostore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// recorder keeps the commands that were sent, and how many documents each returned.
type recorder struct {
	mu       sync.Mutex
	commands []bson.Raw
	ids      []int64
	returned map[int64]int
}

func (r *recorder) monitor() *event.CommandMonitor {
	return &event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.commands, r.ids = append(r.commands, append(bson.Raw{}, e.Command...)), append(r.ids, e.RequestID)
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			documents := len(documents(document(e.Reply, "cursor"), "firstBatch"))
			if len(document(e.Reply, "value")) > 0 {
				documents = 1
			}
			r.returned[e.RequestID] = documents
		},
	}
}

// take returns the first command of a name that was sent since forget, and how many documents it returned.
func (r *recorder) take(t *testing.T, name string) (bson.Raw, int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, c := range r.commands {
		if elements, _ := c.Elements(); elements[0].Key() == name {
			return c, r.returned[r.ids[i]]
		}
	}
	require.Fail(t, "no such command was sent", name)
	return nil, 0
}

// forget removes the recorded commands.
func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands, r.ids = nil, nil
}

// TestHottestQueries has the server explain what is asked of it most: each query uses the index that is meant for it, from one bound
// to another, and returns no more documents than are needed.
func TestHottestQueries(t *testing.T) {
	t.Parallel()
	_, opts := create(t)
	sent := &recorder{returned: make(map[int64]int)}
	opts.Monitor = sent.monitor()
	db := open(t, opts)
	ctx := t.Context()
	crowd := crowded(t, db)

	ann := crowd.owners[0]
	for _, hot := range []struct {
		name string
		do   func() error
		// command is what is sent for it, or united, on collection, by index; documents is how many that returns.
		command, collection, index string
		documents                  int
		// bounds are fields that the index is searched by, in this order.
		bounds []string
	}{
		{
			"deliver: the guarded push", func() error {
				_, err := db.Inbox().Push(ctx, []bucket.Push{{Owner: ann, Sequence: 1, Guard: true, Entries: entriesOf(1000, 1)}})
				return err
			}, "update", "inbox", "owner_sequence", 0, []string{"owner", "sequence"},
		},
		{
			"fan-out: the next followers of an author", func() error {
				_, err := db.Edges().Followers(ctx, "author", 3, "", 20)
				return err
			}, "find", "followers", "followee_partition_follower", 20, []string{"followee", "partition", "follower"},
		},
		{
			"read: note that somebody has looked", func() error {
				_, err := db.Users().View(ctx, []userstate.View{{User: ann, At: time.Now(), Beyond: time.Now()}})
				return err
			}, "findAndModify", "users", "_id", 1, []string{"_id"},
		},
		{
			"read: the tombstones of the first page", func() error {
				_, _, err := db.Inbox().Newest(ctx, ann, 0, 2, 0)
				return err
			}, "aggregate", "inbox", "owner_deleted", 2, []string{"owner", "deleted"},
		},
		{
			"read: the first page", func() error {
				_, _, err := db.Inbox().Newest(ctx, ann, 0, 2, 0)
				return err
			}, united, "inbox", "owner_sequence", 2, []string{"owner", "sequence"},
		},
		{
			"fan out on read: pending edges", func() error {
				_, err := db.Edges().Following(ctx, ann, "", 20)
				return err
			}, "find", "followers", "follower_followee", 0, []string{"follower"},
		},
		{
			"fan out on read: messages of authors", func() error {
				ranges := []message.Range{{From: "author-1", Before: message.MaxID}, {From: "author-2", Before: message.MaxID}}
				_, err := db.Messages().ToFollowers(ctx, ranges, message.NewestFirst, 10)
				return err
			}, "find", "messages", "from__id_audience_lag", 40, []string{"from", "_id"},
		},
		{
			"list: the newest messages", func() error {
				_, _, err := db.Messages().Newest(ctx, "", message.MaxID, 10)
				return err
			}, "find", "messages", "_id", 10, []string{"_id"},
		},
		{
			"list: the newest messages of an author", func() error {
				_, _, err := db.Messages().Newest(ctx, "author-1", message.MaxID, 10)
				return err
			}, "find", "messages", "from__id_audience_lag", 10, []string{"from", "_id"},
		},
	} {
		sent.forget()
		require.NoError(t, hot.do(), hot.name)
		command, returned := sent.take(t, strings.TrimPrefix(hot.command, "united "))
		if hot.command == united {
			command = unionOf(t, command)
		}
		require.Equal(t, hot.collection, command.Index(0).Value().StringValue(), hot.name)
		plan := explained(t, raw(t, opts), hot.collection, command)
		t.Logf("%-42s %-9s %-27s returned %2d, bounds %s", hot.name, hot.collection, plan.index, returned, plan.bounds)
		require.Contains(t, plan.index, hot.index, hot.name)
		require.False(t, plan.scans, "%s: %s", hot.name, plan.text)
		at := -1
		for _, field := range hot.bounds {
			next := strings.Index(plan.bounds, `"`+field+`"`)
			require.Greater(t, next, at, "%s: %s is no bound in %s", hot.name, field, plan.bounds)
			at = next
		}
		if hot.documents > 0 {
			require.LessOrEqual(t, returned, hot.documents, hot.name)
		}
	}
}

// united stands for what an aggregate adds to its results: a plan shows only what it begins with.
const united = "united aggregate"

// unionOf returns an aggregate whose pipeline is the one that another aggregate adds.
func unionOf(t *testing.T, command bson.Raw) bson.Raw {
	t.Helper()
	collection := command.Index(0).Value().StringValue()
	for _, stage := range documents(command, "pipeline") {
		if added, err := stage.LookupErr("$unionWith", "pipeline"); err == nil {
			raw, err := bson.Marshal(bson.D{{Key: "aggregate", Value: collection}, {Key: "pipeline", Value: added}, {Key: "cursor", Value: bson.D{}}})
			require.NoError(t, err)
			return raw
		}
	}
	require.Fail(t, "nothing is added")
	return nil
}

// crowd is who is in a database.
type crowd struct{ owners []message.UserID }

// crowded fills a database, so that reading all of a collection is not the least that can be done.
func crowded(t *testing.T, db *mongostore.DB) crowd {
	t.Helper()
	ctx := t.Context()
	owners := numbered(1000)
	var appends []bucket.Append
	var pairs []follow.Pair
	now := time.Now().UTC().Truncate(time.Millisecond)
	for _, owner := range owners {
		appends = append(appends, bucket.Append{Owner: owner, Entries: entriesOf(1, 60)})
		pairs = append(pairs, follow.Pair{Follower: owner, Followee: "author"})
	}
	results, err := bucket.NewAppender(db.Inbox(), noHints{}).Append(ctx, appends)
	require.NoError(t, err)
	for _, r := range results {
		require.NoError(t, r.Err)
	}
	require.NoError(t, storetest.See(ctx, db.Users(), now, time.Hour, owners...))
	_, err = db.Edges().Follow(ctx, pairs, now)
	require.NoError(t, err)
	var messages []message.Message
	for n := range 2000 {
		messages = append(messages, message.Message{
			ID: sentAt(now.Add(-time.Duration(n)*time.Minute), n), From: message.UserID(fmt.Sprintf("author-%d", n%50)),
			Audience: message.AudienceFollowers, Body: "hello",
		})
	}
	_, err = db.Messages().Insert(ctx, messages, messagetest.AnyTime)
	require.NoError(t, err)
	return crowd{owners: owners}
}

// plan is how a server carries out a query.
type plan struct {
	index, bounds string
	scans         bool // it reads the whole collection
	text          string
}

// explained asks the server how it carries out a command, or finds what a command that writes has to find.
func explained(t *testing.T, database *mongo.Database, collection string, command bson.Raw) plan {
	t.Helper()
	elements, err := command.Elements()
	require.NoError(t, err)
	query := bson.D{{Key: "find", Value: collection}}
	switch elements[0].Key() {
	case "update":
		query = append(query, bson.E{Key: "filter", Value: document(documents(command, "updates")[0], "q")})
	case "findAndModify":
		query = append(query, bson.E{Key: "filter", Value: document(command, "query")})
	default:
		query = nil
		for _, e := range elements {
			if name := e.Key(); !strings.HasPrefix(name, "$") && name != "lsid" && name != "maxTimeMS" && name != "readConcern" {
				query = append(query, bson.E{Key: name, Value: e.Value()})
			}
		}
	}
	var said bson.Raw
	require.NoError(t, database.RunCommand(t.Context(), bson.D{{Key: "explain", Value: query}, {Key: "verbosity", Value: "queryPlanner"}}).Decode(&said))
	p := plan{text: said.String()}
	p.scans = strings.Contains(p.text, "COLLSCAN") || strings.Contains(p.text, "Seq Scan")
	p.read(said)
	return p
}

// read takes the first index and its bounds from a plan, wherever in it they are.
func (p *plan) read(at bson.Raw) {
	elements, _ := at.Elements()
	for _, e := range elements {
		switch value := e.Value(); {
		case e.Key() == "indexName" && p.index == "":
			p.index = value.StringValue()
		case e.Key() == "indexBounds" && p.bounds == "":
			p.bounds = strings.ReplaceAll(value.String(), `\"`, `"`) // DocumentDB has them in a text
		case e.Key() == "Index Name" && p.index == "":
			p.index = value.StringValue()
		case e.Key() == "Index Cond" && p.bounds == "" && strings.Contains(value.StringValue(), "object_id"):
			p.bounds = `"_id"` // that is what DocumentDB's own key is called
		case e.Key() == "IndexCosts" || e.Key() == "command" || e.Key() == "rejectedPlans": // what was not chosen, and what was asked
		case value.Type == bson.TypeEmbeddedDocument:
			p.read(value.Document())
		case value.Type == bson.TypeArray:
			p.read(bson.Raw(value.Array()))
		}
	}
}
