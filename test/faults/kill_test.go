//go:build long && mongod

package faults_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestKilledAmidFanout kills the database server several times during fan-outs, while messages are published.
func TestKilledAmidFanout(t *testing.T) {
	t.Parallel()
	const kills, lines = 3, 300
	ctx := bounded(t)
	database := ownDatabase{testenv.StartMongoDB(t)}
	w := newWorld(t, nil)
	w.use(ctx, database.URI(), database.name())
	s := w.start(ctx)
	driver := w.drive(ctx, w.cast.script(lines, true), "--pace", "30")
	for kill := range kills {
		w.awaitAccepted(ctx, driver, lines*(kill+1)/(kills+1))
		w.await(ctx, "messages are being fanned out", func() bool {
			require.True(t, driver.Running(), "publishing has ended: %s", driver.Stderr())
			return database.count(ctx, t, "messages", bson.D{{Key: "unfinished", Value: bson.D{{Key: "$exists", Value: true}}}}) > 0
		})
		database.Kill()
		w.outage(ctx, database.Start, driver)
	}
	w.done(ctx, driver)
	w.done(ctx, w.login(ctx, w.cast.away))
	w.requireRight(ctx)
	w.requireNoticed(ctx, s, kills)
	w.stop(ctx, s)
}

// TestKilledAmidRehydration kills the database server several times while it rebuilds the inbox of a user with a few thousand
// missed messages. The login must succeed in the end, and the inbox must equal the inbox of the twin.
func TestKilledAmidRehydration(t *testing.T) {
	t.Parallel()
	const kills, missed = 2, 4000
	ctx := bounded(t)
	database := ownDatabase{testenv.StartMongoDB(t)}
	w := newWorld(t, map[string]string{"rehydrate.page": "50"})
	w.use(ctx, database.URI(), database.name())
	w.cast = cast{away: w.cast.away[:1], authors: w.cast.authors}
	user := w.cast.away[0]
	s := w.start(ctx)
	w.send(ctx, missed, user, twin(user))
	login := w.login(ctx, []string{user}, "--by", "login")
	for kill := range kills {
		least := int64(missed / bucket.Capacity * (kill + 1) / (kills + 1))
		w.await(ctx, "a part of the inbox is rebuilt", func() bool {
			require.True(t, login.Running(), "the login was answered too early: %s", login.Stderr())
			return database.count(ctx, t, "inbox", bson.D{{Key: "owner", Value: user}}) >= least
		})
		database.Kill()
		w.outage(ctx, func() {
			require.True(t, login.Running(), "the login was answered without a database: %s", login.Stderr())
			database.Start()
		})
	}
	w.done(ctx, login)
	w.requireRight(ctx)
	w.requireNoticed(ctx, s, kills)
	w.stop(ctx, s)
}

// send publishes messages to users, and records their ids as accepted.
func (w *world) send(ctx context.Context, messages int, users ...string) {
	w.Helper()
	const batch = 250
	type accepted struct {
		ID       message.ID       `json:"id"`
		From     message.UserID   `json:"from"`
		To       []message.UserID `json:"to"`
		Body     string           `json:"body"`
		Answered time.Time        `json:"answered"`
	}
	to := make([]message.UserID, len(users))
	for i, user := range users {
		to[i] = message.UserID(user)
	}
	c, err := client.New(w.site.URL(), client.Options{})
	require.NoError(w, err)
	defer c.Close()
	var log strings.Builder
	for first := 0; first < messages; first += batch {
		drafts := make([]message.Draft, batch)
		for i := range drafts {
			drafts[i] = message.Draft{From: star, To: to, Body: strconv.Itoa(first + i)}
		}
		answers, err := c.PublishBatch(ctx, drafts, "")
		require.NoError(w, err)
		for i, a := range answers {
			require.NoError(w, a.Err)
			require.NoError(w, json.NewEncoder(&log).Encode(accepted{a.ID, a.From, to, drafts[i].Body, time.Now()}))
		}
	}
	w.write(w.published, log.String())
}

// ownDatabase is a database on a server that no other test uses.
type ownDatabase struct{ *testenv.MongoServer }

func (ownDatabase) name() string { return "fanmail" }

// count counts documents.
func (d ownDatabase) count(ctx context.Context, t *testing.T, collection string, filter bson.D) int64 {
	t.Helper()
	c, err := mongo.Connect(options.Client().ApplyURI(d.URI()))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Disconnect(ctx)) }()
	count, err := c.Database(d.name()).Collection(collection).CountDocuments(ctx, filter)
	require.NoError(t, err)
	return count
}
