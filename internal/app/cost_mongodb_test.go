//go:build mongodb

package app_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	driver "go.mongodb.org/mongo-driver/v2/event"

	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/following"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
	"github.com/fanmail/fanmail/test/testenv"
)

// commands keeps what was asked of a MongoDB server: each command with its collection, and how many documents queries returned.
type commands struct {
	mu        sync.Mutex
	sent      []string
	documents int
}

func (c *commands) monitor() *driver.CommandMonitor {
	return &driver.CommandMonitor{
		Started: func(_ context.Context, e *driver.CommandStartedEvent) {
			c.mu.Lock()
			defer c.mu.Unlock()
			collection, _ := e.Command.Lookup(e.CommandName).StringValueOK()
			c.sent = append(c.sent, strings.TrimSpace(e.CommandName+" "+collection))
		},
		Succeeded: func(_ context.Context, e *driver.CommandSucceededEvent) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if batch, ok := e.Reply.Lookup("cursor", "firstBatch").ArrayOK(); ok {
				values, _ := batch.Values()
				c.documents += len(values)
			}
		},
	}
}

// take returns what was asked since it was last taken.
func (c *commands) take() (sent []string, documents int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent, documents = c.sent, c.documents
	c.sent, c.documents = nil, 0
	return sent, documents
}

// tolerance is so great that half of it is enough for a command on a busy machine.
const tolerance = 10 * time.Minute

// measured is the services on a MongoDB database of their own.
type measured struct {
	*mongostore.DB
	*commands
	appender   *bucket.Appender
	rehydrator *rehydrate.Service
	inboxes    *inbox.Service
	publisher  *publish.Service
	router     *fanout.Router
	bus        *rig.Bus
}

func newMeasured(t *testing.T) measured { t.Helper(); return newMeasuredOf(t, bucket.Capacity) }

// newMeasuredOf is newMeasured with buckets of a size.
func newMeasuredOf(t *testing.T, size int) measured {
	t.Helper()
	uri, database := testenv.MongoDB(t)
	asked := &commands{}
	opts := mongostore.Options{
		BucketSize: size,
		URI:        uri, Database: database, Partitions: rig.Partitions, Timeout: time.Minute, ClockTolerance: func() time.Duration { return tolerance },
		Now: time.Now, Logger: zerolog.Nop(), Settings: storetest.Proposed, Monitor: asked.monitor(),
	}
	prepared, err := mongostore.Connect(t.Context(), opts)
	require.NoError(t, err)
	require.NoError(t, prepared.Init(t.Context(), false))
	require.NoError(t, prepared.Close())
	db, err := mongostore.Open(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	plain := db.Plain()

	rules := rig.Rules()
	rules.ClockTolerance = tolerance
	current := func() userstate.Rules { return rules }
	appender := bucket.NewAppender(db.Inbox(), db.Users())
	rehydrator := rehydrate.New(
		rehydrate.Stores{Messages: db.Messages(), Users: db.Users(), Edges: db.Edges(), Appender: appender},
		rehydrate.Options{
			Rules: current, Workers: 1, Queue: 1, Page: 1, Lease: time.Minute,
			ReapEvery: time.Hour, Token: func() string { return "token" }, Now: time.Now, Logger: zerolog.Nop(),
		})
	service := inbox.New(
		inbox.Stores{
			Buckets: db.Inbox(), Users: db.Users(), Appender: appender, Flags: db.Flags(),
			Shown: inbox.Shown{Buckets: plain.Inbox(), Users: plain.Users(), Flags: plain.Flags()},
		}, rehydrator, inbox.Options{Rules: current, ViewedEvery: rig.DormantAfter / 128, Now: time.Now})
	m := measured{DB: db, commands: asked, appender: appender, rehydrator: rehydrator, inboxes: service, bus: rig.NewBus(t, rig.Partitions)}
	m.publisher = publish.New(db.Messages(), db.Keys(), m.bus, publish.Options{
		Limits: message.DefaultLimits(), Rules: current, Now: time.Now, Random: rand.Reader, Logger: zerolog.Nop(),
		Blocks: following.New(db.Edges(), db.Messages(), db.Users(), appender, following.Options{}).Blocks,
	})
	m.router = fanout.NewRouter(fanout.Stores{
		Messages: db.Messages(), Ended: plain.Messages(), Progress: db.Progress(), Users: db.Users(), Edges: db.Edges(), Appender: appender,
		Round: retention.Number(db.Retention()),
	}, m.bus, fanout.Options{
		Partitions: rig.Partitions, Rules: current, DirectMax: 1000, MediumMax: 1000, ClassCache: 8, ClassTTL: time.Minute,
		Workers: map[event.Lane]int{event.Medium: 1, event.Bulk: 1}, BatchOwners: 4000, BatchBytes: 16 << 20, RouteEvents: 8, MaxAttempts: 2,
		Now: time.Now, Logger: zerolog.Nop(),
	})
	return m
}

// An idle cluster takes three writes for a direct message, and four round trips until it can be read: the insert, the message with its ending, the
// states, and the push. Before the insert, one read finds who blocks the author. One to followers takes one read more after it instead, which finds
// them. The round and the ending come afterwards.
func TestDirectMessageCosts(t *testing.T) {
	t.Parallel()
	m := newMeasured(t)
	followers := make([]follow.Pair, 100)
	for i := range followers {
		followers[i] = follow.Pair{Follower: message.UserID(fmt.Sprintf("user-%d", i)), Followee: message.UserID("ben").Source()}
		require.NoError(t, storetest.See(t.Context(), m.Users(), time.Now(), rig.DormantAfter, followers[i].Follower))
	}
	_, err := m.Edges().Follow(t.Context(), followers, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	first := m.publisher.Publish(t.Context(), []publish.Request{{Draft: message.Draft{From: "ben", To: []message.UserID{"user-1"}, Body: "hello"}}})[0]
	require.NoError(t, first.Err, "it raises the ceiling, as each process does once an hour")
	received, err := m.bus.TryFetch(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, m.router.Route(t.Context(), received))
	const insert = "findAndModify messages"
	read, deliver := []string{"find messages", "find messages"}, []string{"find users", "update inbox", "find meta", "update messages"}
	for name, test := range map[string]struct {
		draft         message.Draft
		publish, want []string
	}{
		"to one user":      {message.Draft{From: "ben", To: []message.UserID{"user-1"}, Body: "hello"}, []string{"find followers", insert}, deliver},
		"to 100 followers": {message.Draft{From: "ben", Audience: message.AudienceFollowers, Body: "hello"}, []string{insert}, append([]string{"find followers"}, deliver...)},
	} {
		m.take()
		result := m.publisher.Publish(t.Context(), []publish.Request{{Draft: test.draft}})[0]
		require.NoError(t, result.Err, name)
		sent, _ := m.take()
		require.Equal(t, test.publish, sent, name)
		received, err := m.bus.TryFetch(t.Context(), 1)
		require.NoError(t, err, name)
		require.NoError(t, m.router.Route(t.Context(), received), name)
		sent, _ = m.take()
		require.Equal(t, append(read, test.want...), sent, name)
	}
}

// A page of 50 is one query of users and one of the inbox, which returns two documents. A view is recorded if the last one is not recent.
func TestPageCostsTwoCommands(t *testing.T) {
	t.Parallel()
	m := newMeasured(t)
	now := time.Now()
	seen := storetest.Seen("ann", now.Add(-rig.DormantAfter/64), rig.DormantAfter)
	stepped, err := m.Users().Step(t.Context(), []userstate.Step{{From: userstate.State{User: "ann"}, To: seen}})
	require.NoError(t, err)
	require.True(t, stepped[0].Applied)
	ids := message.NewGenerator(time.Now, rig.UniqueBytes{})
	entries := make([]bucket.Entry, 140) // two buckets and the better part of a third
	for i := range entries {
		id, err := ids.Next()
		require.NoError(t, err)
		entries[i] = bucket.Entry{ID: id, From: "ben", Body: "hello"}
	}
	_, err = m.appender.Append(t.Context(), []bucket.Append{{Owner: "ann", Entries: entries}})
	require.NoError(t, err)

	for _, want := range [][]string{{"find users", "findAndModify users", "aggregate inbox"}, {"find users", "aggregate inbox"}} {
		m.take()
		page, err := m.inboxes.Read(t.Context(), "ann", inbox.Request{Limit: 50})
		require.NoError(t, err)
		require.Len(t, page.Entries, 50)
		require.Equal(t, []int64{140, 140}, []int64{page.Total, page.Unread})
		sent, documents := m.take()
		require.Equal(t, want, sent)
		require.Equal(t, 3, documents)
	}
}

// A login that raises the horizon of an active user takes five commands: the view that does not apply, the state, the raise, the look
// for later messages at the ceiling, and the end of the debt.
func TestRaiseOfAHorizonCostsFiveCommands(t *testing.T) {
	t.Parallel()
	m := newMeasured(t)
	now := time.Now()
	require.NoError(t, storetest.See(t.Context(), m.Users(), now.Add(-rig.DormantAfter/2), rig.DormantAfter, "ann"))
	m.take()
	for _, want := range [][]string{
		{"findAndModify users", "find users", "findAndModify users", "find meta", "findAndModify users"},
		{"findAndModify users"},
	} {
		result, err := m.rehydrator.Login(t.Context(), "ann", now, 0)
		require.NoError(t, err)
		require.True(t, result.Done)
		sent, _ := m.take()
		require.Equal(t, want, sent)
	}
}

// A rehydration that finds nothing lists the user's edges twice, for its first query and for the sweep. Each list is one query of the
// pending edges and then one of the others.
func TestRehydrationCosts(t *testing.T) {
	t.Parallel()
	m := newMeasured(t)
	_, err := m.Edges().Follow(t.Context(), []follow.Pair{{Follower: "ann", Followee: "ben"}}, time.Now())
	require.NoError(t, err)
	require.NoError(t, storetest.See(t.Context(), m.Users(), time.Now().Add(-2*rig.DormantAfter), rig.DormantAfter, "ann"))
	_, err = m.rehydrator.Login(t.Context(), "ann", time.Now(), 0)
	require.NoError(t, err)
	m.take()
	require.True(t, m.rehydrator.Work(t.Context()))
	sent, _ := m.take()
	t.Log(sent)
	edges := slices.DeleteFunc(sent, func(c string) bool { return !strings.HasSuffix(c, " followers") && !strings.HasSuffix(c, " following") })
	require.Equal(t, []string{"find followers", "find following", "find followers", "find following"}, edges)
}

// The counts of 1,000 inboxes take at most 20 commands: also if messages have expired in all of them, some came late, and some were deleted.
func TestCountsCostFewCommands(t *testing.T) {
	t.Parallel()
	m := newMeasuredOf(t, 15)
	users, want := make([]message.UserID, 1000), make([]inbox.Count, 1000)
	ids := message.NewGenerator(time.Now, rig.UniqueBytes{})
	entries := make([]bucket.Entry, 61)
	for i := range entries {
		id, err := ids.Next()
		require.NoError(t, err)
		entries[i] = bucket.Entry{ID: id, From: "ben"}
	}
	purged := entries[20].ID
	var steps []userstate.Step
	appends := [3][]bucket.Append{}
	for i := range users {
		users[i] = message.UserID(fmt.Sprintf("user-%d", i))
		seen := storetest.Seen(users[i], time.Now(), rig.DormantAfter)
		seen.Purged, seen.Oldest = purged, 1
		steps = append(steps, userstate.Step{From: userstate.State{User: users[i]}, To: seen})
		for k, part := range [][]bucket.Entry{entries[:7], entries[11:], entries[7:11]} { // some in order, and four that came late
			appends[k] = append(appends[k], bucket.Append{Owner: users[i], Entries: part})
		}
		want[i] = inbox.Count{User: users[i], Tally: bucket.Tally{Total: 40, Unread: 40, Unseen: 40}, Complete: true}
	}
	_, err := m.Users().Step(t.Context(), steps)
	require.NoError(t, err)
	for _, part := range appends {
		_, err := m.appender.Append(t.Context(), part)
		require.NoError(t, err)
	}
	for _, user := range users[:300] {
		require.NoError(t, m.inboxes.Delete(t.Context(), user, entries[50].ID))
	}
	for i := range want[:300] {
		want[i].Tally = bucket.Tally{Total: 39, Unread: 39, Unseen: 39}
	}
	m.take()
	got, err := m.inboxes.Counts(t.Context(), users)
	require.NoError(t, err)
	require.Equal(t, want, got)
	sent, documents := m.take()
	require.LessOrEqual(t, len(sent), 20, "%v", sent)
	require.NotContains(t, sent, "getMore", "each query has one reply")
	t.Log(len(sent), "commands,", documents, "documents")
}

// The inboxes of 1,000 idle streams are checked by eight commands, or nine if one of them has flags. A look that finds a message takes four.
func TestStreamsCost(t *testing.T) {
	t.Parallel()
	m := newMeasured(t)
	watched, steps := make([]inbox.Watched, 1000), make([]userstate.Step, 1000)
	for i := range watched {
		watched[i] = inbox.Watched{User: message.UserID(fmt.Sprintf("user-%d", i)), Peek: true}
		steps[i] = userstate.Step{From: userstate.State{User: watched[i].User}, To: storetest.Seen(watched[i].User, time.Now(), rig.DormantAfter)}
	}
	steps[7].To.Flagged = true
	_, err := m.Users().Step(t.Context(), steps)
	require.NoError(t, err)
	start, err := m.inboxes.Changes(t.Context(), "user-0", inbox.FrameRequest{Peek: true})
	require.NoError(t, err)
	m.take()
	behind, err := m.inboxes.Behind(t.Context(), watched)
	require.NoError(t, err)
	require.Len(t, behind, 1000)
	sent, _ := m.take()
	slices.Sort(sent)
	require.Equal(t, append([]string{"find flags"}, append(slices.Repeat([]string{"find inbox"}, 2+5), "find users")...), sent)

	id, err := message.NewGenerator(time.Now, rig.UniqueBytes{}).Next()
	require.NoError(t, err)
	_, err = m.appender.Append(t.Context(), []bucket.Append{{Owner: "user-0", Entries: []bucket.Entry{{ID: id, From: "ben"}}}})
	require.NoError(t, err)
	m.take()
	frame, err := m.inboxes.Changes(t.Context(), "user-0", inbox.FrameRequest{Cursor: start.Cursor, Peek: true})
	require.NoError(t, err)
	require.Len(t, frame.Entries, 1)
	sent, _ = m.take()
	require.Equal(t, []string{"find users", "find inbox", "find inbox", "find inbox"}, sent)
}
