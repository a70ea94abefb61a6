package httpapi_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/following"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/identities"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/live"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
	"github.com/fanmail/fanmail/internal/topics"
	"github.com/fanmail/fanmail/internal/wake"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

const partitions = 4

// world is a handler on real services and a real store. It has rehydration but no fan-out: tests append to inboxes themselves.
type world struct {
	handler  http.Handler
	services httpapi.Services // the services of the handler
	options  httpapi.Options
	db       *pebblestore.DB
	appender *bucket.Appender
	// work runs rehydrations until the test ends.
	work func()
	hub  *wake.Hub
	bus  *emitter
	log  *telemetrytest.Buffer

	mu  sync.Mutex
	now time.Time
	// ahead is the difference between the publisher's clock and the store's.
	ahead time.Duration
}

// settings are a test's changes to the default world.
type settings struct {
	random   io.Reader
	messages func(message.Store) message.Store
	// fs, unless it is nil, has the store, in a folder.
	fs     vfs.FS
	folder string
	// users, unless it is nil, wraps the store of users' states for rehydrations and views.
	users func(userstate.Store) userstate.Store
	// identities, unless it is nil, wraps the store of identities.
	identities func(identity.Store) identity.Store
	options    func(*httpapi.Options)
	// ready are the reasons why the server is not ready, limited the reasons why it serves with limits.
	ready, limited []client.Reason
	services       func(*httpapi.Services)
	// rules are those of rehydrations; nil means the default.
	rules func() userstate.Rules
	// idle means that rehydrations wait until the test calls work.
	idle bool
}

func newWorld(tb testing.TB, change settings) *world {
	tb.Helper()
	w := &world{bus: &emitter{}, log: &telemetrytest.Buffer{}, now: messagetest.Epoch}
	if change.fs == nil {
		change.fs = vfs.NewMem()
	}
	db, err := pebblestore.Open(tb.Context(), filepath.Join(change.folder, "store"), pebblestore.Options{
		Partitions: partitions, FS: change.fs, Now: w.clock, Logger: zerolog.Nop(),
	})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	w.db, w.appender = db, bucket.NewAppender(db.Inbox(), db.Users())
	var messages message.Store = db.Messages()
	if change.messages != nil {
		messages = change.messages(messages)
	}
	if change.rules == nil {
		change.rules = userstate.DefaultRules
	}
	if change.random == nil {
		change.random = zeros{}
	}
	options := httpapi.Options{PageMax: 200, BatchLines: 10_000, Limits: message.DefaultLimits(), Logger: zerolog.New(w.log).Level(zerolog.DebugLevel), Now: w.clock}
	if change.options != nil {
		change.options(&options)
	}
	patience := time.Minute
	if change.idle {
		patience = time.Millisecond
	}
	var users userstate.Store = db.Users()
	if change.users != nil {
		users = change.users(users)
	}
	rehydrator := rehydrate.New(
		rehydrate.Stores{Messages: messages, Users: users, Edges: db.Edges(), Appender: w.appender},
		rehydrate.Options{
			Rules: change.rules, Workers: 2, Queue: 10_000, Page: 200, Lease: time.Hour,
			ReapEvery: time.Hour, Patience: patience, Token: rand.Text, Now: w.clock, Logger: options.Logger,
		},
	)
	w.work = func() { background(tb, rehydrator.Run) }
	if !change.idle {
		w.work()
	}
	var names identity.Store = db.Identities()
	if change.identities != nil {
		names = change.identities(names)
	}
	identified := identities.New(names, identities.Options{Now: w.clock})
	followings := following.New(db.Edges(), messages, db.Users(), w.appender, following.Options{
		Partitions: partitions, Rules: userstate.DefaultRules, Now: w.clock, Clock: func(context.Context) (time.Time, bool, error) { return w.clock(), true, nil },
	})
	subscriptions := topics.New(db.Topics(), db.Edges(), followings, topics.Options{Partitions: partitions, Now: w.clock})
	inboxes := inbox.New(
		inbox.Stores{Buckets: db.Inbox(), Users: db.Users(), Appender: w.appender, Flags: db.Flags()}, rehydrator,
		inbox.Options{Rules: userstate.DefaultRules, Now: w.clock, Expired: w.expired},
	)
	w.hub = wake.New(wake.Options{})
	services := httpapi.Services{
		Live:       live.New(inboxes, w.hub, live.Options{Max: 4, PerUser: 2, LookEvery: time.Hour, Logger: options.Logger}),
		Identities: identified,
		Publish: publish.New(messages, db.Keys(), w.bus, publish.Options{
			Identities: identified, Limits: options.Limits, Rules: userstate.DefaultRules, KeyTTL: func() time.Duration { return 24 * time.Hour }, Unknown: subscriptions.Unknown, Now: w.publisherClock, Random: change.random, Logger: zerolog.Nop(),
		}),
		Reporter: publish.NewReporter(messages, db.Progress(), db.Edges(), db.Users(), publish.ReporterOptions{
			Partitions: partitions, Now: w.clock,
			Removed: func(ctx context.Context, user message.UserID, id message.ID) (bool, error) {
				return inbox.Removed(ctx, inbox.Stores{Users: db.Users(), Buckets: db.Inbox()}, user, id)
			},
		}),
		Following: followings,
		Topics:    subscriptions,
		Inbox:     inboxes,
		Rehydrate: rehydrator,
		Metrics:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "measured\n") }),
		Ready:     func(context.Context) (reasons, limited []client.Reason) { return change.ready, change.limited },
	}
	if change.services != nil {
		change.services(&services)
	}
	w.services, w.options, w.handler = services, options, httpapi.New(services, options)
	return w
}

// expired lets messages expire as of now.
func (w *world) expired(_ context.Context, keep userstate.Retention, _ bool) (message.ID, error) {
	if keep.MaxAge == 0 {
		return message.ID{}, nil
	}
	return message.LastBefore(w.clock().Add(-keep.MaxAge)), nil
}

// background runs a function until the test ends.
func background(tb testing.TB, run func(intake, work context.Context)) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	intake, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(intake, ctx)
	}()
	tb.Cleanup(func() {
		stop()
		<-ended
	})
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) publisherClock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now.Add(w.ahead)
}

// setAhead sets how far the publisher's clock is ahead.
func (w *world) setAhead(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead = d
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// ask sends a request to the handler and returns the answer. headers alternates names and values.
func (w *world) ask(tb testing.TB, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	requireDescribed(tb, r, body, answer)
	return answer
}

// must sends a request, requires the given status, and returns the body.
func (w *world) must(tb testing.TB, status int, method, target, body string, headers ...string) string {
	tb.Helper()
	answer := w.ask(tb, method, target, body, headers...)
	require.Equal(tb, status, answer.Code, answer.Body.String())
	return answer.Body.String()
}

// see makes users active.
func (w *world) see(tb testing.TB, users ...string) {
	tb.Helper()
	for _, user := range users {
		w.must(tb, http.StatusNoContent, http.MethodPut, "/v1/users/"+user, `{"last_viewed":"`+w.clock().Format(client.TimeLayout)+`"}`)
	}
	w.rest(tb)
}

// rest waits until no rehydration waits or runs.
func (w *world) rest(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		due, err := userstate.States(w.db.Users().Due(ctx, userstate.Dead{Before: w.clock().Add(24 * time.Hour)}, 1))
		require.NoError(tb, err)
		if len(due) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.Empty(tb, due, "rehydrations that do not end")
		}
	}
}

// deliver appends the messages from ann with the ids first to last of the series to an inbox.
func (w *world) deliver(tb testing.TB, owner message.UserID, first, last int) {
	tb.Helper()
	a := bucket.Append{Owner: owner}
	for n := first; n <= last; n++ {
		a.Entries = append(a.Entries, bucket.EntryOf(messagetest.Message(n, "ann")))
	}
	results, err := w.appender.Append(tb.Context(), []bucket.Append{a})
	require.NoError(tb, err)
	require.NoError(tb, results[0].Err)
	w.hub.Changed(owner)
}

// contents is all data of some users that requests can change.
type contents struct {
	Unfinished []message.Ref
	Events     int
	States     map[message.UserID]userstate.State
	Following  map[message.UserID]int
	Entries    map[message.UserID]int
}

func (w *world) contents(tb testing.TB, users ...message.UserID) contents {
	tb.Helper()
	c := contents{
		Events: w.bus.count(), States: map[message.UserID]userstate.State{},
		Following: map[message.UserID]int{}, Entries: map[message.UserID]int{},
	}
	var err error
	c.Unfinished, err = w.db.Messages().Unfinished(tb.Context(), message.ID{}, message.MaxID, 1000)
	require.NoError(tb, err)
	for _, user := range users {
		states, err := userstate.States(w.db.Users().Lookup(tb.Context(), []message.UserID{user}))
		require.NoError(tb, err)
		c.States[user] = states[0]
		edges, err := w.db.Edges().Following(tb.Context(), user, "", 1000)
		require.NoError(tb, err)
		c.Following[user] = len(edges)
		buckets, err := bucket.ReadSection(tb.Context(), w.db.Inbox(), bucket.Section{Owner: user, High: 1000}, bucket.AllFields)
		require.NoError(tb, err)
		for _, b := range buckets {
			for _, e := range b.Entries {
				if !e.Deleted {
					c.Entries[user]++
				}
			}
		}
	}
	return c
}

// problem decodes a problem document and checks the rules that hold for all of them.
func problem(tb testing.TB, answer *httptest.ResponseRecorder) client.Problem {
	tb.Helper()
	require.Equal(tb, client.ContentProblem, answer.Header().Get("Content-Type"), answer.Body.String())
	require.NotEmpty(tb, answer.Header().Get(client.RequestIDHeader))
	var p client.Problem
	decoder := json.NewDecoder(answer.Body)
	decoder.DisallowUnknownFields()
	require.NoError(tb, decoder.Decode(&p))
	require.Equal(tb, answer.Code, p.Status)
	require.NotEmpty(tb, p.Type)
	require.NotEmpty(tb, p.Title)
	require.NotEmpty(tb, p.Detail)
	return p
}

// emitter is a bus.Publisher that fails on demand, and if its context has ended.
type emitter struct {
	mu     sync.Mutex
	events []event.Published
	err    error
}

func (b *emitter) EmitPublished(ctx context.Context, events []event.Published, _ bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.events = append(b.events, events...)
	}
	return b.err
}

func (b *emitter) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.events)
}

func (b *emitter) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// zeros is a source of random bytes that makes ids the same in every run.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
