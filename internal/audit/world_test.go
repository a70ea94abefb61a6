package audit_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/pkg/verdict"
	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/tamper/damage"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	partitions   = 2
	slack        = 2 * time.Minute
	tolerance    = 2 * time.Second
	dormantAfter = time.Hour
	// day is long after everything that happens within the slack, the tolerance or before a horizon.
	day = 24 * time.Hour
)

// epoch is when the tests begin.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// world is an audit on a real store. Tests do what fan-out would do by hand.
type world struct {
	t *testing.T
	*audit.Service
	db       *pebblestore.DB
	appender *bucket.Appender
	files    vfs.FS
	now      time.Time
	ids      uint32
	// messages are those that a rehydrator reads; nil means those of db.
	messages message.Store
	// workerless says that no fan-out worker runs.
	workerless bool
}

func rules() userstate.Rules {
	return userstate.Rules{DormantAfter: dormantAfter, ClockTolerance: tolerance, PublishSlack: slack}
}

// newWorld returns a world in which ben was seen just now and follows ann since an hour.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, files: vfs.NewMem(), now: epoch}
	w.open()
	t.Cleanup(func() { require.NoError(t, w.db.Close()) })
	w.follow("ben", "ann", epoch.Add(-time.Hour))
	w.see("ben", epoch)
	return w
}

func (w *world) open() {
	t := w.t
	t.Helper()
	db, err := pebblestore.Open(t.Context(), "store", pebblestore.Options{
		Partitions: partitions, FS: w.files, Now: func() time.Time { return w.now }, Settings: storetest.Proposed, Logger: zerolog.Nop(),
	})
	require.NoError(t, err)
	w.db, w.appender = db, bucket.NewAppender(db.Inbox(), db.Users())
	w.Service = w.audit(db.Inbox())
}

func (w *world) audit(buckets bucket.Store) *audit.Service { return w.auditBy(buckets, rules) }

// auditBy returns an audit with rules of its own.
func (w *world) auditBy(buckets bucket.Store, rules func() userstate.Rules) *audit.Service {
	return audit.New(audit.Stores{
		Messages: w.db.Messages(), Progress: w.db.Progress(), Users: w.db.Users(), Edges: w.db.Edges(), Flags: w.db.Flags(),
		Buckets: buckets, Appender: w.appender,
	}, audit.Options{
		Partitions: partitions, Rules: rules, CatchUp: time.Millisecond, Random: rand.Reader, Now: func() time.Time { return w.now },
		Recount: w.rehydrator(0).Recount, Waits: progress.Waits{Lease: time.Minute, Workers: func() bool { return !w.workerless }},
	})
}

// damage closes the store, lets something be done to its files, and opens it again.
func (w *world) damage(do func(damage.Store) error) {
	t := w.t
	t.Helper()
	require.NoError(t, w.db.Close())
	require.NoError(t, do(damage.Folder{Path: "store", Files: w.files}))
	w.open()
}

func (w *world) see(user message.UserID, at time.Time) {
	t := w.t
	t.Helper()
	require.NoError(t, storetest.See(t.Context(), w.db.Users(), at, dormantAfter, user))
}

func (w *world) follow(follower, followee message.UserID, at time.Time) {
	t := w.t
	t.Helper()
	_, err := w.db.Edges().Follow(t.Context(), []follow.Pair{{Follower: follower, Followee: followee.Source()}}, at)
	require.NoError(t, err)
}

func (w *world) unfollow(follower, followee message.UserID, at time.Time) {
	t := w.t
	t.Helper()
	require.NoError(t, w.db.Edges().Unfollow(t.Context(), follow.Pair{Follower: follower, Followee: followee.Source()}, at))
}

// id returns a new id of a message that is sent at a time.
func (w *world) id(sent time.Time) message.ID {
	w.ids++
	id := message.MinID(sent)
	id[6], id[8] = 0x70, 0x80
	binary.BigEndian.PutUint32(id[12:], w.ids)
	return id
}

// toFollowers stores a message by ann to her followers, sent at a time and stored at once.
func (w *world) toFollowers(sent time.Time) message.Message {
	w.t.Helper()
	return w.store(message.Message{ID: w.id(sent), From: "ann", Audience: message.AudienceFollowers, Body: "to followers"}, sent)
}

// named stores a message by cleo to users whom it names.
func (w *world) named(sent time.Time, users ...message.UserID) message.Message {
	w.t.Helper()
	return w.store(message.Message{ID: w.id(sent), From: "cleo", To: users, Body: "named"}, sent)
}

// store stores a message at a time.
func (w *world) store(m message.Message, at time.Time) message.Message {
	t := w.t
	t.Helper()
	now := w.now
	w.now = at
	_, err := w.db.Messages().Insert(t.Context(), []message.Message{m}, rules().Timing())
	w.now = now
	require.NoError(t, err)
	return m
}

// plan plans the fan-out of a message for all partitions.
func (w *world) plan(m message.Message) message.Message {
	t := w.t
	t.Helper()
	var all []int
	for p := range partitions {
		all = append(all, p)
	}
	_, err := w.db.Progress().Plan(t.Context(), m.ID, "medium", all, w.now)
	require.NoError(t, err)
	return m
}

// append appends messages to ben's inbox.
func (w *world) append(messages ...message.Message) {
	t := w.t
	t.Helper()
	a := bucket.Append{Owner: "ben"}
	for _, m := range messages {
		a.Entries = append(a.Entries, bucket.EntryOf(m))
	}
	results, err := w.appender.Append(t.Context(), []bucket.Append{a})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
}

// deliver does all that fan-out does of messages to ben: it plans, appends, and records that it is done.
func (w *world) deliver(messages ...message.Message) {
	w.t.Helper()
	for _, m := range messages {
		w.pass(m)
	}
	w.append(messages...)
}

// state returns what is recorded of ben.
func (w *world) state() userstate.State {
	t := w.t
	t.Helper()
	st, err := userstate.Get(t.Context(), w.db.Users(), "ben")
	require.NoError(t, err)
	return st
}

// change changes what is recorded of ben.
func (w *world) change(change func(*userstate.State)) {
	t := w.t
	t.Helper()
	before := w.state()
	after := before
	after.Gaps = slices.Clone(before.Gaps)
	change(&after)
	stepped, err := w.db.Users().Step(t.Context(), []userstate.Step{{From: before, To: after}})
	require.NoError(t, err)
	require.True(t, stepped[0].Applied)
}

// rehydrator returns a rehydrator that appends at most limit messages. Its Work carries out what waits.
func (w *world) rehydrator(limit int) *rehydrate.Service {
	var messages message.Store = w.db.Messages()
	if w.messages != nil {
		messages = w.messages
	}
	return rehydrate.New(rehydrate.Stores{
		Messages: messages, Users: w.db.Users(), Edges: w.db.Edges(), Appender: w.appender,
	}, rehydrate.Options{
		Rules: rules, Limit: limit, Workers: 1, Queue: 10, Page: 10,
		Lease: time.Minute, ReapEvery: time.Hour, Patience: time.Second, Token: rand.Text,
		Now: func() time.Time { return w.now }, Logger: zerolog.Nop(),
	})
}

// back lets ben look at a time, after having been away, and rehydrates him.
func (w *world) back(at time.Time, limit int) {
	t := w.t
	t.Helper()
	w.now = at
	r := w.rehydrator(limit)
	_, err := r.Arrive(t.Context(), "ben", at)
	require.NoError(t, err)
	require.True(t, r.Work(t.Context()))
	require.False(t, w.state().Rehydrating())
}

func (w *world) inboxes() *inbox.Service {
	return inbox.New(inbox.Stores{
		Buckets: w.db.Inbox(), Users: w.db.Users(), Appender: w.appender, Flags: w.db.Flags(),
	}, w.rehydrator(0), inbox.Options{
		Rules: rules, Now: func() time.Time { return w.now },
	})
}

// read returns the ids that ben reads, newest first, and how many messages his inbox says it has.
func (w *world) read() (ids []message.ID, total int64) {
	t := w.t
	t.Helper()
	service := w.inboxes()
	for cursor := ""; ; {
		page, err := service.Read(t.Context(), "ben", inbox.Request{Before: cursor, Limit: 20, Peek: true})
		require.NoError(t, err)
		total = page.Total
		for _, e := range page.Entries {
			ids = append(ids, e.ID)
		}
		if cursor = page.Next; cursor == "" {
			return ids, total
		}
	}
}

// run audits, and returns the findings and the summary.
func run(ctx context.Context, t *testing.T, s *audit.Service, request audit.Request) ([]audit.Finding, verdict.Summary) {
	t.Helper()
	var findings []audit.Finding
	summary, err := s.Audit(ctx, request, func(e audit.Event) error {
		if e.Finding != nil {
			findings = append(findings, *e.Finding)
		}
		return nil
	})
	require.NoError(t, err)
	return findings, summary
}

var ben = partition.Of("ben", partitions)

func kindsOf(findings []audit.Finding) (kinds []verdict.Kind) {
	for _, f := range findings {
		kinds = append(kinds, f.Kind)
	}
	return kinds
}
