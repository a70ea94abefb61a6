package client_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/following"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/identities"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// epoch is the time at which the tests take place.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// startServer is startServers for one server with all roles.
func startServer(ctx context.Context) (url string, stop func() error, err error) {
	urls, stop, err := startServers(ctx, func(*httpapi.Services) {})
	if err != nil {
		return "", nil, err
	}
	return urls[0], stop, nil
}

// The roles that run apart, by what they lack.
func publisher(s *httpapi.Services) { s.Inbox, s.Rehydrate = nil, nil }

func rehydrator(s *httpapi.Services) {
	s.Publish, s.Reporter, s.Following, s.Identities = nil, nil, nil, nil
}

// startServers runs real handlers, one for each role, on a store in memory that they share. Its bus replaces the fan-out: it appends every
// message at once to the inboxes of the active users whom it names. Users are rehydrated as in production.
func startServers(ctx context.Context, roles ...func(*httpapi.Services)) (urls []string, stop func() error, err error) {
	now := func() time.Time { return epoch }
	db, err := pebblestore.Open(ctx, "store", pebblestore.Options{FS: vfs.NewMem(), Now: now, Logger: zerolog.Nop()})
	if err != nil {
		return nil, nil, err
	}
	appender := bucket.NewAppender(db.Inbox(), db.Users())
	limits := message.DefaultLimits()
	rehydrator := rehydrate.New(
		rehydrate.Stores{Messages: db.Messages(), Users: db.Users(), Edges: db.Edges(), Appender: appender},
		rehydrate.Options{
			Rules: userstate.DefaultRules, Workers: 2, Queue: 100, Page: 200,
			Lease: time.Hour, ReapEvery: time.Hour, Patience: time.Minute, Token: rand.Text, Now: now, Logger: zerolog.Nop(),
		},
	)
	intake, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rehydrator.Run(intake, context.WithoutCancel(ctx))
	}()
	identified := identities.New(db.Identities(), identities.Options{Now: now})
	services := httpapi.Services{
		Identities: identified,
		Publish: publish.New(db.Messages(), db.Keys(), directBus{db, appender}, publish.Options{
			Identities: identified, Limits: limits, Rules: userstate.DefaultRules, KeyTTL: func() time.Duration { return time.Hour }, Now: now, Random: rand.Reader, Logger: zerolog.Nop(),
		}),
		Reporter: publish.NewReporter(db.Messages(), db.Progress(), db.Edges(), db.Users(), publish.ReporterOptions{Partitions: partition.DefaultCount, Now: time.Now}),
		Following: following.New(db.Edges(), db.Messages(), db.Users(), appender, following.Options{
			Partitions: partition.DefaultCount, Rules: userstate.DefaultRules, Now: now,
		}),
		Inbox: inbox.New(
			inbox.Stores{Buckets: db.Inbox(), Users: db.Users(), Appender: appender, Flags: db.Flags()}, rehydrator,
			inbox.Options{Rules: userstate.DefaultRules, Now: now},
		),
		Rehydrate: rehydrator,
		Ready:     func(context.Context) (reasons, limited []client.Reason) { return nil, nil },
	}
	var servers []*httptest.Server
	for _, role := range roles {
		of := services
		role(&of)
		server := httptest.NewServer(httpapi.New(of, httpapi.Options{PageMax: 200, BatchLines: 10_000, Limits: limits, Logger: zerolog.Nop(), Now: now}))
		servers, urls = append(servers, server), append(urls, server.URL)
	}
	return urls, func() error {
		for _, server := range servers {
			server.Close()
		}
		end()
		<-ended
		return db.Close()
	}, nil
}

// directBus is a bus that appends messages to inboxes at once.
type directBus struct {
	db       *pebblestore.DB
	appender *bucket.Appender
}

func (p directBus) EmitPublished(ctx context.Context, events []event.Published, _ bool) error {
	for _, e := range events {
		m, err := p.db.Messages().Get(ctx, e.Ref())
		if err != nil {
			return err
		}
		var appends []bucket.Append
		for _, user := range m.To {
			state, err := userstate.Get(ctx, p.db.Users(), user)
			if err != nil {
				return err
			}
			if !state.Deliver(m.Sent()) {
				continue
			}
			appends = append(appends, bucket.Append{Owner: user, Entries: []bucket.Entry{bucket.EntryOf(m.Message)}})
		}
		if _, err := p.appender.Append(ctx, appends); err != nil {
			return err
		}
		if err := p.record(ctx, e.Ref(), len(appends), len(m.To)-len(appends)); err != nil {
			return err
		}
	}
	return nil
}

func (p directBus) record(ctx context.Context, ref message.Ref, delivered, skipped int) error {
	return p.db.Messages().Conclude(ctx, []message.Ending{{Ref: ref, Delivered: int64(delivered), Skipped: int64(skipped)}})
}

// newClient returns a client of the real handlers of roles that run apart.
func newClient(t *testing.T) *client.Client {
	t.Helper()
	urls, stop, err := startServers(t.Context(), publisher, rehydrator)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stop()) })
	c, err := client.New(urls[0], client.Options{Rehydrator: urls[1], Pause: time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// connect returns a client of a server with short pauses between tries.
func connect(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(url, client.Options{Pause: time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// fakeServer runs a server with the given answers, and returns a client of it.
func fakeServer(t *testing.T, answer http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return connect(t, server.URL)
}
